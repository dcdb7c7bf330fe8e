"use strict";
const find = (id) => document.getElementById(id);
for (const place of document.querySelectorAll("pre span")) place.textContent = location.origin;

let asked = false;
find("form").addEventListener("submit", () => {
  asked = true;
  find("hint").hidden = true;
  find("send").disabled = true;
  find("status").textContent = "The model is running …";
});
find("answer").addEventListener("load", () => {
  if (!asked) return; // the empty frame
  find("send").disabled = false;
  find("status").textContent = "";
  find("text").select();
});
