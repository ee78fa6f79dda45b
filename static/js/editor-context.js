// Context of the caret in a YAML or JSON text: the path of keys around it and the token at it.
//
// A place is {kind: "key" | "value" | "expression", path: ["a", "*", "b"], prefix, from, to, column,
// have: Set of keys that are there already, scalars: [{key: text} for every level of the path]}.

const DASH = /-(?:\s+|$)/y;
const KEY = /("(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|[^\s#'"[\]{},&*!|>%@`](?:[^:#]|:(?=\S)|(?<=\S)#)*?)\s*:(?:\s+|$)/y;
const JSON_TOKEN = /"(?:[^"\\\n]|\\.)*"?|[{}[\],:]|[^\s{}[\],:"]+/g;

const bare = (word) => word.replace(/^["']|["']$/g, "");

function at(pattern, text, from) {
  pattern.lastIndex = from;
  return pattern.exec(text);
}

// Expression at the caret: the rest of its name up to the bracket is replaced too.
export function getExpressionContext(before, after, offset) {
  const found = before.match(/<\+\s*([\w.$-]*)$/);
  if (!found) return null;
  const to = offset + (after.match(/^[\w.$-]*>/)?.[0].length ?? 0);
  return { kind: "expression", path: [], prefix: found[1], from: offset - found[1].length, to, scalars: [], existingKeys: new Set() };
}

// --- YAML ------------------------------------------------------------------------------------------

class Stack {
  constructor() {
    this.frames = [{ indent: -1, name: null, scalars: {} }];
  }

  get top() {
    return this.frames.at(-1);
  }

  push(indent, name) {
    this.frames.push({ indent, name, scalars: {} });
  }

  leave(indent) {
    while (this.top.indent >= indent) this.frames.pop();
  }

  // A list may stand in the same column as the key that it belongs to.
  leaveForItem(indent) {
    while (this.top.indent > indent || (this.top.indent === indent && this.top.name === "*")) this.frames.pop();
  }

  // Takes the dashes and the key that a line begins with; returns the column behind them.
  take(line) {
    let column = line.search(/\S|$/);
    for (let dash = at(DASH, line, column); dash; dash = at(DASH, line, column)) {
      this.leaveForItem(column);
      this.push(column, "*");
      column += dash[0].length;
    }
    const key = at(KEY, line, column);
    if (!key) return { column, key: null };
    this.leave(column);
    const name = bare(key[1]);
    this.top.scalars[name] = bare(line.slice(column + key[0].length).replace(/\s#.*$/, "").trim());
    this.push(column, name);
    return { column: column + key[0].length, key: name };
  }

  place(rest) {
    const inner = this.frames.slice(1);
    return { path: inner.map((frame) => frame.name), scalars: this.frames.map((frame) => frame.scalars), ...rest };
  }
}

function keysBelow(lines, row, column) {
  const found = new Set();
  for (let next = row + 1; next < lines.length; next += 1) {
    const indent = lines[next].search(/\S/);
    if (indent < 0) continue;
    if (indent < column || at(DASH, lines[next], indent)) break;
    const key = indent === column && at(KEY, lines[next], indent);
    if (key) found.add(bare(key[1]));
  }
  return found;
}

export function getYamlContext({ lines, states }, { row, column }, offset) {
  const before = lines[row].slice(0, column);
  const expression = getExpressionContext(before, lines[row].slice(column), offset);
  if (expression) return expression;
  if (states[row] || /(?:^|\s)#/.test(before)) return null;
  const stack = new Stack();
  for (let up = 0; up < row; up += 1) if (!states[up] && /^\s*[^\s#]/.test(lines[up])) stack.take(lines[up]);
  const token = stack.take(before);
  const prefix = before.slice(token.column);
  const from = offset - prefix.length;
  if (token.key !== null) return stack.place({ kind: "value", prefix, from, to: offset, column: token.column, existingKeys: new Set() });
  stack.leave(token.column);
  const existingKeys = new Set([...Object.keys(stack.top.scalars), ...keysBelow(lines, row, token.column)]);
  return stack.place({ kind: "key", prefix, from, to: offset, column: token.column, existingKeys });
}

// --- JSON ------------------------------------------------------------------------------------------

function readJsonToken(frames, token) {
  const top = frames.at(-1);
  if (token === "{" || token === "[") frames.push({ isObject: token === "{", key: null, isValue: false, scalars: {} });
  else if (token === "}" || token === "]") frames.length > 1 && frames.pop();
  else if (token === ":") top.isValue = true;
  else if (token === ",") Object.assign(top, { key: null, isValue: false });
  else if (top.isObject && !top.isValue) top.key = bare(token);
  else if (top.key) top.scalars[top.key] = bare(token);
}

export function getJsonContext(text, offset) {
  const before = text.slice(0, offset);
  const expression = getExpressionContext(before, text.slice(offset), offset);
  if (expression) return expression;
  const frames = [{ isObject: false, key: null, isValue: true, scalars: {}, isRoot: true }];
  let prefix = "";
  for (const found of before.matchAll(JSON_TOKEN)) {
    const isWriting = found.index + found[0].length === offset && /^(?:"(?:[^"\\]|\\.)*|[^{}[\],:"]+)$/.test(found[0]);
    if (isWriting) prefix = found[0];
    else readJsonToken(frames, found[0]);
  }
  const top = frames.at(-1);
  const kind = top.isObject && !top.isValue ? "key" : "value";
  const named = kind === "key" ? frames.slice(1, -1) : frames.slice(1);
  const path = named.map((frame) => (frame.isObject ? frame.key : "*"));
  const to = prefix.startsWith('"') && text[offset] === '"' ? offset + 1 : offset;
  const scalars = frames.filter((frame) => !frame.isRoot).map((frame) => frame.scalars);
  return { kind, path, scalars, prefix: bare(prefix), from: offset - prefix.length, to, column: 0, existingKeys: new Set(Object.keys(top.scalars)) };
}
