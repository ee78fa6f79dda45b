// Log pane: follow, search, deep links, timestamps, wrapping, filters, copy; the list itself is log-view.js.

import { copyText } from "./dialogs.js";
import { announce, find } from "./dom.js";
import { bindKey } from "./shortcuts.js";
import { LogFilter } from "./log-filter.js";
import { LogFolding } from "./log-folding.js";
import { ServerSearch } from "./log-server-search.js";
import { LogLines, linesOf, plainOf } from "./log-lines.js";
import { readHash, setQuery, writeHash } from "./log-url-state.js";
import { levelOf } from "./log-row.js";
import { LogSearch } from "./log-search.js";
import { LogSummary } from "./log-summary.js";
import { wireToolbar } from "./log-toolbar.js";
import { LogView } from "./log-view.js";

const TIMES = ["local", "utc", "elapsed", "off"];
const TIME_WORDS = { local: "Local time", utc: "UTC", elapsed: "Elapsed", off: "No time" };
// Beside the steps, narrower windows have no room for a usual line.
const WRAPS_BY_DEFAULT = "(max-width: 1399px)";

export class LogPane {
  constructor(root, { start, knownLast = 0 }) {
    this.root = root;
    this.knownLast = knownLast;
    // Requests to the server: load the lines around a number, and search lines.
    this.onNeed = async () => {};
    this.onFind = async () => ({ numbers: [], next: null });
    this.lines = new LogLines();
    this.search = new LogSearch(this.lines);
    this.furtherHits = new ServerSearch((...parameters) => this.onFind(...parameters));
    this.furtherLines = new ServerSearch((...parameters) => this.onFind(...parameters));
    this.summary = new LogSummary(this.part("summary"), this.part("spoken"));
    this.stepNames = new Map();
    this.unseen = 0;
    this.lastTop = 0;
    const query = new URLSearchParams(location.search);
    const time = query.get("time") || localStorage.getItem("slipway.time");
    this.display = {
      time: TIMES.includes(time) ? time : "local", start: Date.parse(start) || 0,
      search: this.search, folds: new LogFolding(this.lines), picked: null, hit: null, newFrom: null, follow: true,
    };
    this.filter = new LogFilter((name) => this.part(name), query);
    this.scroller = find("[data-log-scroll]", root);
    this.view = new LogView({ scroller: this.scroller, lines: this.lines, display: this.display, onSight: (sight) => this.showSight(sight) });
    const wrap = query.get("wrap") || localStorage.getItem("slipway.wrap");
    this.wrap = wrap ? wrap === "1" : matchMedia(WRAPS_BY_DEFAULT).matches;
    this.wire(query);
  }

  part(name) {
    return find(`[data-log-${name}]`, this.root);
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
    for (const key of "jkJK") bindKey(key, () => import("./log-line-keys.js").then((keys) => keys.moveLine(this, key)));
    this.setTime(this.display.time);
    this.setWrap(this.wrap);
    this.part("search").value = query.get("find") || "";
    this.part("case").setAttribute("aria-pressed", String(query.get("case") === "1"));
    this.setFilter();
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
    this.dropServedLines();
    this.summary.count(taken.filter((line) => !this.lines.wasForgotten(line)));
    this.search.added(taken);
    this.addToView(taken);
    if (!this.display.follow) this.notice(taken, lastBefore);
    this.lines.forgetFarFrom(this.sight?.first ?? this.lines.last, [...this.view.drawn.keys(), taken[0].number, taken.at(-1).number]);
    this.refresh();
    return taken.length;
  }

  // Wrapped lines above those in sight get their heights when they are loaded: the reader stays where they are.
  addToView(taken) {
    if (this.display.follow || !this.wrap || !this.sight?.first) return this.view.added(taken);
    const { picked } = this.display;
    const isPickedInSight = picked && picked[0] >= this.sight.from && picked[0] <= this.sight.to;
    this.view.keeping(isPickedInSight ? picked[0] : this.sight.first, () => this.view.added(taken));
    this.lastTop = this.scroller.scrollTop;
    return undefined;
  }

  // Lines that came while nobody looked: counted, and the first of them is marked.
  notice(taken, lastBefore) {
    const known = Math.max(lastBefore, this.knownLast);
    const fresh = taken.filter((line) => line.number > known);
    if (!fresh.length) return;
    this.unseen += fresh.length;
    this.display.newFrom ??= fresh[0].number;
  }

  // The lines that the server rendered give way to the first lines that are drawn here.
  dropServedLines() {
    this.part("served")?.remove();
  }

  expect(number) {
    if (number) this.dropServedLines();
    this.lines.expect(number);
    this.view.measure();
    this.view.queue();
    this.refresh();
  }

  refresh() {
    const isLoading = this.knownLast > 0 && !this.lines.last;
    this.part("empty").hidden = this.view.rowCount > 0 || isLoading;
    this.part("empty-word").textContent = this.emptyWord();
    this.part("more").hidden = this.display.follow || this.unseen === 0;
    this.part("more-count").textContent = `${this.unseen.toLocaleString()} new line${this.unseen === 1 ? "" : "s"}`;
    this.part("hits").textContent = this.search.label(this.furtherHits);
    this.part("follow").setAttribute("aria-pressed", String(this.display.follow));
    if (this.search.needle) this.search.drawMarks(this.part("marks"), this.lines.last);
    this.summary.update(this.lines.last, this.lines.isComplete);
  }

  emptyWord() {
    if (!this.filter.isOn || !this.lines.last) return "No lines yet.";
    if (this.furtherLines.hasFailed) return "The log could not be searched. Choose the filter again.";
    return this.furtherLines.isLooking ? "Searching\u2026" : "No line is of this kind.";
  }

  showSight(sight) {
    this.sight = sight;
    const line = this.lines.get(sight.first);
    this.part("where").textContent = line ? [this.stepNames.get(line.step) || line.step, line.unit].filter(Boolean).join(" \u203a ") : "";
    // Rows that a filter shows may be far apart.
    for (const number of this.view.drawn.keys()) if (!this.lines.get(number)) return this.onNeed(number);
  }

  scrolled() {
    const top = this.scroller.scrollTop;
    if (this.view.atEnd()) {
      if (!this.display.follow && top > this.lastTop) this.follow(true);
    } else if (top < this.lastTop) this.follow(false);
    this.lastTop = top;
  }

  follow(on) {
    this.display.follow = on;
    if (on) {
      this.unseen = 0;
      this.display.newFrom = null;
      this.view.toEnd();
      this.view.queue();
    }
    this.refresh();
  }

  clicked(event) {
    const fold = event.target.closest("button.fold");
    if (fold) return this.fold(Number(fold.parentElement.dataset.n));
    const number = Number(event.target.closest("a.n")?.parentElement.dataset.n);
    if (!number) return;
    event.preventDefault();
    const { picked } = this.display;
    this.pick(event.shiftKey && picked ? [Math.min(picked[0], number), Math.max(picked[1], number)] : [number, number]);
  }

  // A stretch that is not all here cannot be folded: nobody knows where it ends.
  fold(number) {
    if (!this.lines.isComplete) return announce("Parts of this log are not loaded yet; only a log that is all here can be folded.");
    this.follow(false);
    this.display.folds.toggle(this.lines.get(number));
    this.view.keeping(number, () => this.setFilter());
    this.lastTop = this.scroller.scrollTop;
    return undefined;
  }

  pick([first, last]) {
    this.display.picked = [first, last];
    writeHash([first, last]);
    this.follow(false);
    this.view.queue();
  }

  followHash() {
    const range = readHash();
    if (range) this.toLines(range);
  }

  toLines([first, last]) {
    this.dropServedLines();
    this.lines.expect(Math.min(first, Math.max(this.knownLast, this.lines.last)));
    if (this.view.filter && !this.view.filter(this.lines.get(first) || {})) {
      this.filter.clear();
      this.display.folds.clear();
      this.setFilter();
    }
    this.display.picked = [first, last];
    this.view.measure();
    this.jump(first);
  }

  // Being sent to a line near the end is no wish to follow the log.
  jump(number) {
    this.display.follow = false;
    this.view.toNumber(number);
    this.lastTop = this.scroller.scrollTop;
    this.refresh();
  }

  toLine(number) {
    this.toLines([number, number]);
    writeHash([number, number]);
  }

  async nextFailure() {
    const elsewhere = this.lines.isComplete ? [] : await this.failuresElsewhere().catch(() => null);
    const starts = [...(elsewhere ?? []), ...this.failures()].sort((a, b) => a - b);
    if (!starts.length) return announce(elsewhere ? "No error line so far." : "The log could not be searched. Try again.");
    this.failureAt = starts.find((number) => number > (this.failureAt ?? 0)) ?? starts[0];
    this.toLine(this.failureAt);
  }

  // Where a log opens: at the lines of the address, else at its first match, else a failed one at its first error.
  getOpening(hasFailed) {
    if (readHash()) return null;
    if (this.search.needle) return this.conditions();
    return hasFailed && !this.filter.isOn && { level: "error" };
  }

  // Shows the first such line of a log, most of which may not be loaded; without one, the end stays in view.
  async openAt(conditions) {
    for (let after = 0; after !== null; ) {
      const page = await this.onFind(conditions, after).catch(() => ({ numbers: [], next: null }));
      if (!this.display.follow || this.display.picked) return;
      if (page.numbers.length) return this.toLine(page.numbers[0]);
      after = page.next;
    }
  }

  // The first line with a text of each loaded run of error lines: a diagnosis is one failure, however long it is.
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

  async failuresElsewhere() {
    const numbers = await this.furtherLines.all({ level: "error" });
    return numbers.filter((number, at) => numbers[at - 1] !== number - 1 && !this.lines.get(number));
  }

  get matchCase() {
    return this.part("case").getAttribute("aria-pressed") === "true" ? "1" : "";
  }

  // The search as the server takes it.
  conditions() {
    return { q: this.part("search").value, ...(this.matchCase && { case: "1" }), ...this.filter.conditions() };
  }

  setSearch(text) {
    this.search.set(text, this.matchCase, this.view.filter);
    this.display.hit = null;
    this.part("marks").replaceChildren();
    this.furtherHits.stop();
    if (text && !this.lines.isComplete) {
      this.furtherHits.ask(this.conditions(), (numbers) => {
        this.search.addHits(numbers);
        this.refresh();
      });
    }
    setQuery({ find: text, case: this.matchCase });
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
    setQuery({ time: this.display.time === "local" ? "" : this.display.time });
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
      setQuery({ wrap: on ? "1" : "0" });
    }
    this.wrap = on;
    const place = this.sight?.first;
    this.part("wrap").setAttribute("aria-pressed", String(on));
    this.view.setWrap(on);
    if (place && !this.display.follow) this.jump(place);
  }

  // Applies the filters: loaded lines at once, others as the server finds them.
  setFilter() {
    if (this.filter.isOn) this.dropServedLines();
    setQuery(this.filter.chosen);
    this.view.setFilter(this.display.folds.narrow(this.filter.predicate()));
    this.furtherLines.stop();
    if (this.filter.isOn && !this.lines.isComplete) {
      this.furtherLines.ask(this.filter.conditions(), (numbers) => {
        this.view.show(numbers);
        this.refresh();
      });
    }
    this.setSearch(this.part("search").value);
  }

  setSteps(steps) {
    this.stepNames = new Map(steps.map((step) => [step.identifier, step.name]));
    this.filter.setSteps(steps);
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
