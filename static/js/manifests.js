// The form of a service: rows of manifests with an editor each, checked again when their kind changes.

import { wireEditors } from "./editor.js";
import "./rows.js";

document.addEventListener("rows:added", ({ detail }) => wireEditors(detail));
document.addEventListener("change", ({ target }) => {
  if (target.name?.endsWith("-kind")) target.closest("[data-row]")?.querySelector("textarea[data-editor]")?.dispatchEvent(new Event("editor:check"));
});
