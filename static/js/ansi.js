// Parser of log lines: plain text and colored pieces; colors become class names. One pass over all special sequences:
// CSI, OSC, other controls, text direction marks.

// All special sequences: CSI, OSC, other controls, and bidirectional marks. The server stores U+FFFD for the bell that
// ends an OSC.
const SPECIAL = /\x1b\[([0-9;:]*)([@-~])|\x1b\[[0-?]*[ -/]*[@-~]|\x1b\][^\x07\x1b\ufffd]*(?:[\x07\ufffd]|\x1b\\)|[\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]/g;
const PLAIN = /^[^\x00-\x08\x0a-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]*$/;

function symbol(char) {
  const code = char.codePointAt(0);
  if (code < 0x20) return String.fromCodePoint(0x2400 + code);
  if (code === 0x7f) return "\u2421";
  return `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

function fresh() {
  return { color: "", bold: false, italic: false, underline: false };
}

function classOf({ color, bold, italic, underline }) {
  return [color, bold && "b", italic && "i", underline && "u"].filter(Boolean).join(" ");
}

function extended(codes, at) {
  if (codes[at + 1] === 5) return { color: codes[at + 2] < 16 ? `a${codes[at + 2]}` : "", skip: 2 };
  return { color: "", skip: codes[at + 1] === 2 ? 4 : 0 };
}

const SWITCHES = {
  1: { bold: true }, 3: { italic: true }, 4: { underline: true }, 22: { bold: false }, 23: { italic: false },
  24: { underline: false }, 39: { color: "" },
};

function applyCodes(style, text) {
  const codes = text.split(/[;:]/).map((part) => Number(part) || 0);
  let next = style;
  for (let at = 0; at < codes.length; at += 1) {
    const code = codes[at];
    if (code === 0) next = fresh();
    else if (code >= 30 && code <= 37) next = { ...next, color: `a${code - 30}` };
    else if (code >= 90 && code <= 97) next = { ...next, color: `a${code - 82}` };
    else if (code === 38 || code === 48) {
      const { color, skip } = extended(codes, at);
      if (code === 38) next = { ...next, color };
      at += skip;
    } else if (SWITCHES[code]) next = { ...next, ...SWITCHES[code] };
  }
  return next;
}

export function parse(text) {
  if (PLAIN.test(text)) return [{ text, css: "" }];
  const pieces = [];
  let style = fresh();
  let from = 0;
  const push = (part, css) => part && pieces.push({ text: part, css });
  for (const match of text.matchAll(SPECIAL)) {
    push(text.slice(from, match.index), classOf(style));
    from = match.index + match[0].length;
    if (match[2] === "m") style = applyCodes(style, match[1]);
    else if (match[0].length === 1) push(symbol(match[0]), "sym");
  }
  push(text.slice(from), classOf(style));
  return pieces;
}

export function plain(text) {
  return PLAIN.test(text) ? text : parse(text).map((piece) => piece.text).join("");
}
