// Tokenizer of YAML and JSON, line by line, with the state of the previous line.

const LONGEST = 2000;
const EXPRESSION = /<\+[^<>\n]*>?/g;
const NUMBER = /^[-+]?(?:0x[0-9a-f]+|0o[0-7]+|\.?\d[\d.]*(?:e[-+]?\d+)?)$/i;
const ATOM = /^(?:true|false|null|~)$/i;

const SPACE = /\s+/y;
const COMMENT = /#.*/y;
const DASH = /-(?=\s|$)/y;
const KEY = /(?:"(?:[^"\\]|\\.)*"|'(?:[^']|'')*'|(?:[^\s,[\]{}#&*!|>'"%@`-]|-(?=\S))(?:[^:#,[\]{}]|:(?=\S)|(?<=\S)#)*?)(?=\s*:(?:\s|$))/y;
const BLOCK = /[|>][-+\d]{0,2}(?=\s*(?:#.*)?$)/y;
const MARKS = /[:,[\]{}]/y;
const PLAIN = /(?:[^\s,[\]{}]|,(?=\S)|[^\S\n]+(?![\s#]|$))+/y;
const JSON_STRING = /"(?:[^"\\]|\\.)*"?/y;
const JSON_WORD = /[^\s{}[\],:"]+/y;

const kindOf = (word) => (NUMBER.test(word) ? "number" : ATOM.test(word) ? "atom" : "");

// Text of one colour, with the expressions in it in theirs.
function coloured(css, text) {
  if (!text.includes("<+")) return [[css, text]];
  const found = [];
  let from = 0;
  for (const match of text.matchAll(EXPRESSION)) {
    if (match.index > from) found.push([css, text.slice(from, match.index)]);
    found.push(["expression", match[0]]);
    from = match.index + match[0].length;
  }
  if (from < text.length) found.push([css, text.slice(from)]);
  return found;
}

// Where the quote that is open ends, -1 where it stays open.
function closing(line, from, quote) {
  for (let at = from; at < line.length; at += 1) {
    if (quote === '"' && line[at] === "\\") at += 1;
    else if (line[at] === quote) {
      if (quote === "'" && line[at + 1] === "'") at += 1;
      else return at;
    }
  }
  return -1;
}

class Line {
  constructor(text) {
    this.text = text;
    this.at = 0;
    this.tokens = [];
  }

  // Adds the match of the sticky pattern as a token of that color.
  take(pattern, css) {
    pattern.lastIndex = this.at;
    const found = pattern.exec(this.text);
    if (!found || !found[0]) return false;
    this.put(typeof css === "function" ? css(found[0]) : css, found[0]);
    return true;
  }

  put(css, text) {
    this.tokens.push(...coloured(css, text));
    this.at += text.length;
  }
}

// "|4" is a block text below a key in column 4; a quote is a text that goes on.
function continued(line, state) {
  if (state[0] === "|") {
    const indent = line.text.search(/\S/);
    if (indent >= 0 && indent <= Number(state.slice(1))) return null;
    line.put("string", line.text);
    return state;
  }
  const end = closing(line.text, 0, state);
  line.put("string", end < 0 ? line.text : line.text.slice(0, end + 1));
  return end < 0 ? state : null;
}

function quoted(line) {
  const quote = line.text[line.at];
  const end = closing(line.text, line.at + 1, quote);
  line.put("string", end < 0 ? line.text.slice(line.at) : line.text.slice(line.at, end + 1));
  return end < 0 ? quote : "";
}

function yamlLine(text, state) {
  const line = new Line(text);
  const open = state ? continued(line, state) : null;
  if (open !== null) return { tokens: line.tokens, state: open };
  let column = -1;
  while (line.at < text.length) {
    const char = text[line.at];
    if (line.take(SPACE, "")) continue;
    if (char === "#" && (line.at === 0 || /\s/.test(text[line.at - 1])) && line.take(COMMENT, "comment")) continue;
    const here = line.at;
    if (line.take(DASH, "mark") || line.take(KEY, "key")) {
      column = here;
      continue;
    }
    if (char === '"' || char === "'") {
      const left = quoted(line);
      if (left) return { tokens: line.tokens, state: left };
      continue;
    }
    if (line.take(BLOCK, "mark")) return { tokens: [...line.tokens, ...coloured("comment", text.slice(line.at))], state: `|${column}` };
    if (line.take(MARKS, "mark") || line.take(PLAIN, kindOf)) continue;
    line.put("", char);
  }
  return { tokens: line.tokens, state: "" };
}

function jsonLine(text) {
  const line = new Line(text);
  const isKey = () => /^\s*:/.test(text.slice(JSON_STRING.lastIndex));
  while (line.at < text.length) {
    if (line.take(SPACE, "") || line.take(MARKS, "mark")) continue;
    if (line.take(JSON_STRING, () => (isKey() ? "key" : "string")) || line.take(JSON_WORD, kindOf)) continue;
    line.put("", text[line.at]);
  }
  return { tokens: line.tokens, state: "" };
}

const LANGUAGES = { yaml: yamlLine, json: jsonLine };

// Gives [[css, text], …] of a line and the state for the next one.
export function readLine(language, text, state) {
  const read = LANGUAGES[language];
  if (!read || text.length > LONGEST) return { tokens: text ? [["", text]] : [], state: "" };
  return read(text, state);
}
