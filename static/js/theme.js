// Theme switch: it applies at once, and the server stores it in a cookie.

import { findAll } from "./dom.js";

function apply(theme) {
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  else delete document.documentElement.dataset.theme;
}

export function wireTheme() {
  const form = document.querySelector("[data-theme-form]");
  form?.addEventListener("submit", (event) => {
    event.preventDefault();
    const body = new FormData(form);
    const theme = event.submitter?.value || "system";
    body.set("theme", theme);
    fetch(form.action, { method: "POST", body, redirect: "manual" });
    apply(theme);
    for (const button of findAll("button", form)) button.setAttribute("aria-pressed", String(button.value === theme));
  });
}
