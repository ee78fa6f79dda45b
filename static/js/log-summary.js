// Summary of the log below it, announced to screen readers every five seconds at most.

const SPOKEN_EVERY = 5000;
// Counts of an incomplete log are incomplete too.
const many = (count, word, isAll = true) => `${count.toLocaleString()}${isAll ? "" : "+"} ${word}${count === 1 && isAll ? "" : "s"}`;

export class LogSummary {
  constructor(shown, spoken) {
    this.shown = shown;
    this.spoken = spoken;
    this.spokenAt = 0;
    this.stateWord = "";
    this.counts = { warning: 0, error: 0 };
  }

  count(lines) {
    for (const { level } of lines) {
      if (level === "error") this.counts.error += 1;
      else if (level === "warning") this.counts.warning += 1;
    }
  }

  update(last, isComplete) {
    const { error, warning } = this.counts;
    const parts = [many(last, "line")];
    if (error) parts.push(many(error, "error", isComplete));
    if (warning) parts.push(many(warning, "warning", isComplete));
    this.text = parts.join(", ");
    this.shown.textContent = this.text;
    this.timer ??= setTimeout(() => this.speak(), Math.max(0, this.spokenAt + SPOKEN_EVERY - Date.now()));
  }

  speak() {
    this.timer = undefined;
    this.spokenAt = Date.now();
    this.spoken.textContent = `${this.stateWord || "Log"}: ${this.text}`;
  }
}
