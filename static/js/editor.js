// Editor: a plain textarea that works without scripts, with colors, line numbers, validation and suggestions.
//
// The page includes "parts/_editor.html" (its head names what it takes), css/editor.css and this module. What
// is posted is the textarea; native undo, search and screen readers keep working on it. The server is asked:
//
//   data-check     POST of the whole form, while writing. Answers {"errors": [problem], "warnings": [problem],
//                  "note": "Checked as a task definition."}; a problem is {"line": 1, "column": 5,
//                  "path": "a.b", "message": "…"}, from 1, each but the message optional.
//   data-complete  GET, once, of a guide; or data-guide, the id of a <script type="application/json"> with one:
//                  {"schema": JSON Schema (properties, items, enum, const, $ref within, allOf, anyOf, oneOf; of
//                   the last two only branches that agree with the keys already written, such as a step's type),
//                   "values": {"pipeline.stages.stage.spec.service.serviceRef": ["web", {"value", "detail"}]}
//                   (by the path of keys, list items left out),
//                   "expressions": ["service.name", {"value": "infra.cluster", "detail": "…"}]}
//   data-names     POST, as check with `line`, for what expressions can name at that line:
//                  {"expressions": …} as in a guide, which counts instead of the guide's
//   data-clean     POST, as check, for the text without what AWS refuses: {"content", "changes": [sentence],
//                  "hunks": [[{"sign", "text", "old", "new"}]]}; shown as a difference before it is taken
//   data-dirty     the text differs from what is stored: a form that was refused and is shown again
//
// Events on the textarea: "editor:check" asks for a check now. Each `form [data-save]` is what Ctrl-S presses.

import { findAll, h, icon, find } from "./dom.js";
import { EditorCheck } from "./editor-check.js";
import { Highlighter } from "./editor-highlighting.js";
import { backStep, indent, newLine, placeOf } from "./editor-text.js";

const TABS = "slipway.editor.tabs";
const KEYS = [
  ["Ctrl Space", "shows suggestions"],
  ["Ctrl S", "saves"],
  ["Tab", "moves to the next field, or indents if enabled"],
  ["Ctrl M", "toggles indenting with Tab"],
  ["Esc, then Tab", "leaves the editor while Tab indents"],
  ["Ctrl ] and Ctrl [", "indent and outdent, always"],
  ["F8", "goes to the next problem"],
];

class Editor {
  constructor(area) {
    this.area = area;
    this.root = area.closest(".editor");
    this.isLeaving = false;
    this.stored = area.dataset.dirty === undefined ? area.value : null;
    this.build(area.dataset.editor);
    this.paint.read(area.value);
    this.listen();
    this.setTabs(localStorage.getItem(TABS) === "on");
    this.updateCaret();
    if (area.value.trim()) this.check.soon();
  }

  build(language) {
    const gutter = h("div", { class: "editor-gutter", "aria-hidden": "true" });
    const painted = h("div", { class: "editor-paint", "aria-hidden": "true" });
    const page = h("div", { class: "editor-page" }, painted);
    this.state = find("[data-editor-state]", this.root);
    const body = h("div", { class: "editor-body" }, gutter, page);
    this.area.before(this.bar(language), body);
    this.moveInto(page);
    this.root.classList.add("on");
    this.paint = new Highlighter(this.area, language, gutter, painted);
    const said = (text) => { this.state.textContent = text; };
    this.check = new EditorCheck(this.area, find(".editor-problems", this.root), {
      said,
      shown: (problems) => this.paint.mark(problems),
      jump: (problem) => this.goTo(problem.line, problem.column || 1),
    });
    // The list of suggestions comes with the first focus.
    const loadList = () => {
      this.list ??= import("./editor-completion-list.js").then(({ CompletionList }) => {
        this.complete = new CompletionList(this.area, this.paint, page, said);
      }).catch(() => {
        this.list = null;
        said("Suggestions could not be loaded.");
      });
      return this.list;
    };
    this.suggest = (options) => loadList().then(() => this.complete?.open(options));
    this.area.addEventListener("focus", loadList);
    if (document.activeElement === this.area) loadList();
  }

  // Who began to write before this script had come goes on where they were.
  moveInto(page) {
    const { area } = this;
    const wasFocused = document.activeElement === area;
    const { selectionStart, selectionEnd, scrollTop } = area;
    page.append(area);
    if (!wasFocused) return;
    area.focus({ preventScroll: true });
    area.setSelectionRange(selectionStart, selectionEnd);
    area.scrollTop = scrollTop;
  }

  bar(language) {
    const rows = KEYS.map(([keys, text]) => [h("dt", {}, h("kbd", {}, keys)), h("dd", {}, text)]);
    this.where = h("span", { class: "muted small" });
    this.unsaved = h("span", { class: "status tone-waiting plain-weight", hidden: true }, "Unsaved changes");
    this.tabs = h("button", { type: "button", class: "button small ghost", title: "Ctrl M", onclick: () => this.setTabs(!this.isIndenting) }, "Tab indents");
    const help = h("details", { class: "menu right" }, h("summary", { class: "button small ghost" }, "Keys", icon("down")), h("dl", { class: "menu-body keys editor-keys" }, rows));
    const isEditable = !this.area.readOnly;
    const clean = this.area.dataset.clean && h("button", { type: "button", class: "button small ghost", title: "Remove response fields that AWS does not accept", onclick: () => this.cleanUp() }, "Clean up");
    return h("div", { class: "editor-bar" }, h("span", { class: "small secondary-text" }, language === "text" ? "Text" : language.toUpperCase()), this.where,
      h("span", { class: "end" }, this.unsaved, isEditable ? [clean, this.tabs, help] : null));
  }

  listen() {
    const { area } = this;
    area.addEventListener("keydown", (event) => this.onKey(event));
    area.addEventListener("input", (event) => this.onInput(event));
    area.addEventListener("editor:check", () => this.check.now());
    area.addEventListener("focus", () => { this.isLeaving = false; });
    document.addEventListener("selectionchange", () => document.activeElement === area && this.updateCaret());
    // On the window: other listeners may prevent it.
    addEventListener("submit", (event) => { this.isSaving ||= event.target === area.form && !event.defaultPrevented; });
    area.addEventListener("editor:leave", () => { this.isSaving = true; });
    addEventListener("pageshow", () => { this.isSaving = false; });
    addEventListener("beforeunload", (event) => {
      // The row of an editor may have been removed.
      if (area.isConnected && this.isDirty && !this.isSaving) event.preventDefault();
    });
  }

  get isDirty() {
    return this.area.value !== this.stored;
  }

  onInput(event) {
    this.paint.read(this.area.value);
    this.updateCaret();
    this.check.soon();
    const isTyped = event.inputType === "insertText" && event.data && /[\w<+. "-]$/.test(event.data);
    const isOpen = this.complete?.isOpen;
    if (isTyped || (isOpen && event.inputType?.startsWith("delete"))) this.suggest();
    else if (isOpen) this.complete.close();
  }

  onKey(event) {
    if (event.isComposing) return;
    const wasLeaving = this.isLeaving;
    const isOpen = this.complete?.isOpen;
    this.isLeaving = event.key === "Escape" && !isOpen;
    const isTaken = this.command(event) || (isOpen && !event.ctrlKey && this.complete.key(event)) || (!this.area.readOnly && this.edit(event, wasLeaving));
    if (isTaken) event.preventDefault();
  }

  // Returns whether the editor handled the key; the next methods too.
  command(event) {
    if (event.key === "F8") this.check.step(event.shiftKey ? -1 : 1);
    else if (!(event.ctrlKey || event.metaKey) || event.altKey) return false;
    else if (event.key === "s") this.save();
    else if (event.key === "m" && event.ctrlKey) this.setTabs(!this.isIndenting, true);
    else if (event.code === "Space" && event.ctrlKey) this.suggest({ isExplicit: true });
    else if (event.key === "]" || event.key === "[") return !this.area.readOnly && (indent(this.area, event.key === "["), true);
    else return false;
    return true;
  }

  edit(event, wasLeaving) {
    if (event.ctrlKey || event.metaKey || event.altKey) return false;
    if (event.key === "Enter" && !event.shiftKey) newLine(this.area, this.paint.language);
    else if (event.key === "Backspace") return backStep(this.area);
    else if (event.key === "Tab" && this.isIndenting && !wasLeaving) indent(this.area, event.shiftKey);
    else return false;
    return true;
  }

  save() {
    const { form } = this.area;
    const button = form && ([...form.elements].find((each) => each.matches("[data-save]")) || find("button:not([type=button])", form));
    if (button && !button.disabled) form.requestSubmit(button);
  }

  async cleanUp() {
    const { cleanUp } = await import("./editor-clean-up.js");
    await this.check.finish();
    return cleanUp(this.area, (text) => { this.state.textContent = text; });
  }

  setTabs(isOn, isSaid = false) {
    this.isIndenting = isOn;
    this.tabs.setAttribute("aria-pressed", String(isOn));
    localStorage.setItem(TABS, isOn ? "on" : "off");
    if (isSaid) this.state.textContent = isOn ? "Tab indents now. Escape, then Tab leaves." : "Tab leaves the editor.";
  }

  updateCaret() {
    const { row, column } = placeOf(this.area.value, this.area.selectionStart);
    this.paint.showCurrentRow(row);
    this.where.textContent = `Line ${row + 1}, column ${column + 1}`;
    this.unsaved.hidden = !this.isDirty;
  }

  goTo(line, column) {
    const { lines } = this.paint;
    const row = Math.min(line, lines.length) - 1;
    let start = 0;
    for (let up = 0; up < row; up += 1) start += lines[up].length + 1;
    const at = start + Math.min(column - 1, lines[row].length);
    this.area.focus();
    this.area.setSelectionRange(at, at);
    this.paint.scrollTo(row);
    this.updateCaret();
  }
}

export const wireEditors = (root = document) => findAll("textarea[data-editor]", root).map((area) => new Editor(area));

wireEditors();
