"use strict";
const find = (id) => document.getElementById(id);
for (const place of document.querySelectorAll("pre span")) place.textContent = location.origin;

let asked = false;
find("form").addEventListener("submit", (event) => {
  asked = true;
  find("hint").hidden = true;
  find("send").disabled = true;
  find("status").textContent = "The model is running …";
  const path = find("form").dataset.stream;
  const text = find("text").value.trim().replace(/\s+/g, " ");
  if (!path || !text) return;
  event.preventDefault();
  grow(path, text);
});
find("answer").addEventListener("load", () => {
  if (!asked) return; // the empty frame
  if (find("growing")) find("growing").hidden = true;
  finish("");
});

// The pieces of an answer as they come, after its text; then the page of the whole.
async function grow(path, text) {
  const growing = find("growing");
  const [before, after] = growing.children;
  [before.textContent, after.textContent] = [text, ""];
  growing.hidden = false;
  const body = JSON.stringify({ text, stream: true });
  const headers = { "Content-Type": "application/json" };
  try {
    const answer = await fetch(path, { method: "POST", headers, body });
    if (answer.ok)
      for await (const value of events(answer.body)) {
        if (value.error) return finish(value.error);
        after.textContent += value.piece ?? "";
      }
  } catch {
    return finish("The server is gone.");
  }
  find("form").submit(); // which also shows why there is no answer
}

async function* events(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (let part = await reader.read(); !part.done; part = await reader.read()) {
    const found = (rest + part.value).split("\n\n");
    rest = found.pop();
    for (const one of found) yield JSON.parse(one.slice("data: ".length));
  }
}

function finish(said) {
  find("send").disabled = false;
  find("status").textContent = said;
  find("text").select();
}
