// Page of one delegate: its parts are fetched again after changes, and its log is followed.

import { findAll, announce, h, find } from "./dom.js";
import { holdPlace } from "./partial-updates.js";
import { showTimes } from "./timestamps.js";

const MOST_LINES = 2000;
// As many lines come at once.
const FULL = 500;
// New lines are announced to screen readers this often at most, in milliseconds.
const SPOKEN_EVERY = 5000;
const statusOf = (node) => find('[data-live="status"]', node).textContent.trim();

// Fetches the parts again, and returns whether that worked.
async function refresh() {
  const response = await fetch(location.href, { credentials: "same-origin" }).catch(() => null);
  if (response?.status === 404) {
    const note = find("[data-deleted]");
    note.hidden = false;
    announce(note.textContent);
    return true;
  }
  if (!response?.ok || response.redirected) return false;
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const before = statusOf(document);
  for (const part of findAll("[data-live]")) {
    const made = find(`[data-live="${CSS.escape(part.dataset.live)}"]`, fresh);
    if (!made) continue;
    const restorePlace = holdPlace(part);
    part.replaceWith(document.adoptNode(made));
    restorePlace(made);
  }
  showTimes();
  if (statusOf(document) !== before) announce(`${find("h1").textContent}: ${statusOf(document)}`);
  return true;
}

class Tail {
  constructor(list) {
    this.list = list;
    this.isGone = false;
    this.next = Number(list.dataset.logNext);
    this.added = 0;
    this.spokenAt = 0;
    this.button = find("[data-log-follow]");
    this.button.hidden = false;
    this.button.addEventListener("click", () => this.follow(this.button.getAttribute("aria-pressed") !== "true"));
    list.addEventListener("scroll", () => this.isFollowing && !this.isAtEnd() && this.follow(false));
    this.toEnd();
    list.addEventListener("topic-changed", ({ detail }) => {
      detail.read = this.ask();
    });
  }

  get isFollowing() {
    return this.button.getAttribute("aria-pressed") === "true";
  }

  isAtEnd() {
    return this.list.scrollHeight - this.list.scrollTop - this.list.clientHeight < 24;
  }

  toEnd() {
    this.list.scrollTop = this.list.scrollHeight;
  }

  follow(isOn) {
    this.button.setAttribute("aria-pressed", String(isOn));
    if (isOn) this.toEnd();
  }

  // Returns whether the fetch succeeded; a failed one is repeated.
  async ask() {
    try {
      while (await this.askOnce());
      return true;
    } catch {
      return false;
    }
  }

  // Says whether there may be more.
  async askOnce() {
    if (this.isGone) return false;
    const response = await fetch(`${this.list.dataset.log}&after=${this.next}`, { credentials: "same-origin", headers: { Accept: "application/json" } });
    // With the delegate its log is deleted: there is nothing to ask for again.
    this.isGone = response.status === 404;
    if (this.isGone) return false;
    if (!response.ok) throw new Error(`${response.status}`);
    const part = await response.json();
    this.add(part);
    return part.lines.length >= FULL;
  }

  add({ lines, next }) {
    this.next = next;
    if (!lines.length) return;
    find("[data-log-empty]")?.remove();
    this.list.append(...lines.map((text) => h("div", {}, text)));
    while (this.list.children.length > MOST_LINES) this.list.firstElementChild.remove();
    if (this.isFollowing) this.toEnd();
    this.added += lines.length;
    this.speaking ||= setTimeout(() => this.speak(), Math.max(0, this.spokenAt + SPOKEN_EVERY - Date.now()));
  }

  speak() {
    this.speaking = 0;
    this.spokenAt = Date.now();
    find("[data-log-added]").textContent = `${this.added} new line${this.added === 1 ? "" : "s"}`;
    this.added = 0;
  }
}

find("#delegate").addEventListener("topic-changed", ({ detail }) => {
  detail.read = refresh();
});
const log = find("[data-log]");
if (log) new Tail(log);
