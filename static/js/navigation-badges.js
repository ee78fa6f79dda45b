// Badges of the navigation, such as the number of waiting approvals, updated by a socket while the page is visible.

import { h, find, findAll } from "./dom.js";

const LONGEST_WAIT = 60_000;
// The server repeats the numbers every 30 seconds, or a little later.
const SERVER_TIMEOUT = 75_000;
const GONE = new Set([4401, 4403, 4404]);
const LABELS = { waiting: " waiting for you", drift: " changed outside Slipway" };
const findLinks = (name) => findAll(`[data-badge="${name}"]`);

function showCount(link, name, count) {
  const badge = find(".badge", link) || link.appendChild(h("span", { class: "badge" }));
  const before = badge.dataset.count;
  badge.dataset.count = count;
  badge.hidden = !count;
  badge.replaceChildren(count.toLocaleString(), h("span", { class: "visually-hidden" }, LABELS[name]));
  return before !== undefined && before !== String(count);
}

function show(name, count) {
  const changes = findLinks(name).map((link) => showCount(link, name, count));
  // Lists of the counted objects refresh too.
  if (changes.includes(true)) document.body.dispatchEvent(new Event(`${name}-changed`));
}

export function startNavigationBadges() {
  if (!Object.keys(LABELS).some((name) => findLinks(name).length)) return;
  const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/approvals/`;
  let socket = null;
  let timer = 0;
  let failures = 0;

  // A dead socket may not report its end.
  function watch(opened) {
    clearTimeout(timer);
    timer = setTimeout(() => {
      opened.close();
      end(opened, 1006);
    }, SERVER_TIMEOUT);
  }

  function end(opened, code) {
    if (opened !== socket) return;
    clearTimeout(timer);
    socket = null;
    if (code === 4401) import("./session-end.js").then((page) => page.showSessionEnd());
    if (GONE.has(code)) return;
    failures += 1;
    const longest = Math.min(LONGEST_WAIT, 500 * 2 ** failures);
    timer = setTimeout(connect, longest * (0.5 + Math.random() / 2));
  }

  function connect() {
    if (socket || document.hidden) return;
    const opened = new WebSocket(address);
    socket = opened;
    watch(opened);
    socket.addEventListener("message", ({ data }) => {
      if (opened !== socket) return;
      watch(opened);
      failures = 0;
      find(".session-end")?.remove();
      for (const [name, count] of Object.entries(JSON.parse(data))) if (LABELS[name]) show(name, count);
    });
    socket.addEventListener("close", ({ code }) => end(opened, code));
  }

  connect();
  // The focus returns from the tab of another sign-in.
  for (const name of ["online", "focus"]) addEventListener(name, connect);
  document.addEventListener("visibilitychange", () => (document.hidden ? socket?.close() : connect()));
}
