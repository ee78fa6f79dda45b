// Validation of the editor's text by the server during typing, with a list of problems below the text.

import { h, shape } from "./dom.js";

const AFTER = 400;

const formatPosition = (problem) => (problem.line ? `Line ${problem.line}${problem.column ? `, column ${problem.column}` : ""}` : "");
const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

export function countText(problems) {
  const errors = problems.filter((problem) => problem.level === "error").length;
  const warnings = problems.length - errors;
  return [errors && plural(errors, "error"), warnings && plural(warnings, "warning")].filter(Boolean).join(", ") || "No problems found.";
}

export class EditorCheck {
  // shown(problems) marks lines, said(text) announces, jump(problem) moves the caret.
  constructor(area, list, { shown, said, jump }) {
    Object.assign(this, { area, list, shown, said, jump, problems: [], at: -1 });
    this.take(this.served());
  }

  // What the server drew into the page when it refused the form.
  served() {
    return [...this.list.querySelectorAll("li")].map(({ dataset: { line, column, path, level }, dataset }) => ({
      line: Number(line) || null, column: Number(column) || null, path: path || "", level: level || "error", message: dataset.message,
    }));
  }

  soon() {
    if (!this.area.dataset.check) return;
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.now(), AFTER);
  }

  // Replaces a pending check, so that its result precedes the next announcement.
  async finish() {
    if (!this.area.dataset.check) return;
    clearTimeout(this.timer);
    await this.now();
  }

  async now() {
    if (!this.area.form) return undefined;
    this.request?.abort();
    this.request = new AbortController();
    const body = new URLSearchParams([...new FormData(this.area.form)].filter(([, value]) => typeof value === "string"));
    try {
      const response = await fetch(this.area.dataset.check, { method: "POST", body, signal: this.request.signal, headers: { Accept: "application/json" } });
      const answer = await response.json();
      if (!response.ok) return this.said(`Not checked: ${answer.detail || response.status}`);
      const level = (name) => (answer[`${name}s`] || []).map((problem) => ({ ...problem, level: name }));
      this.take([...level("error"), ...level("warning")]);
      this.said([countText(this.problems), answer.note].filter(Boolean).join(" "));
    } catch (error) {
      if (error.name !== "AbortError") this.said("Not checked: the server did not answer.");
    }
    return undefined;
  }

  take(problems) {
    this.problems = problems;
    this.at = -1;
    this.shown(problems);
    this.list.hidden = problems.length === 0;
    this.list.replaceChildren(...problems.map((problem) => this.item(problem)));
  }

  item(problem) {
    const tone = problem.level === "error" ? "failed" : "waiting";
    const words = [h("strong", {}, formatPosition(problem)), problem.path ? h("code", {}, problem.path) : null, h("span", {}, problem.message)];
    const icon = shape(problem.level === "error" ? "s-failed" : "s-warning", `icon mark tone-${tone}`, problem.level);
    const inner = problem.line ? h("button", { type: "button", onclick: () => this.jump(problem) }, icon, words) : h("p", {}, icon, words);
    return h("li", {}, inner);
  }

  step(by) {
    const placed = this.problems.filter((problem) => problem.line);
    if (!placed.length) return;
    this.at = (this.at + by + placed.length) % placed.length;
    this.jump(placed[this.at]);
    this.said(`${formatPosition(placed[this.at])}: ${placed[this.at].message}`);
  }
}
