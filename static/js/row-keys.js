// Keys of lists: j and k move the focus through the rows, "." opens the actions of the row or the page.

import { find, findAll } from "./dom.js";

const getLink = (row) => find("a.name, th a[href], a[href]", row);

function getRows() {
  const rows = findAll("main .table tbody tr, main ul.hits > li").filter((row) => row.checkVisibility() && getLink(row));
  // The main list is the first one of the page.
  return rows.filter((row) => row.parentElement === rows[0].parentElement);
}

function moveRow(step) {
  const rows = getRows();
  const at = rows.findIndex((row) => row.contains(document.activeElement));
  const next = rows[at < 0 ? 0 : Math.min(Math.max(at + step, 0), rows.length - 1)];
  if (next) getLink(next).focus();
}

const isShown = (node) => node.checkVisibility();

function openActions() {
  const row = document.activeElement.closest("main tbody tr, main .hits > li");
  const menu = row && find("details.menu", row);
  if (menu) menu.open = true;
  const inRow = menu ? findAll(".menu-body a, .menu-body button", menu) : row ? findAll("button, a.button", row) : [];
  const candidates = [...inRow, ...findAll("main .page-head .actions :is(a, button, summary)")];
  candidates.find(isShown)?.focus();
}

export function useKey(key) {
  if (key === ".") openActions();
  else moveRow(key === "j" ? 1 : -1);
}
