// Synchronization of the visual editor's forms with the pipeline's text. A form change is written into the text, and a
// typed change is read by the forms. The text takes precedence.

import { announce, find } from "./dom.js";
import { wireTabs } from "./tabs.js";

const AFTER = 400;
const MOST_UNDOS = 100;

class Visual {
  constructor(root) {
    this.root = root;
    this.area = find("#pipeline-yaml");
    this.undo = find("[data-undo]");
    this.earlier = [];
    this.isOpen = false;
    this.listen();
    wireTabs(find("[data-editor-tabs]"), (name) => this.opened(name));
  }

  listen() {
    this.area.addEventListener("input", () => this.typed());
    this.root.addEventListener("htmx:afterSwap", (event) => { if (event.detail.target === this.root) this.swapped(); });
    this.root.addEventListener("htmx:afterRequest", ({ detail }) => { this.isSaving &&= detail.successful; });
    for (const name of ["input", "rows:added", "rows:removed"]) this.root.addEventListener(name, (event) => this.entered(event));
    // A draft keeps the text while something is created for it.
    this.root.addEventListener("htmx:beforeOnLoad", ({ detail }) => { if (detail.xhr.getResponseHeader("HX-Redirect")) this.area.dispatchEvent(new Event("editor:leave")); });
    this.undo.addEventListener("click", () => this.back());
    this.area.form.addEventListener("submit", (event) => this.saving(event));
    this.root.addEventListener("focusin", () => import("./expression-suggestions.js"), { once: true });
  }

  entered(event) {
    this.isDirty ||= Boolean(event.target.closest("#visual-open"));
  }

  opened(name) {
    this.isOpen = name === "visual";
    if (this.isOpen) this.refresh();
    this.showUndo();
  }

  refresh() {
    clearTimeout(this.timer);
    window.htmx?.trigger(this.root, "visual:refresh");
  }

  typed() {
    if (this.isOwn || !this.isOpen) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), AFTER);
  }

  swapped() {
    const fresh = find("[data-new-text]", this.root);
    if (fresh) {
      this.earlier = [...this.earlier.slice(-MOST_UNDOS), this.area.value];
      this.write(fresh.value);
      fresh.remove();
    }
    const message = find("[data-announcement]", this.root)?.textContent;
    if (message) announce(message);
    this.isDirty = Boolean(find("#visual-open [aria-invalid]", this.root));
    find("#visual-open [aria-invalid]", this.root)?.focus();
    this.showUndo();
    if (this.isSaving && !this.isDirty) this.area.form.requestSubmit(find("[data-save]"));
    this.isSaving = false;
  }

  write(text) {
    this.isOwn = true;
    this.area.value = text;
    this.area.dispatchEvent(new InputEvent("input", { bubbles: true }));
    this.isOwn = false;
  }

  back() {
    const text = this.earlier.pop();
    if (text === undefined) return;
    this.write(text);
    this.isDirty = false;
    announce("The last change was undone.");
    this.refresh();
  }

  showUndo() {
    this.undo.hidden = !this.isOpen;
    this.undo.disabled = !this.earlier.length;
  }

  // Entered values that are not applied yet are saved too.
  saving(event) {
    const form = find("#visual-open", this.root);
    if (!this.isDirty || !form) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    this.isSaving = true;
    form.requestSubmit();
  }
}

// htmx reads the page at the same event, and has registered for it before.
document.addEventListener("DOMContentLoaded", () => {
  const root = find("#visual");
  if (root) new Visual(root);
});
