"use strict";
// A click on a title sorts by its column, a second click in reverse. Empty values stay last.
for (const table of document.querySelectorAll("table")) {
  const heads = [...table.tHead.rows[0].cells];
  const body = table.tBodies[0];
  heads.forEach((head, column) => {
    head.querySelector("button").addEventListener("click", () => {
      const way = head.getAttribute("aria-sort") === "ascending" ? -1 : 1;
      heads.forEach((other) => other.removeAttribute("aria-sort"));
      head.setAttribute("aria-sort", way > 0 ? "ascending" : "descending");
      const key = (row) => row.cells[column].dataset.key;
      const compare = (a, b) => {
        if (a === "" || b === "") return (a === "") - (b === "");
        const [x, y] = [Number(a), Number(b)];
        return way * (Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, "en", { numeric: true }) : x - y);
      };
      body.append(...[...body.rows].sort((a, b) => compare(key(a), key(b))));
    });
  });
}
