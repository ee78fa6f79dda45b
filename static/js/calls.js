// Calls tab of an execution, read page by page from the API while it is open.

import { announce, statusBadge, h, find } from "./dom.js";
import { clock } from "./timestamps.js";

const JSON_SPACES = 2;

function details(call) {
  const params = call.params_preview;
  if (!params || (typeof params === "object" && !Object.keys(params).length)) return null;
  const text = typeof params === "string" ? params : JSON.stringify(params, null, JSON_SPACES);
  return h("details", {}, h("summary", {}, "Parameters"), h("pre", { tabindex: "0" }, text));
}

function errorText(error) {
  if (!error) return null;
  return h("span", { class: "sub" }, typeof error === "string" ? error : [error.code, error.message].filter(Boolean).join(": "));
}

const LOST = "LOST";

// The caller, earlier delegates of the call, and a link to the reason for the choice of the delegate.
function callerNode({ by, served_by: holders, task }) {
  if (!by) return null;
  const lost = (holders || []).slice(0, -1).filter((holder) => holder.delegate !== by || holder.end === LOST).map((holder) => holder.delegate);
  const why = task ? [" \u00b7 ", h("a", { href: `/delegates/tasks/${task}/` }, "Why this delegate?")] : [];
  return h("span", { class: "sub" }, `by ${by}`, lost.length ? `, taken over from ${[...new Set(lost)].join(", ")}` : "", ...why);
}

function row(call) {
  const times = call.repeats > 1 ? ` \u00d7 ${call.repeats.toLocaleString()}` : "";
  return h("tr", {},
    h("td", { class: "tight muted mono" }, h("time", { datetime: call.at, title: call.at }, clock(call.at, "local"))),
    h("th", { scope: "row" }, h("code", {}, `${call.service}:${call.operation}`), call.write ? h("strong", { class: "small" }, " write") : null, times,
      h("span", { class: "sub" }, [call.action, call.phase].filter(Boolean).join(" \u00b7 ")), callerNode(call), details(call)),
    h("td", {}, statusBadge(call.state), errorText(call.error)),
    h("td", { class: "num tight" }, call.duration_ms === null || call.duration_ms === undefined ? "" : `${call.duration_ms.toLocaleString()} ms`),
  );
}

export class CallsTab {
  constructor(root, id) {
    this.root = root;
    this.body = find("tbody", root);
    this.more = find("[data-more]", root);
    this.first = `/api/v1/executions/${id}/calls`;
    this.drawn = this.wanted = this.loading = this.failed = null;
    // The last page that is shown, and the number of rows before it.
    this.last = { url: this.first, start: 0 };
    this.more.addEventListener("click", () => this.showMore());
    this.body.addEventListener("toggle", () => this.wanted === null || this.show(this.wanted), true);
  }

  // Reads the last page again if there are more calls than were drawn, unless somebody reads an opened row.
  async show(count) {
    this.wanted = count;
    if (this.loading || this.drawn === count || find("details[open]", this.body)) return;
    this.drawn = count;
    await this.load(this.last);
    if (this.drawn !== null && this.wanted !== this.drawn) await this.show(this.wanted);
  }

  async showMore() {
    while (this.loading) await this.loading;
    this.drawn = this.wanted;
    await this.load(this.failed ?? { url: this.next, start: this.body.children.length });
    if (!this.failed) await this.show(this.wanted);
  }

  // Loads one page; `loading` is the promise of its end meanwhile.
  load(page) {
    this.loading = this.read(page).finally(() => { this.loading = null; });
    return this.loading;
  }

  async read(page) {
    const { url } = page;
    try {
      const response = await fetch(url, { headers: { Accept: "application/json" } });
      if (!response.ok) throw new Error(String(response.status));
      this.draw(await response.json(), page);
    } catch {
      this.drawn = null;
      this.failed = page;
      this.more.hidden = false;
      this.more.textContent = "The calls were not loaded. Try again";
      announce("The calls were not loaded.");
    }
  }

  draw({ results, next }, page) {
    while (this.body.children.length > page.start) this.body.lastElementChild.remove();
    this.body.append(...results.map(row));
    this.last = page;
    this.failed = null;
    this.more.textContent = "Load more calls";
    this.next = next;
    this.more.hidden = !next;
    find("[data-none]", this.root).hidden = this.body.children.length > 0;
    find("table", this.root).hidden = !this.body.children.length;
  }
}
