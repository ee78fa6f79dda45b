// Expression suggestions in the fields of the visual editor: `<+` opens the list, the field keeps the focus. Arrow keys
// choose, Enter accepts, Escape closes.

import { announce, h, find } from "./dom.js";
import { getExpressionContext } from "./editor-context.js";
import { replace } from "./editor-text.js";
import { ExpressionNames, bodyOf } from "./expression-names.js";

const FIELDS = "#visual-open :is(input.input, textarea)";
// What the text is called and how long it may take is no matter of expressions.
const PLAIN = "[type=search], [type=hidden], [name=name], [name=identifier], [name=timeout]";
const isField = (target) => target instanceof Element && target.matches(FIELDS) && !target.matches(PLAIN);

class Naming {
  constructor(area, address) {
    Object.assign(this, { area, items: [], at: 0, field: null, place: null });
    this.names = new ExpressionNames(address);
    this.list = h("ul", { class: "editor-list", role: "listbox", id: "naming-suggestions", "aria-label": "Suggestions", tabindex: "0" });
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const option = event.target.closest("[role=option]");
      if (option) this.accept(Number(option.dataset.at));
    });
  }

  typed(field) {
    if (this.field !== field) this.close();
    const { value, selectionStart: offset } = field;
    const place = getExpressionContext(value.slice(0, offset), value.slice(offset), offset);
    if (!place || offset !== field.selectionEnd) return this.close();
    Object.assign(this, { field, place });
    const form = field.form;
    const body = bodyOf(this.area.form, { at: form.elements.form_at.value });
    const key = `${form.elements.form_at.value} ${field.name} ${place.from}`;
    const items = this.names.at(key, place, body, () => document.activeElement === field && this.typed(field));
    if (!items) return undefined;
    return items.length ? this.show(items) : this.close();
  }

  show(items) {
    const isNew = !this.list.isConnected;
    this.items = items;
    this.list.replaceChildren(...items.map((each, at) =>
      h("li", { role: "option", id: `${this.list.id}-${at}`, "data-at": at, "aria-selected": "false" }, h("span", { class: "mono" }, each.text), each.detail ? h("small", {}, each.detail) : null)));
    if (isNew) this.open();
    this.choose(0);
    if (isNew) announce(`${items.length} suggestion${items.length === 1 ? "" : "s"}; arrows choose, Enter takes one.`);
  }

  open() {
    const { field, list } = this;
    field.after(list);
    list.style.top = `${field.offsetTop + field.offsetHeight + 2}px`;
    list.style.left = `${field.offsetLeft}px`;
    if (field.matches("input")) field.setAttribute("role", "combobox");
    if (field.matches("input")) field.setAttribute("aria-expanded", "true");
    field.setAttribute("aria-autocomplete", "list");
    field.setAttribute("aria-controls", list.id);
  }

  close() {
    if (!this.list.isConnected) return;
    this.list.remove();
    this.field.removeAttribute("aria-activedescendant");
    this.field.removeAttribute("aria-controls");
    if (this.field.matches("input")) this.field.setAttribute("aria-expanded", "false");
  }

  choose(at) {
    this.list.children[this.at]?.setAttribute("aria-selected", "false");
    this.at = (at + this.items.length) % this.items.length;
    const option = this.list.children[this.at];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    for (const node of [this.field, this.list]) node.setAttribute("aria-activedescendant", option.id);
  }

  accept(at = this.at) {
    const { field, place, items } = this;
    this.close();
    replace(field, place.from, place.to, items[at].insert);
  }

  key(event) {
    if (!this.list.isConnected || event.isComposing) return;
    // Tab moves into the scrolling list; a choice moves back to the field.
    if (event.target === this.list && ["Enter", "Escape"].includes(event.key)) this.field.focus();
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) this.choose(this.at + move);
    else if (event.key === "Enter") this.accept();
    else if (event.key === "Escape") this.close();
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  listen(root) {
    root.addEventListener("input", ({ target, data }) => isField(target) && (data !== ">" || this.list.isConnected) && this.typed(target));
    root.addEventListener("keydown", (event) => this.key(event));
    root.addEventListener("focusout", ({ relatedTarget }) => ![this.list, this.field].includes(relatedTarget) && this.close());
    root.addEventListener("htmx:beforeSwap", () => this.close());
  }
}

const root = find("#visual");
const area = find("#pipeline-yaml[data-names]");
if (root && area) new Naming(area, area.dataset.names).listen(root);
