// Dialogs, menus and copy buttons, wired once for the whole page from the markup.

import { findAll, announce, icon, find } from "./dom.js";

function openDialog(id) {
  const dialog = document.getElementById(id);
  if (dialog && !dialog.open) dialog.showModal();
}

function closeMenus(except = null) {
  for (const menu of findAll("details.menu[open]")) if (menu !== except) menu.open = false;
}

export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    return copyBySelection(text);
  }
}

// Plain http on another host than localhost has no clipboard API.
function copyBySelection(text) {
  const area = document.createElement("textarea");
  area.value = text;
  area.className = "visually-hidden";
  (find("dialog[open]") || document.body).append(area);
  area.select();
  const done = document.execCommand("copy");
  area.remove();
  return done;
}

async function copyFrom(button) {
  if (!(await copyText(button.dataset.copy))) return announce("Copying is not allowed here.");
  const before = [...button.childNodes];
  button.replaceChildren(icon("check"), button.classList.contains("button") ? "Copied" : "");
  button.classList.add("done");
  announce("Copied");
  setTimeout(() => {
    button.replaceChildren(...before);
    button.classList.remove("done");
  }, 1200);
}

export function wireDialogs() {
  document.addEventListener("click", (event) => {
    const opener = event.target.closest("[data-dialog]");
    if (opener) openDialog(opener.dataset.dialog);
    const closer = event.target.closest("[data-close]");
    if (closer) closer.closest("dialog").close();
    const copier = event.target.closest("[data-copy]");
    if (copier) copyFrom(copier);
    if (event.target.matches("dialog.dialog")) event.target.close();
    closeMenus(event.target.closest("details.menu"));
  });
  document.addEventListener("keydown", (event) => {
    const menu = event.key === "Escape" && find("details.menu[open]");
    if (!menu) return;
    menu.open = false;
    find("summary", menu).focus();
  });
}
