// The badge of the navigation: how many approvals wait for the reader, told by a socket while the page is in sight.

import { h, one } from "./dom.js";

const LONGEST_WAIT = 60_000;
const GONE = new Set([4401, 4403, 4404]);

function show(link, waiting) {
  const badge = one(".badge", link) || link.appendChild(h("span", { class: "badge" }));
  const before = badge.dataset.waiting;
  badge.dataset.waiting = waiting;
  badge.hidden = !waiting;
  badge.replaceChildren(waiting.toLocaleString(), h("span", { class: "visually-hidden" }, " waiting for you"));
  // What lists them looks again.
  if (before !== undefined && before !== String(waiting)) document.body.dispatchEvent(new Event("waiting-changed"));
}

export function keepBadge() {
  const link = one('.nav [href="/approvals/"]');
  if (!link) return;
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/approvals/`;
  let socket = null;
  let timer = 0;
  let failures = 0;

  function connect() {
    clearTimeout(timer);
    if (socket || document.hidden) return;
    socket = new WebSocket(address);
    socket.addEventListener("message", ({ data }) => {
      failures = 0;
      show(link, JSON.parse(data).waiting);
    });
    socket.addEventListener("close", ({ code }) => {
      socket = null;
      if (GONE.has(code)) return;
      failures += 1;
      const longest = Math.min(LONGEST_WAIT, 500 * 2 ** failures);
      timer = setTimeout(connect, longest * (0.5 + Math.random() / 2));
    });
  }

  connect();
  addEventListener("online", connect);
  document.addEventListener("visibilitychange", () => (document.hidden ? socket?.close() : connect()));
}
