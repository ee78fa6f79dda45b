// Picker of tags and repositories under a field, with results from the registry, searched and paged by the server.
//
// The field keeps the focus and whatever is typed; the list only helps, so a tag that it lacks can be entered too.

import { findAll, h, icon } from "./dom.js";
import { ago } from "./timestamps.js";

const PAUSE = 250;
const AGAIN = 1000;

class TagPicker {
  constructor(input) {
    const [singular, plural] = (input.dataset.tagsWhat ?? "tag tags").split(" ");
    Object.assign(this, { singular, plural, input, tags: [], at: -1, next: null, search: "", requestNumber: 0, isLoading: false, timer: 0 });
    this.list = h("ul", { class: "picker-list", role: "listbox", id: `${input.id}-tags`, "aria-label": `${this.plural[0].toUpperCase()}${this.plural.slice(1)}` });
    this.state = h("p", { class: "picker-state" });
    this.said = h("p", { class: "visually-hidden", role: "status" });
    this.popup = h("div", { class: "picker-popup", hidden: true }, this.list, this.state);
    this.button = h("button", { type: "button", class: "button square ghost picker-open", tabindex: "-1", "aria-label": `Show ${this.plural}`, title: `Show ${this.plural}` }, icon("down"));
    this.place();
    this.wire();
  }

  // Around the field, which keeps the focus if it has it.
  place() {
    const wasFocused = document.activeElement === this.input;
    const frame = h("div", { class: "picker" });
    this.input.before(frame);
    frame.append(this.input, this.button, this.popup, this.said);
    if (wasFocused) this.input.focus();
    for (const [name, value] of Object.entries({ role: "combobox", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": this.list.id, autocomplete: "off" })) this.input.setAttribute(name, value);
  }

  wire() {
    const { input, button, popup, list } = this;
    input.addEventListener("input", () => this.later(input.value.trim()));
    input.addEventListener("keydown", (event) => this.key(event) && event.preventDefault());
    input.addEventListener("blur", () => this.close());
    // A press in the list must not take the focus from the field.
    for (const node of [button, popup]) node.addEventListener("mousedown", (event) => event.preventDefault());
    button.addEventListener("click", () => {
      input.focus();
      if (this.isOpen) this.close();
      else this.open();
    });
    list.addEventListener("click", (event) => {
      const option = event.target.closest("[role=option]");
      if (option) this.accept(Number(option.dataset.at));
    });
    list.addEventListener("scroll", () => list.scrollTop + list.clientHeight > list.scrollHeight - 60 && this.more(), { passive: true });
  }

  get as() {
    return this.input.dataset.tagsAs ?? "search";
  }

  get isOpen() {
    return !this.popup.hidden;
  }

  // All tags for a plain value, which may be the default; matching tags for a pattern.
  open(search = this.as === "search" ? "" : this.input.value.trim()) {
    this.popup.hidden = false;
    this.input.setAttribute("aria-expanded", "true");
    this.search = search;
    this.begin();
  }

  later(search) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.open(search), PAUSE);
  }

  begin() {
    this.tags = [];
    this.list.replaceChildren();
    this.choose(-1);
    this.showStatus(`Loading ${this.plural}…`, { quietly: true });
    this.load(1);
  }

  close() {
    clearTimeout(this.timer);
    this.requestNumber += 1;
    this.isLoading = false;
    this.popup.hidden = true;
    this.input.setAttribute("aria-expanded", "false");
    this.input.removeAttribute("aria-activedescendant");
  }

  more() {
    if (this.next && !this.isLoading) this.load(this.next);
  }

  // Other fields are read each time, because they may have changed.
  address(page) {
    const address = new URL(this.input.dataset.tags, location);
    for (const pair of (this.input.dataset.tagsFrom ?? "").split(" ").filter(Boolean)) {
      const [name, field] = pair.split("=");
      const value = this.input.form.elements[field]?.value;
      if (value) address.searchParams.set(name, value);
    }
    address.searchParams.set(this.as, this.search);
    address.searchParams.set("page", page);
    return address;
  }

  async load(page) {
    const number = (this.requestNumber += 1);
    this.isLoading = true;
    const answer = await fetch(this.address(page), { headers: { Accept: "application/json" } }).catch(() => null);
    const isJson = answer?.headers.get("Content-Type")?.includes("json");
    const result = isJson ? await answer.json().catch(() => null) : null;
    if (number !== this.requestNumber || !this.isOpen) return;
    this.isLoading = false;
    this.showResult(result, page);
  }

  showResult(result, page) {
    if (result?.results) return this.add(result);
    if (result && "waits" in result) {
      this.showStatus(`Loading ${this.plural} through a delegate. ${result.waits}`);
      this.timer = setTimeout(() => this.isOpen && this.load(page), AGAIN);
      return undefined;
    }
    return this.showStatus(`${result?.problem || result?.detail || `Could not list ${this.plural}.`} You can still enter a ${this.singular}.`);
  }

  add({ results, next, matching, is_cut: isCut }) {
    const first = this.tags.length;
    this.tags.push(...results);
    this.list.append(...results.map((tag, at) => this.option(tag, first + at)));
    this.next = next;
    if (!first) this.popup.scrollIntoView({ block: "nearest" });
    const best = this.as === "pattern" && this.search && this.tags.length ? ` A run takes ${this.tags[0].name}.` : "";
    const count = `${this.tags.length.toLocaleString()} of ${matching.toLocaleString()} ${matching === 1 ? this.singular : this.plural}`;
    const cut = isCut ? ` The list is truncated: enter the ${this.singular} if it is missing.` : "";
    if (matching) this.showStatus(`${count}.${best}${cut}`);
    else this.showStatus(this.search ? `No ${this.singular} ${this.as === "search" ? `contains “${this.search}”` : `matches ${this.search}`}.${cut}` : `No ${this.plural} found.`);
  }

  option({ name, pushed_at: pushed }, at) {
    const when = pushed ? h("small", {}, `pushed ${ago(new Date(pushed))}`) : null;
    const isNow = name === this.input.value ? " picker-now" : "";
    return h("li", { role: "option", id: `${this.list.id}-${at}`, "data-at": at, "aria-selected": "false", class: isNow }, h("span", { class: "mono" }, name), when);
  }

  showStatus(text, { quietly = false } = {}) {
    this.state.textContent = text;
    if (!quietly) this.said.textContent = text;
  }

  choose(at) {
    this.list.children[this.at]?.setAttribute("aria-selected", "false");
    this.at = at;
    const option = this.list.children[at];
    if (!option) return this.input.removeAttribute("aria-activedescendant");
    option.setAttribute("aria-selected", "true");
    option.scrollIntoView({ block: "nearest" });
    this.input.setAttribute("aria-activedescendant", option.id);
    if (at >= this.tags.length - 3) this.more();
    return undefined;
  }

  accept(at = this.at) {
    this.input.value = this.tags[at].name;
    this.input.dispatchEvent(new Event("change", { bubbles: true }));
    this.close();
  }

  // Says whether the key was for the list.
  key(event) {
    if (event.key === "ArrowDown" && !this.isOpen) this.open();
    else if (!this.isOpen) return false;
    else if (event.key === "ArrowDown") this.choose(Math.min(this.at + 1, this.tags.length - 1));
    else if (event.key === "ArrowUp") this.choose(Math.max(this.at - 1, -1));
    else if (event.key === "Escape") this.close();
    else if (event.key === "Enter" && this.at >= 0) this.accept();
    else return false;
    return true;
  }
}

for (const input of findAll("input[data-tags]")) new TagPicker(input);
