// Tabs next to the log: outputs with their expressions, and the rollback checklist.

import { copyButton, h, icon, mark } from "./dom.js";

const written = (value) => (typeof value === "string" ? value : JSON.stringify(value));

function head(...names) {
  return h("thead", {}, h("tr", {}, names.map((name) => h("th", { scope: "col" }, name))));
}

function empty(form, title, text) {
  return h("div", { class: "empty" }, icon(form), h("h2", {}, title), h("p", {}, text));
}

const expressionOf = (step, name) => `<+execution.steps.${step.identifier}.output.${name}>`;

function outputRow(step, name, value) {
  const expression = expressionOf(step, name);
  return h("tr", {},
    h("th", { scope: "row" }, h("span", { class: "name" }, name)),
    h("td", {}, h("span", { class: "copy" }, h("code", {}, written(value)), copyButton(written(value), `Copy the value of ${name}`))),
    h("td", { class: "tight" }, h("button", { type: "button", class: "button small", "data-copy": expression, title: expression }, "Copy expression")),
  );
}

export function drawOutputs(steps) {
  const stepsWithOutputs = steps.filter((step) => Object.keys(step.outputs || {}).length);
  if (!stepsWithOutputs.length) return [empty("pipelines", "No outputs yet", "Outputs of steps, such as the ARN of a registered task definition, are listed here. Later steps can use them.")];
  return stepsWithOutputs.map((step) =>
    h("section", { class: "stack" }, h("h2", {}, step.name),
      h("p", { class: "secondary-text small" }, "A later step takes an output with an expression such as ", h("code", {}, expressionOf(step, Object.keys(step.outputs)[0])), "."),
      h("div", { class: "table-wrap", tabindex: "0" }, h("table", { class: "table compact" }, head("Output", "Value", "For later steps"),
        h("tbody", {}, Object.entries(step.outputs).map(([name, value]) => outputRow(step, name, value)))))));
}

function checkRow(item) {
  return h("tr", {},
    h("td", { class: "tight" }, mark(item.ok ? "DONE" : "NOT_RESTORED")),
    h("th", { scope: "row" }, h("span", { class: "name" }, item.subject), item.note ? h("span", { class: "sub" }, item.note) : null),
    h("td", {}, h("code", {}, written(item.expected))),
    h("td", {}, h("code", {}, written(item.found))),
  );
}

export function drawChecklist(items, ended) {
  if (!items.length) {
    return [empty("services", ended ? "Nothing was rolled back" : "No rollback so far",
      "A rollback ends with a checklist that compares the saved settings with the restored ones.")];
  }
  const restored = items.filter((item) => item.ok).length;
  return [
    h("p", { class: "secondary-text" }, `${restored} of ${items.length} restored to the state before this execution.`),
    h("div", { class: "table-wrap", tabindex: "0" }, h("table", { class: "table compact" }, head(h("span", { class: "visually-hidden" }, "State"), "Item", "Before", "After the rollback"), h("tbody", {}, items.map(checkRow)))),
  ];
}
