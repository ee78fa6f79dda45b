// Completion list under the caret: the textarea keeps the focus, ids announce the list to screen readers.

import { h } from "./dom.js";
import { suggestions } from "./editor-suggestions.js";
import { ROW } from "./editor-highlighting.js";
import { getJsonContext, getYamlContext } from "./editor-context.js";
import { placeOf, replace } from "./editor-text.js";
import { ExpressionNames, bodyOf } from "./expression-names.js";

export class CompletionList {
  constructor(area, paint, page, announce) {
    Object.assign(this, { area, paint, announce, guide: null, fetched: null, pendingOpen: null, items: [], at: -1, place: null });
    this.list = h("ul", { class: "editor-list", role: "listbox", id: `${area.id}-suggestions`, "aria-label": "Suggestions", tabindex: "0", hidden: true });
    this.ruler = h("span", { class: "editor-ruler", "aria-hidden": "true" });
    page.append(this.ruler, this.list);
    area.setAttribute("aria-autocomplete", "list");
    area.setAttribute("aria-haspopup", "listbox");
    this.list.addEventListener("mousedown", (event) => {
      event.preventDefault();
      const option = event.target.closest("[role=option]");
      if (option) this.accept(Number(option.dataset.at));
    });
    // Tab leads into the list, which scrolls; the same keys count there.
    area.addEventListener("blur", ({ relatedTarget }) => {
      this.pendingOpen = null;
      if (relatedTarget !== this.list) this.close();
    });
    this.list.addEventListener("keydown", (event) => this.inList(event));
    this.list.addEventListener("focusout", ({ relatedTarget }) => relatedTarget !== area && this.close());
    area.addEventListener("scroll", () => this.close(), { passive: true });
    this.names = area.dataset.names ? new ExpressionNames(area.dataset.names) : null;
    this.load();
  }

  get isOpen() {
    return !this.list.hidden;
  }

  // The guide is in the page, or fetched from a URL: now, at the first focus, and later if the URL has changed.
  load() {
    const { guide, complete } = this.area.dataset;
    const element = guide && document.getElementById(guide);
    if (element) this.guide = JSON.parse(element.textContent);
    else if (complete) {
      this.fetch(complete);
      this.area.addEventListener("focus", () => this.fetch(this.area.dataset.complete));
    }
  }

  // Fetched once per URL; a list requested before the response opens then.
  async fetch(address) {
    if (address === this.fetched) return;
    this.fetched = address;
    const response = await fetch(address, { headers: { Accept: "application/json" } }).catch(() => null);
    const guide = response?.ok ? await response.json() : null;
    if (address !== this.fetched) return;
    if (!guide) this.fetched = null;
    this.guide = guide ?? this.guide;
    if (this.pendingOpen) this.open(this.pendingOpen);
  }

  get isFetching() {
    return !this.guide && this.fetched;
  }

  open({ isExplicit = false } = {}) {
    this.pendingOpen = this.isFetching ? { isExplicit } : null;
    if (this.pendingOpen) return isExplicit && this.announce("Loading suggestions…");
    this.place = this.guide && this.area.selectionStart === this.area.selectionEnd ? this.here() : null;
    const isWorthIt = this.place && (isExplicit || this.place.prefix || this.place.kind !== "key");
    const items = isWorthIt ? this.getSuggestions(isExplicit) : [];
    if (!items) return isExplicit && this.announce("Loading suggestions…");
    if (isExplicit && !items.length) this.announce("No suggestions here.");
    if (!items.length) return this.close();
    this.items = items;
    return this.show();
  }

  // Null while the server computes the expressions at this position.
  getSuggestions(isExplicit) {
    if (!this.names || this.place.kind !== "expression") return suggestions(this.guide, this.place);
    const line = placeOf(this.area.value, this.place.from).row + 1;
    return this.names.at(`${this.place.from}`, this.place, bodyOf(this.area.form, { line }), () => {
      if (document.activeElement === this.area) this.open({ isExplicit });
    });
  }

  here() {
    const { value, selectionStart: offset } = this.area;
    const { language } = this.paint;
    const place = language === "json" ? getJsonContext(value, offset) : language === "yaml" ? getYamlContext(this.paint, placeOf(value, offset), offset) : null;
    return place && { ...place, language };
  }

  show() {
    const option = (item, at) =>
      h("li", { role: "option", id: `${this.list.id}-${at}`, "data-at": at, "aria-selected": "false" }, h("span", { class: "mono" }, item.text), item.detail ? h("small", {}, item.detail) : null);
    const wasOpen = this.isOpen;
    this.list.replaceChildren(...this.items.map(option));
    this.list.hidden = false;
    this.area.setAttribute("aria-controls", this.list.id);
    this.put();
    this.choose(0);
    if (!wasOpen) this.announce(`${this.items.length} suggestion${this.items.length === 1 ? "" : "s"}; arrows choose, Enter takes one.`);
  }

  // Beside the caret; above it where there is no room below.
  put() {
    const { row, column } = placeOf(this.area.value, this.area.selectionStart);
    this.ruler.textContent = this.paint.lines[row].slice(0, column);
    const { clientHeight, clientWidth, scrollTop, scrollLeft } = this.area;
    const left = this.ruler.offsetLeft + this.ruler.offsetWidth - scrollLeft;
    const top = this.ruler.offsetTop + (row + 1) * ROW - scrollTop;
    const height = this.list.offsetHeight;
    this.list.style.left = `${Math.max(0, Math.min(left, clientWidth - this.list.offsetWidth - 8))}px`;
    this.list.style.top = `${top + height > clientHeight && top - ROW - height > 0 ? top - ROW - height : top}px`;
  }

  choose(at) {
    this.list.children[this.at]?.setAttribute("aria-selected", "false");
    this.at = (at + this.items.length) % this.items.length;
    const option = this.list.children[this.at];
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    for (const item of [this.area, this.list]) item.setAttribute("aria-activedescendant", option.id);
  }

  accept(at = this.at) {
    const { insert } = this.items[at];
    const { from, to, kind } = this.place;
    this.close();
    replace(this.area, from, to, insert);
    if (kind === "key" && insert.endsWith(" ")) this.open();
  }

  close() {
    if (!this.isOpen) return;
    this.list.hidden = true;
    this.area.removeAttribute("aria-activedescendant");
    this.area.removeAttribute("aria-controls");
  }

  inList(event) {
    const isBack = ["Enter", "Escape"].includes(event.key);
    // Back first: a list that is hidden would lose the focus to the page.
    if (isBack) this.area.focus();
    if (this.key(event)) event.preventDefault();
  }

  // Says whether the key was for the list.
  key(event) {
    const move = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (move) this.choose(this.at + move);
    else if (event.key === "Enter") this.accept();
    else if (event.key === "Escape") this.close();
    else return false;
    return true;
  }
}
