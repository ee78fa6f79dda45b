// Search in the log: matches as line numbers, a cursor, and marks next to the scroll bar.

import { h } from "./dom.js";
import { plainOf } from "./log-lines.js";

const MOST_MARKS = 300;

export class LogSearch {
  constructor(lines) {
    this.lines = lines;
    this.needle = "";
    this.matchCase = false;
    this.only = null;
    this.hits = [];
    this.known = new Set();
    this.at = -1;
  }

  set(text, matchCase, only) {
    this.matchCase = matchCase;
    this.only = only;
    this.needle = matchCase ? text : text.toLowerCase();
    this.hits = [];
    this.at = -1;
    if (this.needle) for (const line of this.lines.loaded()) if (this.matches(line)) this.hits.push(line.number);
    this.known = new Set(this.hits);
  }

  matches(line) {
    return (!this.only || this.only(line)) && (this.matchCase ? plainOf(line) : plainOf(line).toLowerCase()).includes(this.needle);
  }

  added(lines) {
    if (!this.needle) return;
    this.addHits(lines.filter((line) => this.matches(line)).map((line) => line.number));
  }

  // Takes hits from wherever they are known; the reader stays at the one where they are.
  addHits(numbers) {
    const current = this.hits[this.at];
    const fresh = numbers.filter((number) => !this.known.has(number));
    if (!fresh.length) return;
    const inOrder = fresh[0] > (this.hits.at(-1) ?? 0);
    for (const number of fresh) {
      this.known.add(number);
      this.hits.push(number);
    }
    if (!inOrder) this.hits.sort((a, b) => a - b);
    if (current !== undefined) this.at = this.hits.indexOf(current);
  }

  // The next hit after (or before) where the reader is; wraps around.
  move(step, from) {
    if (!this.hits.length) return null;
    if (this.at < 0) {
      const next = this.hits.findIndex((number) => number >= from);
      this.at = step > 0 ? Math.max(0, next) : (next <= 0 ? this.hits.length : next) - 1;
    } else {
      this.at = (this.at + step + this.hits.length) % this.hits.length;
    }
    return this.hits[this.at];
  }

  // What it says of hits on the server, too: whether they are still looked for, or could not be.
  label({ isLooking, hasFailed }) {
    if (!this.needle) return "";
    const count = `${this.hits.length.toLocaleString()}${isLooking ? " \u2026" : ""}`;
    if (hasFailed) return `${count}+, search failed`;
    return this.at < 0 ? `${count} ${this.hits.length === 1 ? "match" : "matches"}` : `${(this.at + 1).toLocaleString()}/${count}`;
  }

  drawMarks(gutter, last) {
    const seen = new Set();
    for (const number of this.hits) {
      seen.add(Math.round((number / Math.max(1, last)) * MOST_MARKS));
      if (seen.size > MOST_MARKS) break;
    }
    gutter.replaceChildren(
      ...[...seen].map((place) => {
        const mark = h("i");
        mark.style.top = `${(place / MOST_MARKS) * 98}%`;
        return mark;
      }),
    );
  }
}
