"use strict";
const ROW = 26, GAP = innerWidth < 640 ? 90 : 160; // the height of a token and the width of the lines, in px
const HINT = "Hover over a token to see its weights; click to keep it. By keyboard: Tab and the arrow keys, Escape to let go.";
const SIDES = { encoder: "Encoder", decoder: "Decoder", cross: "Cross" };

const written = (token) => token.replaceAll(" ", "▁");
const short = (token) => (written(token).length > 14 ? `${written(token).slice(0, 13)}…` : written(token));
const indices = (list) => [...list.keys()];

function element(name, properties = {}, ...children) {
  const made = Object.assign(document.createElement(name), properties);
  made.append(...children);
  return made;
}

function drawn(name, attributes, text = "") {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.textContent = text;
  return made;
}

// One stop of the Tab key for a group of buttons; arrow keys move within it.
function rove(box, columns) {
  const buttons = [...box.querySelectorAll("button")];
  const stop = (chosen) => buttons.forEach((one) => (one.tabIndex = one === chosen ? 0 : -1));
  stop(buttons[0]);
  box.onkeydown = (event) => {
    const step = { ArrowDown: columns, ArrowUp: -columns, ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const next = buttons[buttons.indexOf(document.activeElement) + step];
    if (!next) return;
    event.preventDefault();
    stop(next);
    next.focus();
  };
}

// Weights are bytes times a step for each row: see packed() in attention.py.
async function unpack(text) {
  const bytes = Uint8Array.from(atob(text), (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).arrayBuffer();
}

// The maps of one run; `views` are those of all runs.
function viewer(root, { sides, maps }, views) {
  const find = (name) => root.querySelector(`.${name}`);
  const weight = (map, head, q, k) => {
    const { queries, keys } = sides[map.side];
    const row = head * queries.length + q;
    return (map.bytes[row * keys.length + k] - map.zero) * map.rows[row];
  };
  const state = { map: null, heads: [], mean: [], largest: 0, hovered: null, kept: null };
  const tokens = () => sides[state.map.side];
  // A turn by the golden angle: a head has the same colour however many there are, and neighbours differ.
  const colour = (head) => `hsl(${Math.round((205 + 137.508 * head) % 360)} 70% var(--head-lightness))`;

  // Choosing: a side, then a map and its heads, then a token.

  function chooseSide(side) {
    const own = maps.filter((map) => map.side === side);
    state.kept = state.hovered = null;
    state.map = own[own.length - 1];
    root.classList.toggle("absent", !own.length);
    if (!own.length) return (find("chosen").textContent = `${SIDES[side]}: no map`);
    drawOverview(own);
    drawTokens("queries");
    drawTokens("keys");
    choose(state.map, indices(Array(state.map.heads)));
  }

  // What is chosen in one run is chosen in the others, where they have the same tokens.
  const set = (key, value) => views.forEach((view) => view.receive(key, value, sides[state.map.side]));
  function receive(key, value, theirs) {
    const lists = value?.cell === undefined ? [value?.list] : ["queries", "keys"];
    const same = (list) => theirs[list].join("\n") === tokens()[list].join("\n");
    if (!state.map || (value && !lists.every(same))) return;
    state[key] = value;
    show();
  }

  function choose(map, heads) {
    const { queries, keys } = sides[map.side];
    const mean = (q, k) => heads.reduce((sum, head) => sum + weight(map, head, q, k), 0) / heads.length;
    state.map = map;
    state.heads = heads;
    state.mean = queries.map((_, q) => keys.map((_, k) => mean(q, k)));
    state.largest = Math.max(...state.mean.flat().map(Math.abs)) || 1;
    const all = heads.length === map.heads;
    const named = heads.length === 1 ? `head ${heads[0]}` : `mean of ${all ? `all ${map.heads}` : ""} heads ${all ? "" : heads.join(", ")}`;
    find("chosen").textContent = `${SIDES[map.side]}, layer ${map.layer}, ${named}`;
    find("scale").textContent = `shaded from 0 to ${state.largest.toFixed(3)}`;
    for (const button of find("overview").querySelectorAll("button"))
      button.setAttribute("aria-pressed", button.map === map && button.heads.every((head) => heads.includes(head)));
    drawHeads();
    drawHeat();
    show();
  }

  // The token whose weights are shown: the hovered one, else the kept one.
  function show() {
    const { queries, keys } = tokens();
    const active = state.hovered ?? state.kept;
    const among = (q, k) => (active.list === "queries" ? state.mean[active.at][k] : state.mean[q][active.at]);
    for (const list of ["queries", "keys"])
      indices(tokens()[list]).forEach((at) => {
        const button = find(list).children[at];
        const value = active && active.list !== list ? among(at, at) : null;
        button.classList.toggle("active", active?.list === list && active.at === at);
        button.setAttribute("aria-pressed", state.kept?.list === list && state.kept.at === at);
        button.lastChild.textContent = value === null ? "" : value.toFixed(3);
        button.style.setProperty("--share", Math.abs(value ?? 0) / state.largest);
        button.style.setProperty("--tint", value < 0 ? "var(--worse)" : "var(--own)");
      });
    drawLines(active);
    frame(active);
    if (!active) return find("status").replaceChildren(HINT);
    const from = active.list === "queries";
    const others = from ? keys : queries;
    const values = others.map((_, at) => among(at, at));
    const seen = indices(others).filter((at) => Math.abs(values[at]) >= 0.0005); // not 0.000
    const best = [...seen].sort((a, b) => values[b] - values[a]).slice(0, 5);
    const number = (at) => `${short(others[at])} ${values[at].toFixed(3)}`;
    const sum = values.reduce((total, value) => total + value, 0);
    find("status").replaceChildren(
      element("b", { textContent: short(tokens()[active.list][active.at]) }),
      from ? " attends to " : " is attended to by ",
      active.cell === undefined ? "" : `${number(active.cell)}; most to `,
      best.map(number).join(" · ") || "nothing",
      seen.length > best.length ? " …" : "",
      from ? `; sum ${sum.toFixed(2)}` : "",
    );
  }

  // Drawing.

  function drawOverview(own) {
    const most = Math.max(...own.map((map) => map.heads));
    const button = (map, heads, label, ...children) => {
      return element("button", { type: "button", map, heads, onclick: () => choose(map, heads), ariaLabel: label }, ...children);
    };
    const titles = indices(Array(most)).map((head) => element("th", { textContent: `head ${head}`, scope: "col" }));
    const rows = own.map((map) => {
      const heads = indices(Array(map.heads));
      const name = `layer ${map.layer}`;
      const each = heads.map((head) => element("td", {}, button(map, [head], `${name}, head ${head}`, thumbnail(map, head))));
      return element("tr", {}, element("th", { scope: "row" }, button(map, heads, `${name}, all heads`, name)), ...each);
    });
    find("overview").replaceChildren(element("tr", {}, element("td"), ...titles), ...rows);
    rove(find("overview"), most + 1);
  }

  function thumbnail(map, head) {
    const { queries, keys } = sides[map.side];
    const canvas = element("canvas", { width: keys.length, height: queries.length });
    const values = queries.flatMap((_, q) => keys.map((_, k) => weight(map, head, q, k)));
    const largest = Math.max(...values.map(Math.abs)) || 1;
    const style = getComputedStyle(document.documentElement);
    const channels = (name) => style.getPropertyValue(name).trim().match(/\w\w/g).map((two) => parseInt(two, 16));
    const [positive, negative] = [channels("--own"), channels("--worse")];
    const pixels = values.flatMap((value) => [...(value < 0 ? negative : positive), (255 * Math.abs(value)) / largest]);
    canvas.getContext("2d").putImageData(new ImageData(Uint8ClampedArray.from(pixels), keys.length), 0, 0);
    return canvas;
  }

  function drawHeads() {
    find("heads").replaceChildren(
      element("legend", { textContent: "Heads" }),
      ...indices(Array(state.map.heads)).map((head) => {
        const box = element("input", { type: "checkbox", checked: state.heads.includes(head) });
        box.onchange = () => {
          const heads = indices(Array(state.map.heads)).filter((one) => (one === head ? box.checked : state.heads.includes(one)));
          choose(state.map, heads.length ? heads : [head]);
          find("heads").querySelectorAll("input")[head].focus();
        };
        const label = element("label", {}, box, element("span", { textContent: `head ${head}` }));
        label.style.setProperty("--head", colour(head));
        return label;
      }),
    );
  }

  function drawTokens(list) {
    const buttons = tokens()[list].map((token, at) => {
      const made = element("button", { type: "button", className: "token", title: token }, element("span", { textContent: written(token) }), element("span", { className: "weight" }));
      const same = () => state.kept?.list === list && state.kept.at === at;
      made.onpointerenter = () => set("hovered", { list, at });
      made.onpointerleave = () => set("hovered", null);
      made.onclick = () => set("kept", same() ? null : { list, at });
      made.onfocus = () => made.matches(":focus-visible") && set("kept", { list, at });
      return made;
    });
    find(list).replaceChildren(...buttons);
    rove(find(list), 1);
  }

  function drawLines(active) {
    const { queries, keys } = tokens();
    const svg = find("lines").querySelector("svg");
    const heads = state.heads;
    const strongest = Math.max(...heads.flatMap((head) => queries.flatMap((_, q) => keys.map((_, k) => Math.abs(weight(state.map, head, q, k)))))) || 1;
    const middle = (at) => (at + 0.5) * ROW;
    const lines = [];
    heads.forEach((head, place) => {
      const apart = (place - (heads.length - 1) / 2) * Math.min(3, 16 / heads.length); // no line hides another
      for (const q of indices(queries))
        for (const k of indices(keys)) {
          const share = Math.abs(weight(state.map, head, q, k)) / strongest;
          if (share < 0.04 || (active && (active.list === "queries" ? q : k) !== active.at)) continue;
          const line = drawn("line", { x1: 0, y1: middle(q) + apart, x2: GAP, y2: middle(k) + apart, "stroke-width": 0.6 + 2 * share, "stroke-opacity": share });
          line.style.setProperty("--head", colour(head));
          lines.push(line);
        }
    });
    svg.setAttribute("width", GAP);
    svg.setAttribute("height", ROW * Math.max(queries.length, keys.length));
    svg.replaceChildren(...lines);
  }

  function drawHeat() {
    const { queries, keys } = tokens();
    const size = Math.min(48, Math.max(13, Math.floor(480 / Math.max(queries.length, keys.length))));
    const left = 14 + 7.6 * Math.max(...queries.map((token) => short(token).length));
    const top = 16 + 6.2 * Math.max(...keys.map((token) => short(token).length));
    const parts = [drawn("rect", { class: "back", x: left, y: top, width: size * keys.length, height: size * queries.length })];
    queries.forEach((token, q) => parts.push(drawn("text", { class: "label query", x: left - 7, y: top + size * (q + 0.5), "text-anchor": "end", "dominant-baseline": "central" }, short(token))));
    keys.forEach((token, k) => {
      const [x, y] = [left + size * (k + 0.5), top - 7];
      parts.push(drawn("text", { class: "label key", x, y, transform: `rotate(-60 ${x} ${y})` }, short(token)));
    });
    state.mean.forEach((row, q) =>
      row.forEach((value, k) => {
        const share = Math.abs(value) / state.largest;
        const [x, y] = [left + size * k, top + size * q];
        const cell = drawn("rect", { class: value < 0 ? "cell negative" : "cell", x, y, width: size, height: size, "fill-opacity": share });
        cell.onpointerenter = () => set("hovered", { list: "queries", at: q, cell: k });
        parts.push(cell);
        if (size >= 34) parts.push(drawn("text", { class: share > 0.62 ? "number strong" : "number", x: x + size / 2, y: y + size / 2, "dominant-baseline": "central" }, value.toFixed(2)));
      }),
    );
    const svg = find("heat");
    const width = left + size * keys.length + 0.5 * top;
    svg.setAttribute("width", width);
    svg.setAttribute("height", top + size * queries.length + 4);
    svg.replaceChildren(...parts, drawn("rect", { class: "frame", visibility: "hidden" }));
    svg.onpointerleave = () => set("hovered", null);
    Object.assign(state, { size, left, top });
  }

  // A frame around the row or the column of the token, or around a cell.
  function frame(active) {
    const { size, left, top } = state;
    const { queries, keys } = tokens();
    const svg = find("heat");
    for (const [list, name] of [["queries", "query"], ["keys", "key"]])
      svg.querySelectorAll(`.${name}`).forEach((label, at) => {
        const here = active && ((active.list === list && active.at === at) || (list === "keys" && active.cell === at));
        label.classList.toggle("active", Boolean(here));
      });
    const shown = svg.querySelector(".frame");
    shown.setAttribute("visibility", active ? "visible" : "hidden");
    if (!active) return;
    const row = active.list === "queries";
    const box = row
      ? { x: left, y: top + size * active.at, width: size * keys.length, height: size }
      : { x: left + size * active.at, y: top, width: size, height: size * queries.length };
    if (active.cell !== undefined) Object.assign(box, { x: left + size * active.cell, width: size });
    for (const [key, value] of Object.entries(box)) shown.setAttribute(key, value);
  }

  // Colours of the page's style are read when a small map is drawn.
  function redraw() {
    for (const button of find("overview").querySelectorAll("td button")) button.replaceChildren(thumbnail(button.map, button.heads[0]));
  }

  return { chooseSide, receive, redraw };
}

async function start() {
  const runs = JSON.parse(document.getElementById("data").textContent);
  for (const map of runs.flatMap((run) => run.maps)) {
    map.bytes = new Uint8Array(await unpack(map.weights));
    map.rows = new Float32Array(await unpack(map.steps));
  }
  const views = [];
  document.querySelectorAll(".run").forEach((root, at) => views.push(viewer(root, runs[at], views)));

  const choose = (side) => {
    const own = radios.length === 1 ? "text" : "output"; // a language model reads the text itself
    const decoder = " A token of the decoder is one that it has read; from there it predicts the next.";
    document.getElementById("explained").textContent = {
      encoder: "From the tokens of the text to the tokens of the text.",
      decoder: `From the ${own} to the ${own}.${decoder}`,
      cross: `From the output to the text.${decoder}`,
    }[side];
    views.forEach((view) => view.chooseSide(side));
  };
  const box = document.getElementById("sides");
  const radios = [...box.querySelectorAll("input")];
  for (const radio of radios) radio.onchange = () => choose(radio.value);
  box.hidden = radios.length === 1;
  radios[radios.length - 1].checked = true;
  choose(radios[radios.length - 1].value);

  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") views.forEach((view) => ["kept", "hovered"].forEach((key) => view.receive(key, null)));
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => views.forEach((view) => view.redraw()));
}

start();
