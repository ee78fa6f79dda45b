// Folded units: only the first line of each unit stays visible.

const keyOf = (line) => `${line.step}\n${line.unit}`;

export class LogFolding {
  constructor(lines) {
    this.lines = lines;
    this.keys = new Set();
  }

  // The first line, and each that another unit or a line not loaded comes before.
  starts(line) {
    const before = this.lines.get(line.number - 1);
    return line.number === 1 || Boolean(before && keyOf(before) !== keyOf(line));
  }

  isFolded(line) {
    return this.keys.has(keyOf(line));
  }

  toggle(line) {
    if (!this.keys.delete(keyOf(line))) this.keys.add(keyOf(line));
  }

  clear() {
    this.keys.clear();
  }

  // Filters lines by folded units; null if nothing is filtered or folded.
  narrow(predicate) {
    if (!this.keys.size) return predicate;
    return (line) => (!predicate || predicate(line)) && (!this.isFolded(line) || this.starts(line));
  }

  // How many lines a folded stretch hides.
  hidden(line) {
    let number = line.number + 1;
    for (let next = this.lines.get(number); next && keyOf(next) === keyOf(line); next = this.lines.get(number)) number += 1;
    return number - line.number - 1;
  }
}
