// Virtual list of the log pane: renders the visible rows and 20 on each side, for logs of any length.

import { h } from "./dom.js";
import { FixedHeights, ROW, WrappedHeights } from "./log-row-heights.js";
import { plainOf } from "./log-lines.js";
import { makeHole, makeRow } from "./log-row.js";

const AROUND = 20;
// Browsers cut elements off near 33 million pixels; above this height scrolling is scaled instead.
const TALLEST = 15_000_000;

export class LogView {
  constructor({ scroller, lines, display, onSight }) {
    this.scroller = scroller;
    this.lines = lines;
    this.display = display;
    this.onSight = onSight;
    this.filter = null;
    this.order = null;
    this.shown = new Set();
    this.heights = new FixedHeights(0);
    this.drawn = new Map();
    this.stamp = 0;
    this.queued = false;
    this.rows = h("div", { class: "log-rows" });
    this.space = h("div", { class: "log-space" }, this.rows);
    scroller.append(this.space);
    scroller.addEventListener("scroll", () => this.queue(), { passive: true });
    new ResizeObserver(() => this.resized()).observe(scroller);
  }

  get rowCount() {
    return this.order ? this.order.length : this.lines.last;
  }

  numberAt(row) {
    return this.order ? this.order[row] : row + 1;
  }

  rowOf(number) {
    if (!this.order) return number - 1;
    let low = 0;
    let high = this.order.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.order[middle] < number) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  // The same lines, shown another way: everything in sight is drawn anew.
  restyle() {
    this.stamp += 1;
    this.queue();
  }

  setFilter(filter) {
    this.filter = filter;
    this.rebuild();
  }

  setWrap(on) {
    this.scroller.classList.toggle("wrap", on);
    this.heights = on ? new WrappedHeights() : new FixedHeights(0);
    this.rebuild();
  }

  rebuild() {
    this.order = null;
    if (this.filter) {
      this.order = [];
      for (const line of this.lines.loaded()) if (this.filter(line)) this.order.push(line.number);
      this.shown = new Set(this.order);
    }
    this.measure();
    this.restyle();
  }

  added(lines) {
    if (this.order) this.insert(lines.filter(this.filter).map((line) => line.number));
    if (this.heights instanceof WrappedHeights) this.measureLines(lines);
    else this.heights.count = this.rowCount;
    this.stale(lines);
    this.queue();
  }

  // Lines that the filter wants, whether they are here or not.
  show(numbers) {
    if (!this.order) return;
    this.insert(numbers);
    this.measure();
    this.queue();
  }

  *numbers() {
    for (let row = 0; row < this.rowCount; row += 1) yield this.numberAt(row);
  }

  insert(numbers) {
    const fresh = numbers.filter((number) => !this.shown.has(number));
    if (!fresh.length) return;
    const inOrder = fresh[0] > (this.order.at(-1) ?? 0);
    for (const number of fresh) {
      this.shown.add(number);
      this.order.push(number);
    }
    if (!inOrder) this.order.sort((a, b) => a - b);
    if (!inOrder && this.heights instanceof WrappedHeights) this.measure();
  }

  // Redraws filled holes and the row after each, whose unit may start at another line.
  stale(lines) {
    let first = Infinity;
    let last = 0;
    for (const { number } of lines) {
      if (number < first) first = number;
      if (number > last) last = number;
    }
    for (const [number, row] of this.drawn) if (number >= first && number <= last + 1) row.stamp = -1;
  }

  measure() {
    if (this.heights instanceof FixedHeights) {
      this.heights.count = this.rowCount;
      return;
    }
    this.heights = new WrappedHeights();
    this.columns = this.countColumns();
    for (let row = 0; row < this.rowCount; row += 1) this.heights.set(row, this.guess(this.lines.get(this.numberAt(row))));
  }

  measureLines(lines) {
    for (let row = this.heights.count; row < this.rowCount; row += 1) this.heights.set(row, ROW);
    for (const line of lines) {
      const row = this.rowOf(line.number);
      if (this.numberAt(row) === line.number) this.heights.set(row, this.guess(line));
    }
  }

  guess(line) {
    return line ? Math.max(1, Math.ceil(plainOf(line).length / this.columns)) * ROW : ROW;
  }

  countColumns() {
    const probe = h("span", {}, "0".repeat(100));
    this.rows.append(probe);
    const width = probe.getBoundingClientRect().width / 100 || 8;
    probe.remove();
    const gutter = this.display.time === "off" ? 10 : 24;
    return Math.max(10, Math.floor(this.scroller.clientWidth / width) - gutter);
  }

  resized() {
    if (this.heights instanceof WrappedHeights) this.measure();
    if (this.display.follow) this.toEnd();
    this.queue();
  }

  // Distance between the real top of the list and its top in the possibly shorter spacer.
  geometry() {
    const total = this.heights.total();
    const space = Math.min(total, TALLEST);
    const seen = this.scroller.clientHeight;
    const scale = total > TALLEST ? (total - seen) / (space - seen) : 1;
    return { total, space, seen, scale };
  }

  queue() {
    if (this.queued) return;
    this.queued = true;
    requestAnimationFrame(() => {
      this.queued = false;
      this.draw();
    });
  }

  draw() {
    const { space, seen, scale } = this.geometry();
    this.space.style.height = `${space}px`;
    if (this.display.follow && this.rowCount) this.scroller.scrollTop = space;
    const top = this.scroller.scrollTop * scale;
    const inSight = this.heights.rowAt(top);
    const from = Math.max(0, inSight - AROUND);
    const to = Math.min(this.rowCount, this.heights.rowAt(top + seen) + 1 + AROUND);
    this.place(from, to);
    this.rows.style.transform = `translateY(${this.heights.top(from) - top + this.scroller.scrollTop}px)`;
    if (this.heights instanceof WrappedHeights) this.correct(from);
    this.onSight({ first: this.numberAt(Math.min(inSight, this.rowCount - 1)), from: this.numberAt(from), to: this.numberAt(to - 1) });
  }

  place(from, to) {
    const next = new Map();
    const nodes = [];
    for (let row = from; row < to; row += 1) {
      const number = this.numberAt(row);
      const old = this.drawn.get(number);
      const entry = old && old.stamp === this.stamp ? old : { stamp: this.stamp, node: this.make(number) };
      const { picked, hit, newFrom } = this.display;
      entry.node.classList.toggle("picked", picked !== null && number >= picked[0] && number <= picked[1]);
      entry.node.classList.toggle("hit", hit === number);
      entry.node.classList.toggle("new-from", newFrom === number);
      next.set(number, entry);
      nodes.push(entry.node);
    }
    this.drawn = next;
    this.sync(nodes);
  }

  // Moves as little as possible, so that a text selection survives new lines.
  sync(nodes) {
    const visibleNodes = new Set(nodes);
    for (const child of [...this.rows.children]) if (!visibleNodes.has(child)) child.remove();
    let at = this.rows.firstChild;
    for (const node of nodes) {
      if (node === at) at = at.nextSibling;
      else this.rows.insertBefore(node, at);
    }
  }

  make(number) {
    const line = this.lines.get(number);
    if (!line) return makeHole(number);
    const { folds } = this.display;
    const fold = folds.starts(line) ? { isFolded: folds.isFolded(line), hidden: folds.isFolded(line) && folds.hidden(line) } : undefined;
    return makeRow(line, { ...this.display, fold });
  }

  correct(from) {
    let changed = false;
    [...this.rows.children].forEach((node, at) => {
      const height = Math.max(ROW, Math.round(node.offsetHeight / ROW) * ROW);
      if (this.heights.rows[from + at] === height) return;
      this.heights.set(from + at, height);
      changed = true;
    });
    if (changed) this.space.style.height = `${this.geometry().space}px`;
  }

  atEnd() {
    return this.scroller.scrollTop + this.scroller.clientHeight >= this.scroller.scrollHeight - 8;
  }

  toEnd() {
    this.space.style.height = `${this.geometry().space}px`;
    this.scroller.scrollTop = this.scroller.scrollHeight;
  }

  // Does something that moves rows, and leaves this one where the reader sees it.
  keeping(number, change) {
    const { scale } = this.geometry();
    const seenAt = this.heights.top(this.rowOf(number)) - this.scroller.scrollTop * scale;
    change();
    const after = this.geometry();
    this.space.style.height = `${after.space}px`;
    this.scroller.scrollTop = (this.heights.top(this.rowOf(number)) - seenAt) / after.scale;
  }

  toNumber(number) {
    const { seen, space, scale } = this.geometry();
    this.space.style.height = `${space}px`;
    const top = this.heights.top(Math.min(this.rowOf(number), Math.max(0, this.rowCount - 1)));
    this.scroller.scrollTop = Math.max(0, top - seen / 3) / scale;
    this.queue();
  }
}
