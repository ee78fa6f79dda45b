// Cleanup of a manifest: the server returns the text in the format of AWS, and the user accepts its changes.

import { h } from "./dom.js";
import { replace } from "./editor-text.js";

const SIGNS = { "+": ["added", "+"], "-": ["removed", "−"], " ": ["", ""] };

function row({ sign, text, old, new: now }) {
  const [name, shown] = SIGNS[sign];
  const mark = shown && h("span", { "aria-label": name }, shown);
  return h("tr", { class: name || null }, h("td", { class: "number" }, old ?? ""), h("td", { class: "number" }, now ?? ""), h("td", { class: "sign" }, mark), h("td", { class: "text" }, text));
}

function difference(hunks) {
  const head = h("thead", { class: "visually-hidden" }, h("tr", {}, ["Old line", "New line", "Change", "Text"].map((name) => h("th", { scope: "col" }, name))));
  const bodies = hunks.map((hunk) => h("tbody", {}, hunk.map(row)));
  return h("div", { class: "diff", tabindex: "0", role: "region", "aria-label": "Lines that differ" }, h("table", {}, head, bodies));
}

function show(area, { content, changes, hunks }) {
  const take = () => {
    dialog.close();
    replace(area, 0, area.value.length, content);
  };
  const dialog = h("dialog", { class: "dialog large", "aria-labelledby": "clean-up-title", onclose: () => dialog.remove() },
    h("div", { class: "body" }, h("h2", { id: "clean-up-title" }, "Cleanup changes"), h("ul", {}, changes.map((change) => h("li", {}, change))), difference(hunks)),
    h("div", { class: "buttons" },
      h("button", { type: "button", class: "button ghost", onclick: () => dialog.close() }, "Cancel"),
      h("button", { type: "button", class: "button primary", onclick: take }, "Use the cleaned text")));
  document.body.append(dialog);
  dialog.showModal();
}

// Announces with said(text) why there is nothing to show.
export async function cleanUp(area, said) {
  const body = new URLSearchParams([...new FormData(area.form)].filter(([, value]) => typeof value === "string"));
  try {
    const response = await fetch(area.dataset.clean, { method: "POST", body, headers: { Accept: "application/json" } });
    const answer = await response.json();
    if (!response.ok) said(`Not cleaned up: ${answer.detail || response.status}`);
    else if (!answer.changes.length) said("There is nothing to clean up.");
    else show(area, answer);
  } catch {
    said("Not cleaned up: no response from the server.");
  }
}
