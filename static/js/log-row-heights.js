// Positions of rows: 20 px each, or the height of their wrapped lines, summed in blocks of 256.

export const ROW = 20;
const BLOCK = 256;

export class FixedHeights {
  constructor(count) {
    this.count = count;
  }

  total() {
    return this.count * ROW;
  }

  top(row) {
    return row * ROW;
  }

  rowAt(pixels) {
    return Math.floor(pixels / ROW);
  }
}

export class WrappedHeights {
  constructor() {
    this.rows = [];
    this.blocks = [];
    this.tops = [0];
    this.exact = 0;
  }

  get count() {
    return this.rows.length;
  }

  set(row, height) {
    const block = Math.floor(row / BLOCK);
    this.blocks[block] = (this.blocks[block] || 0) + height - (this.rows[row] || 0);
    this.rows[row] = height;
    this.exact = Math.min(this.exact, block);
  }

  blockTop(block) {
    for (; this.exact < block; this.exact += 1) {
      this.tops[this.exact + 1] = this.tops[this.exact] + (this.blocks[this.exact] || 0);
    }
    return this.tops[block];
  }

  total() {
    return this.top(this.count);
  }

  top(row) {
    const block = Math.floor(row / BLOCK);
    let top = this.blockTop(block);
    for (let at = block * BLOCK; at < row; at += 1) top += this.rows[at];
    return top;
  }

  rowAt(pixels) {
    let low = 0;
    let high = this.blocks.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (this.blockTop(middle) <= pixels) low = middle;
      else high = middle - 1;
    }
    let row = Math.max(0, low) * BLOCK;
    for (let top = this.blockTop(Math.max(0, low)); row < this.count && top + this.rows[row] <= pixels; row += 1) top += this.rows[row];
    return row;
  }
}
