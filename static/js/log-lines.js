// Lines of one execution by number, in pages of a thousand; a missing line is a hole.

import { plain } from "./ansi.js";

// Text without colors, computed for visible and searched lines only.
export const plainOf = (line) => (line.plain ??= plain(line.text));

export const PAGE = 1000;
const MOST = 200_000;
// The newest lines are loaded first; older ones when they become visible.
const EAGER = 20_000;
const pageOf = (number) => Math.floor((number - 1) / PAGE);

// The lines of a block as the server stores it: columns, and times as microseconds after the line before.
export function linesOf({ first, at, kinds, texts }) {
  const lines = [];
  let time = 0;
  for (const [count, step, unit, level, origin] of kinds) {
    for (let left = count; left > 0; left -= 1) {
      time += at[lines.length];
      lines.push({ number: first + lines.length, at: time / 1000, step, unit, level, origin, text: texts[lines.length] });
    }
  }
  return lines;
}

export class LogLines {
  constructor() {
    this.pages = new Map();
    this.forgotten = new Set();
    this.last = 0;
    this.count = 0;
  }

  get(number) {
    return this.pages.get(pageOf(number))?.lines[(number - 1) % PAGE];
  }

  // Takes lines in any order; those already here are dropped. Returns the new ones.
  add(lines) {
    const added = [];
    let index = -1;
    let page = null;
    for (const line of lines) {
      if (!Number.isInteger(line.number) || line.number < 1) continue;
      if (pageOf(line.number) !== index) {
        index = pageOf(line.number);
        page = this.page(index);
      }
      const at = (line.number - 1) % PAGE;
      if (page.lines[at]) continue;
      page.lines[at] = line;
      page.count += 1;
      this.count += 1;
      this.last = Math.max(this.last, line.number);
      added.push(line);
    }
    return added;
  }

  page(index) {
    if (!this.pages.has(index)) this.pages.set(index, { lines: new Array(PAGE), count: 0 });
    return this.pages.get(index);
  }

  // Lines up to `number` exist on the server, whether they are here or not.
  expect(number) {
    this.last = Math.max(this.last, number);
  }

  get isComplete() {
    return this.count >= this.last;
  }

  isFull(index) {
    const expected = Math.min(PAGE, this.last - index * PAGE);
    return (this.pages.get(index)?.count ?? 0) >= expected;
  }

  // The number before the newest missing line's page begins missing, or null when nothing is missing.
  newestHole() {
    // A page more, and another would be forgotten for it.
    if (this.count > MOST - PAGE) return null;
    const oldest = Math.max(0, pageOf(this.last - EAGER));
    for (let index = pageOf(this.last); index >= oldest; index -= 1) if (!this.isFull(index)) return this.before(index);
    return null;
  }

  before(index) {
    const lines = this.pages.get(index)?.lines;
    let at = 0;
    while (lines && lines[at]) at += 1;
    return index * PAGE + at;
  }

  // Bounds memory: pages farthest from this line are dropped, and can be loaded again; those in use stay.
  forgetFarFrom(number, used) {
    if (this.count <= MOST) return;
    const here = pageOf(number);
    const kept = new Set([here, ...used.map(pageOf)]);
    const droppable = [...this.pages.keys()].filter((index) => !kept.has(index)).sort((a, b) => Math.abs(a - here) - Math.abs(b - here));
    while (this.count > MOST && droppable.length) {
      const farthest = droppable.pop();
      this.count -= this.pages.get(farthest).count;
      this.pages.delete(farthest);
      this.forgotten.add(farthest);
    }
  }

  // Whether a line belongs to a page that was loaded and dropped before.
  wasForgotten({ number }) {
    return this.forgotten.has(pageOf(number));
  }

  *loaded() {
    for (const index of [...this.pages.keys()].sort((a, b) => a - b)) {
      for (const line of this.pages.get(index).lines) if (line) yield line;
    }
  }
}
