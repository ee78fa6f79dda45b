// DOM helpers that build pages from nodes; text is always text, never markup.

const SVG = "http://www.w3.org/2000/svg";
const table = document.getElementById("statuses");
const STATUSES = table ? JSON.parse(table.textContent) : {};

export const find = (selector, root = document) => root.querySelector(selector);
export const findAll = (selector, root = document) => [...root.querySelectorAll(selector)];

export function h(tag, props = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (name === "class") node.className = value;
    else node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children.flat(4).filter((child) => child !== null && child !== undefined && child !== false));
  return node;
}

export function shape(name, css = "icon", label = "") {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("class", css);
  if (label) {
    svg.setAttribute("role", "img");
    svg.setAttribute("aria-label", label);
  } else {
    svg.setAttribute("aria-hidden", "true");
  }
  svg.setAttribute("focusable", "false");
  const use = document.createElementNS(SVG, "use");
  use.setAttribute("href", `#${name}`);
  svg.append(use);
  return svg;
}

export const icon = (name) => shape(`i-${name}`);

export function getStatusStyle(status) {
  const [word, form, tone] = STATUSES[status] || [formatStatus(status), "unknown", "queued"];
  return { word, form, tone };
}

function formatStatus(status) {
  const words = String(status || "unknown").replaceAll("_", " ").toLowerCase();
  return words.charAt(0).toUpperCase() + words.slice(1);
}

export function mark(status) {
  const { word, form, tone } = getStatusStyle(status);
  return shape(`s-${form}`, `icon mark tone-${tone}${form === "running" ? " spin" : ""}`, word);
}

export function statusBadge(status, label = "") {
  const { word, form, tone } = getStatusStyle(status);
  return h("span", { class: `status tone-${tone}` }, shape(`s-${form}`, `icon${form === "running" ? " spin" : ""}`), label || word);
}

export function copyButton(text, label = "Copy") {
  return h("button", { type: "button", class: "copy-button", "data-copy": text, "aria-label": label, title: label }, icon("copy"));
}

export function announce(text) {
  const node = document.getElementById("announcer");
  if (node) node.textContent = text;
}
