// The log pane: follow, search, deep links, timestamps, wrapping, filters, copy; the list itself is log-view.js.

import { copyText } from "./dialogs.js";
import { announce, h, one } from "./dom.js";
import { bindKey } from "./keys.js";
import { Lines, linesOf, plainOf } from "./log-lines.js";
import { levelOf } from "./log-row.js";
import { Search } from "./log-search.js";
import { LogView } from "./log-view.js";
import { wireToolbar } from "./log-toolbar.js";

const TIMES = ["local", "utc", "elapsed", "off"];
const TIME_WORDS = { local: "Local time", utc: "UTC", elapsed: "Elapsed", off: "No time" };
const SPOKEN_EVERY = 5000;

const FILTERS = {
  all: null,
  problems: (line) => line.level === "error" || line.level === "warning",
  events: (line) => line.level === "event",
};

function readHash() {
  const match = /^#L(\d{1,9})(?:-L?(\d{1,9}))?$/.exec(location.hash);
  if (!match) return null;
  const [a, b] = [Number(match[1]), Number(match[2] || match[1])];
  return a > 0 ? [Math.min(a, b), Math.max(a, b)] : null;
}

function setQuery(name, value) {
  const url = new URL(location.href);
  if (value) url.searchParams.set(name, value);
  else url.searchParams.delete(name);
  history.replaceState(history.state, "", url);
}

export class LogPane {
  constructor(root, { start, knownLast = 0 }) {
    this.root = root;
    this.knownLast = knownLast;
    this.onNeed = () => {};
    this.lines = new Lines();
    this.search = new Search(this.lines);
    this.stepNames = new Map();
    this.unseen = 0;
    this.spokenAt = 0;
    this.quietUntil = 0;
    this.lastTop = 0;
    this.counts = { warning: 0, error: 0 };
    const query = new URLSearchParams(location.search);
    const time = query.get("time") || localStorage.getItem("slipway.time");
    this.display = {
      time: TIMES.includes(time) ? time : "local", start: Date.parse(start) || 0,
      search: this.search, picked: null, hit: null, follow: true,
    };
    this.scroller = one("[data-log-scroll]", root);
    this.view = new LogView({ scroller: this.scroller, lines: this.lines, display: this.display, onSight: (sight) => this.sighted(sight) });
    this.wrap = (query.get("wrap") || localStorage.getItem("slipway.wrap")) === "1";
    this.wire(query);
  }

  part(name) {
    return one(`[data-log-${name}]`, this.root);
  }

  wire(query) {
    wireToolbar(this);
    this.scroller.addEventListener("scroll", () => this.scrolled(), { passive: true });
    this.scroller.addEventListener("click", (event) => this.clicked(event));
    this.scroller.addEventListener("keydown", (event) => event.key === "End" && this.follow(true));
    addEventListener("hashchange", () => this.followHash());
    for (const [key, action] of [
      ["n", () => this.moveHit(1)], ["N", () => this.moveHit(-1)], ["f", () => this.nextFailure()],
      ["End", () => this.follow(true)], ["t", () => this.changeTime()], ["w", () => this.setWrap(!this.wrap)], ["y", () => this.copyLink()],
    ]) bindKey(key, action);
    this.setTime(this.display.time);
    this.setWrap(this.wrap);
    this.setFilter(query.get("show") || "all");
    this.followHash();
  }

  // Takes blocks from the socket or from HTTP; returns how many lines were new.
  addBlocks(blocks) {
    return this.add(blocks.flatMap(linesOf));
  }

  add(lines) {
    const lastBefore = this.lines.last;
    const taken = this.lines.add(lines);
    if (!taken.length) return 0;
    for (const line of taken) if (line.level in this.counts) this.counts[line.level] += 1;
    this.search.added(taken);
    this.view.added(taken);
    if (!this.display.follow) this.unseen += taken.filter((line) => line.number > lastBefore).length;
    this.lines.forgetFarFrom(this.sight?.first ?? this.lines.last);
    this.refresh();
    return taken.length;
  }

  expect(number) {
    this.lines.expect(number);
    this.view.measure();
    this.view.queue();
    this.refresh();
  }

  refresh() {
    this.part("empty").hidden = this.view.rowCount > 0;
    this.part("more").hidden = this.display.follow || this.unseen === 0;
    this.part("more-count").textContent = `${this.unseen.toLocaleString()} new line${this.unseen === 1 ? "" : "s"}`;
    this.part("hits").textContent = this.search.label();
    this.part("follow").setAttribute("aria-pressed", String(this.display.follow));
    if (this.search.needle) this.search.drawMarks(this.part("marks"), this.lines.last);
    this.tell();
  }

  tell() {
    const { error, warning } = this.counts;
    const parts = [`${this.lines.last.toLocaleString()} line${this.lines.last === 1 ? "" : "s"}`];
    if (error) parts.push(`${error} error${error === 1 ? "" : "s"}`);
    if (warning) parts.push(`${warning} warning${warning === 1 ? "" : "s"}`);
    this.summary = parts.join(", ");
    this.part("summary").textContent = this.summary;
    if (this.speaking) return;
    this.speaking = setTimeout(() => this.speak(), Math.max(0, this.spokenAt + SPOKEN_EVERY - Date.now()));
  }

  speak() {
    this.speaking = 0;
    this.spokenAt = Date.now();
    this.part("spoken").textContent = `${this.stateWord || "Log"}: ${this.summary}`;
  }

  sighted(sight) {
    this.sight = sight;
    const line = this.lines.get(sight.first);
    this.part("where").textContent = line ? [this.stepNames.get(line.step) || line.step, line.unit].filter(Boolean).join(" \u203a ") : "";
    for (let number = sight.from; number <= sight.to; number += 1) {
      if (!this.lines.get(number)) return this.onNeed(number);
    }
  }

  scrolled() {
    const top = this.scroller.scrollTop;
    if (this.view.atEnd()) {
      if (!this.display.follow && top > this.lastTop && performance.now() > this.quietUntil) this.follow(true);
    } else if (top < this.lastTop) this.follow(false);
    this.lastTop = top;
  }

  follow(on) {
    this.display.follow = on;
    if (on) {
      this.unseen = 0;
      this.view.toEnd();
      this.view.queue();
    }
    this.refresh();
  }

  clicked(event) {
    const link = event.target.closest("a.n");
    if (!link) return;
    event.preventDefault();
    const number = Number(link.parentElement.dataset.n);
    const { picked } = this.display;
    this.pick(event.shiftKey && picked ? [Math.min(picked[0], number), Math.max(picked[1], number)] : [number, number]);
  }

  pick([first, last]) {
    this.display.picked = [first, last];
    history.replaceState(history.state, "", first === last ? `#L${first}` : `#L${first}-L${last}`);
    this.follow(false);
    this.view.queue();
  }

  followHash() {
    const range = readHash();
    if (range) this.toLines(range);
  }

  toLines([first, last]) {
    this.lines.expect(Math.min(first, Math.max(this.knownLast, this.lines.last)));
    if (this.view.filter && !this.view.filter(this.lines.get(first) || {})) this.setFilter("all");
    this.display.picked = [first, last];
    this.view.measure();
    this.jump(first);
  }

  // Being sent to a line near the end is no wish to follow the log.
  jump(number) {
    this.display.follow = false;
    this.quietUntil = performance.now() + 200;
    this.view.toNumber(number);
    this.refresh();
  }

  toLine(number) {
    this.toLines([number, number]);
    history.replaceState(history.state, "", `#L${number}`);
  }

  nextFailure() {
    const starts = this.failures();
    if (!starts.length) return announce("No error line so far.");
    this.failureAt = starts.find((number) => number > (this.failureAt ?? 0)) ?? starts[0];
    this.toLine(this.failureAt);
  }

  // The first line with a text of each run of error lines: a diagnosis is one failure, however long it is.
  failures() {
    const starts = [];
    let waiting = true;
    for (const line of this.lines.loaded()) {
      if (levelOf(line) !== "error") waiting = true;
      else if (waiting && plainOf(line).trim()) {
        starts.push(line.number);
        waiting = false;
      }
    }
    return starts;
  }

  setSearch(text) {
    this.search.set(text, this.part("case").getAttribute("aria-pressed") === "true");
    this.display.hit = null;
    this.part("marks").replaceChildren();
    this.view.restyle();
    this.refresh();
  }

  moveHit(step) {
    const number = this.search.move(step, this.sight?.first ?? 1);
    if (number === null) return;
    this.display.hit = number;
    this.jump(number);
  }

  changeTime() {
    this.setTime(TIMES[(TIMES.indexOf(this.display.time) + 1) % TIMES.length]);
    localStorage.setItem("slipway.time", this.display.time);
    setQuery("time", this.display.time === "local" ? "" : this.display.time);
  }

  setTime(time) {
    this.display.time = time;
    this.part("time").textContent = TIME_WORDS[time];
    this.view.measure();
    this.view.restyle();
  }

  setWrap(on) {
    if (on !== this.wrap) {
      localStorage.setItem("slipway.wrap", on ? "1" : "0");
      setQuery("wrap", on ? "1" : "");
    }
    this.wrap = on;
    const place = this.sight?.first;
    this.part("wrap").setAttribute("aria-pressed", String(on));
    this.view.setWrap(on);
    if (place && !this.display.follow) this.view.toNumber(place);
  }

  setFilter(name) {
    const step = name.startsWith("step:") ? name.slice(5) : null;
    const filter = step ? (line) => line.step === step : FILTERS[name] ?? null;
    const select = this.part("show");
    if (step && ![...select.options].some((option) => option.value === name)) select.append(h("option", { value: name }, step));
    select.value = filter ? name : "all";
    setQuery("show", filter ? name : "");
    this.view.setFilter(filter);
    if (!this.display.follow) this.scroller.scrollTop = 0;
    this.refresh();
  }

  setSteps(steps) {
    this.stepNames = new Map(steps.map((step) => [step.identifier, step.name]));
    const group = one("optgroup", this.part("show"));
    const chosen = this.part("show").value;
    group.replaceChildren(...steps.map((step) => h("option", { value: `step:${step.identifier}` }, step.name)));
    this.part("show").value = chosen;
  }

  text() {
    const { picked } = this.display;
    const wanted = [];
    for (const line of this.lines.loaded()) {
      const inside = picked ? line.number >= picked[0] && line.number <= picked[1] : !this.view.filter || this.view.filter(line);
      if (inside) wanted.push(plainOf(line));
    }
    return wanted;
  }

  async copy() {
    const lines = this.text();
    const done = await copyText(`${lines.join("\n")}\n`);
    announce(done ? `${lines.length.toLocaleString()} lines copied` : "Copying is not allowed here.");
    return done;
  }

  async copyLink() {
    if (await copyText(location.href)) announce("Link copied");
  }

  readLast() {
    const last = [];
    for (let number = Math.max(1, this.lines.last - 19); number <= this.lines.last; number += 1) last.push(this.lines.get(number) ? plainOf(this.lines.get(number)) : "");
    announce(last.join("\n"));
  }
}
