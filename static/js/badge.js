// The badge of the navigation: how many approvals wait for the reader, kept up to date while the page is in sight.

import { h, one } from "./dom.js";

const EVERY = 30_000;

async function refresh(link) {
  if (document.hidden) return;
  const answer = await fetch("/approvals/waiting/", { headers: { Accept: "application/json" } }).catch(() => null);
  if (!answer?.ok || !answer.headers.get("Content-Type")?.includes("json")) return;
  const { waiting } = await answer.json();
  const badge = one(".badge", link) || link.appendChild(h("span", { class: "badge" }));
  badge.hidden = !waiting;
  badge.replaceChildren(waiting.toLocaleString(), h("span", { class: "visually-hidden" }, " waiting for you"));
}

export function keepBadge() {
  const link = one('.nav [href="/approvals/"]');
  if (!link) return;
  refresh(link);
  setInterval(() => refresh(link), EVERY);
  document.addEventListener("visibilitychange", () => refresh(link));
}
