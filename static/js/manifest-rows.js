// Service form: rows of manifests with an editor each, validated again when their kind changes.

import { findAll, find } from "./dom.js";
import { replace } from "./editor-text.js";
import { wireEditors } from "./editor.js";
import "./form-rows.js";
import "./store-inputs.js";

function changeKind(select) {
  const area = find("textarea[data-editor]", select.closest("[data-row]"));
  const words = new URL(area.dataset.complete, location);
  words.searchParams.set("kind", select.value);
  area.dataset.complete = words.pathname + words.search;
  area.dispatchEvent(new Event("editor:check"));
}

const textOf = (row) => find("textarea[data-editor]", row);

// A sample is offered where nothing is written yet.
function offerSample(row) {
  const button = find("[data-starter]", row);
  if (button) button.hidden = textOf(row).value.trim() !== "";
}

function beginWithSample(row) {
  const texts = JSON.parse(document.getElementById("manifest-starters").textContent);
  const area = textOf(row);
  replace(area, 0, area.value.length, texts[find("select[name$=-kind]", row).value]);
  offerSample(row);
}

for (const row of findAll(".manifest")) offerSample(row);
document.addEventListener("rows:added", ({ detail }) => {
  wireEditors(detail);
  if (detail.matches(".manifest")) offerSample(detail);
});
document.addEventListener("input", ({ target }) => target.closest(".manifest") && offerSample(target.closest(".manifest")));
document.addEventListener("click", ({ target }) => target.closest("[data-starter]") && beginWithSample(target.closest(".manifest")));
document.addEventListener("change", ({ target }) => target.name?.endsWith("-kind") && target.closest(".manifest") && changeKind(target));
