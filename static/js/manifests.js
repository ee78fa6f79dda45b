// The form of a service: rows of manifests with an editor each, checked again when their kind changes.

import { one } from "./dom.js";
import { wireEditors } from "./editor.js";
import "./rows.js";

function changeKind(select) {
  const area = one("textarea[data-editor]", select.closest("[data-row]"));
  const words = new URL(area.dataset.complete, location);
  words.searchParams.set("kind", select.value);
  area.dataset.complete = words.pathname + words.search;
  area.dispatchEvent(new Event("editor:check"));
}

document.addEventListener("rows:added", ({ detail }) => wireEditors(detail));
document.addEventListener("change", ({ target }) => target.name?.endsWith("-kind") && target.closest(".manifest") && changeKind(target));
