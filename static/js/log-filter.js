// Filter of log lines by step, source and level, stored in the URL.

import { h } from "./dom.js";

const LEVELS = { problems: ["warning", "error"], errors: ["error"] };
const NAMES = ["level", "origin", "step"];

export class LogFilter {
  constructor(part, query) {
    this.selects = NAMES.map((name) => part(name));
    for (const [at, select] of this.selects.entries()) {
      const value = query.get(NAMES[at]) || "";
      // A step of this execution may become known later than the address that names it.
      if (value && NAMES[at] === "step") select.append(h("option", { value }, value));
      select.value = [...select.options].some((option) => option.value === value) ? value : "";
    }
  }

  get chosen() {
    return Object.fromEntries(NAMES.map((name, at) => [name, this.selects[at].value]));
  }

  get isOn() {
    return this.selects.some((select) => select.value);
  }

  clear() {
    for (const select of this.selects) select.value = "";
  }

  setSteps(steps) {
    const select = this.selects[2];
    const { value } = select;
    const all = select.options[0];
    select.replaceChildren(all, ...steps.map(({ identifier, name }) => h("option", { value: identifier }, name)));
    if (value && select.value !== value && !steps.some((step) => step.identifier === value)) select.append(h("option", { value }, value));
    select.value = value;
  }

  // What decides about a line here, or null when all are shown.
  predicate() {
    if (!this.isOn) return null;
    const { level, origin, step } = this.chosen;
    const levels = LEVELS[level];
    return (line) => (!levels || levels.includes(line.level)) && (!origin || line.origin === origin) && (!step || line.step === step);
  }

  // The same as conditions for the server.
  conditions() {
    const { level, origin, step } = this.chosen;
    return { ...(level && { level: LEVELS[level].join() }), ...(origin && { origin }), ...(step && { step }) };
  }
}
