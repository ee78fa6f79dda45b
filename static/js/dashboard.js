// The dashboard of a service: a socket says that something changed, and the part that shows it is read again.

import { one } from "./dom.js";

const LONGEST_WAIT = 60_000;
const GONE = new Set([4401, 4403, 4404]);
const service = one("[data-watch]")?.dataset.watch;
const address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/services/${service}/`;
let socket = null;
let timer = 0;
let failures = 0;
let wasAway = false;

// The part is another element after each time it was read.
function readAgain() {
  window.htmx?.trigger(one("[data-watch]"), "refresh");
}

function receive({ data }) {
  failures = 0;
  const { type } = JSON.parse(data);
  // What changed while nobody listened was told to nobody.
  if (type === "changed" || wasAway) readAgain();
  wasAway = false;
}

function connect() {
  clearTimeout(timer);
  if (!service || socket || document.hidden) return;
  socket = new WebSocket(address);
  socket.addEventListener("message", receive);
  socket.addEventListener("close", ({ code }) => {
    socket = null;
    wasAway = true;
    if (GONE.has(code)) return;
    failures += 1;
    timer = setTimeout(connect, Math.min(LONGEST_WAIT, 500 * 2 ** failures) * (0.5 + Math.random() / 2));
  });
}

connect();
addEventListener("online", connect);
document.addEventListener("visibilitychange", () => (document.hidden ? socket?.close() : connect()));
