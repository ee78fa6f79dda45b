// Tabs of the ARIA pattern: arrow keys move, the URL stores the open one.

import { findAll } from "./dom.js";

export function wireTabs(list, onOpen) {
  const tabs = findAll('[role="tab"]', list);
  const open = (tab, focus = false) => {
    for (const other of tabs) {
      const chosen = other === tab;
      other.setAttribute("aria-selected", String(chosen));
      other.tabIndex = chosen ? 0 : -1;
      document.getElementById(other.getAttribute("aria-controls")).hidden = !chosen;
    }
    if (focus) tab.focus();
    const url = new URL(location.href);
    if (tab === tabs[0]) url.searchParams.delete("tab");
    else url.searchParams.set("tab", tab.dataset.tab);
    history.replaceState(history.state, "", url);
    onOpen(tab.dataset.tab);
  };
  list.addEventListener("click", (event) => {
    const tab = event.target.closest('[role="tab"]');
    if (!tab || event.metaKey || event.ctrlKey) return;
    event.preventDefault();
    open(tab);
  });
  list.addEventListener("keydown", (event) => {
    const at = tabs.indexOf(document.activeElement);
    const next = { ArrowRight: at + 1, ArrowLeft: at - 1, Home: 0, End: tabs.length - 1 }[event.key];
    if (at < 0 || next === undefined) return;
    event.preventDefault();
    open(tabs[(next + tabs.length) % tabs.length], true);
  });
  const named = (name) => tabs.find((tab) => tab.dataset.tab === name);
  open(named(new URLSearchParams(location.search).get("tab")) || tabs[0]);
  return { open: (name) => open(named(name)) };
}
