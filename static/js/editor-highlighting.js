// Colored text behind the textarea and line numbers next to it, for the visible rows only.

import { h } from "./dom.js";
import { readLine } from "./editor-tokens.js";

export const ROW = 20;
const AROUND = 12;

const said = (css, text) => h("span", { class: css, "data-t": text });

export class Highlighter {
  constructor(area, language, gutter, page) {
    this.area = area;
    this.language = language;
    this.lines = [];
    this.states = [""];
    this.marks = new Map();
    this.row = 0;
    this.numbers = h("div", { class: "editor-rows" });
    this.rows = h("div", { class: "editor-rows" });
    gutter.append(this.numbers);
    page.append(this.rows);
    this.gutter = gutter;
    new ResizeObserver(() => this.draw()).observe(area);
    area.addEventListener("scroll", () => this.draw(), { passive: true });
  }

  // Updates the text; only changed lines and lines with a changed state are tokenized again.
  read(text) {
    const lines = text.split("\n");
    const before = this.lines;
    const most = Math.min(lines.length, before.length);
    let head = 0;
    while (head < most && lines[head] === before[head]) head += 1;
    let tail = 0;
    while (tail < most - head && lines[lines.length - 1 - tail] === before[before.length - 1 - tail]) tail += 1;
    const states = this.states.slice(0, head + 1);
    const shift = before.length - lines.length;
    for (let at = head; at < lines.length; at += 1) {
      if (at >= lines.length - tail && states[at] === this.states[at + shift]) {
        for (let rest = at + 1; rest <= lines.length; rest += 1) states.push(this.states[rest + shift]);
        break;
      }
      states.push(readLine(this.language, lines[at], states[at]).state);
    }
    this.lines = lines;
    this.states = states;
    this.gutter.dataset.digits = Math.max(3, String(lines.length).length);
    this.draw();
  }

  // problems: [{line, message, level}]; the worst of a line is shown on it.
  mark(problems) {
    this.marks.clear();
    for (const problem of problems) {
      const marked = this.marks.get(problem.line);
      if (problem.line && (!marked || (marked.level === "warning" && problem.level === "error"))) this.marks.set(problem.line, problem);
    }
    this.draw();
  }

  showCurrentRow(row) {
    if (row === this.row) return;
    this.row = row;
    this.draw();
  }

  draw() {
    const { scrollTop, scrollLeft, clientHeight } = this.area;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - AROUND);
    const last = Math.min(this.lines.length, Math.ceil((scrollTop + clientHeight) / ROW) + AROUND);
    const numbers = [];
    const rows = [];
    for (let at = first; at < last; at += 1) {
      const mark = this.marks.get(at + 1);
      const css = `${at === this.row ? " current-line" : ""}${mark ? ` ${mark.level}` : ""}`;
      numbers.push(h("i", { class: `editor-number${css}`, "data-t": at + 1, title: mark?.message }));
      rows.push(h("div", { class: `editor-line${css}` }, this.spans(at), mark ? said("editor-problem-text", mark.message) : null));
    }
    this.numbers.replaceChildren(...numbers);
    this.rows.replaceChildren(...rows);
    const top = first * ROW - scrollTop;
    this.numbers.style.transform = `translateY(${top}px)`;
    this.rows.style.transform = `translate(${-scrollLeft}px, ${top}px)`;
  }

  // The text is in attributes that the style sheet shows: so the browser's search finds it once, in the textarea.
  spans(at) {
    return readLine(this.language, this.lines[at], this.states[at]).tokens.map(([css, text]) => said(css ? `tok-${css}` : null, text));
  }

  scrollTo(row) {
    const { clientHeight, scrollTop } = this.area;
    if (row * ROW >= scrollTop && (row + 2) * ROW <= scrollTop + clientHeight) return;
    this.area.scrollTop = Math.max(0, row * ROW - clientHeight / 3);
  }
}
