// Badges of the navigation, such as the number of waiting approvals, updated by a socket while the page is visible.

import { h, find } from "./dom.js";

const LONGEST_WAIT = 60_000;
const GONE = new Set([4401, 4403, 4404]);
const BADGES = {
  waiting: { place: "/approvals/", words: " waiting for you" },
  drift: { place: "/drift/", words: " changed outside Slipway" },
};

function show(name, count) {
  const { place, words } = BADGES[name];
  const link = find(`.nav [href="${place}"]`);
  if (!link) return;
  const badge = find(".badge", link) || link.appendChild(h("span", { class: "badge" }));
  const before = badge.dataset.count;
  badge.dataset.count = count;
  badge.hidden = !count;
  badge.replaceChildren(count.toLocaleString(), h("span", { class: "visually-hidden" }, words));
  // Lists of the counted objects refresh too.
  if (before !== undefined && before !== String(count)) document.body.dispatchEvent(new Event(`${name}-changed`));
}

export function startNavigationBadges() {
  if (!Object.values(BADGES).some(({ place }) => find(`.nav [href="${place}"]`))) return;
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
      for (const [name, count] of Object.entries(JSON.parse(data))) if (BADGES[name]) show(name, count);
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
