// Expressions available at a position, read from the server once per expression.

import { suggestions } from "./editor-suggestions.js";

export class ExpressionNames {
  constructor(address) {
    this.address = address;
    this.key = null;
    this.expressions = null;
  }

  // The suggestions for a place of kind "expression", or null while the answer is on its way: `came` is called
  // then. `key` tells one place from another, `body` says to the server where it is.
  at(key, place, body, came) {
    if (key !== this.key) this.ask(key, body, came);
    return this.expressions && suggestions({ expressions: this.expressions }, place);
  }

  async ask(key, body, came) {
    Object.assign(this, { key, expressions: null });
    const headers = { Accept: "application/json" };
    const response = await fetch(this.address, { method: "POST", body, headers }).catch(() => null);
    const answer = response?.ok ? await response.json() : { expressions: [] };
    if (key !== this.key) return;
    if (!response?.ok) this.key = null;
    this.expressions = answer.expressions;
    came();
  }
}

export function bodyOf(form, more) {
  const body = new URLSearchParams([...new FormData(form)].filter(([, value]) => typeof value === "string"));
  for (const [name, value] of Object.entries(more)) body.set(name, value);
  return body;
}
