// Live parts of a page: an element with data-topics is fetched again when one of its topics changes. One socket serves
// all topics; without a socket the parts are polled.

import { findAll, h, find } from "./dom.js";

const MIN_FETCH_INTERVAL = 1000;
const POLL_INTERVAL = 5000;
const MAX_RECONNECT_DELAY = 15_000;
// A fetch without an answer by then is repeated.
const FETCH_TIMEOUT = 30_000;
// The server sends a heartbeat every 30 seconds.
const SERVER_TIMEOUT = 75_000;
const FINAL_CLOSE_CODES = new Set([4401, 4403, 4404]);
const STATUS_LABELS = {
  live: "", reconnecting: "Reconnecting…", polling: "Refreshing every 5 s", gone: "Live updates stopped. Reload the page.",
};

let socket = null;
let connectedTopics = "";
let failures = 0;
let isClosed = false;
let reconnectTimer = 0;
let serverTimer = 0;
let pollTimer = 0;
// Start of the fetch that each part shows, by id. Asleep, some computers stop the one clock; people set the other.
const shownSince = new Map();
const loaded = { tick: 0, wall: performance.timeOrigin };
const now = () => ({ tick: performance.now(), wall: Date.now() });
const fetches = new Map();

const parts = () => findAll("[data-topics]");
const topicsOf = (part) => part.dataset.topics.split(/\s+/).filter((topic) => /^[^:]+:.+/.test(topic));
const listTopics = () => [...new Set(parts().flatMap(topicsOf))].sort();

function ageOf(part) {
  const since = shownSince.get(part.id) ?? loaded;
  const { tick, wall } = now();
  return Math.max(tick - since.tick, wall - since.wall);
}

function showStatus(status) {
  let badge = find("[data-live-status]");
  // The page of an execution shows the state of its own socket instead.
  if (!badge && STATUS_LABELS[status] && !find("[data-connection]")) {
    badge = h("span", { class: "connection small secondary-text", "data-live-status": "", role: "status" });
    find("#main").prepend(badge);
  }
  if (!badge) return;
  badge.textContent = STATUS_LABELS[status];
  badge.hidden = !STATUS_LABELS[status];
}

// Fetches a part again, at most once per second.
function refresh(part) {
  const { id } = part;
  if (fetches.has(id)) {
    fetches.get(id).isRepeated = true;
    return;
  }
  const wait = Math.max(0, MIN_FETCH_INTERVAL - ageOf(part));
  fetches.set(id, { isRepeated: false, timer: setTimeout(() => startFetch(id), wait) });
}

function startFetch(id) {
  const part = document.getElementById(id);
  if (!part?.dataset.topics) {
    fetches.delete(id);
    return;
  }
  const fetch = fetches.get(id);
  fetch.startedAt = now();
  fetch.timer = setTimeout(() => fetches.get(id) === fetch && finishFetch(id, false), FETCH_TIMEOUT);
  // A listener that fetches without htmx sets `read` to a promise of its success.
  const detail = { read: null };
  part.dispatchEvent(new CustomEvent("topic-changed", { detail }));
  detail.read?.then((isRead) => finishFetch(id, isRead));
}

function finishFetch(id, isRead) {
  const fetch = fetches.get(id);
  if (!fetch?.startedAt) return;
  clearTimeout(fetch.timer);
  fetches.delete(id);
  if (isRead) shownSince.set(id, fetch.startedAt);
  const part = document.getElementById(id);
  if (!part?.dataset.topics) return;
  if (!isRead) setTimeout(() => document.hidden || refresh(part), POLL_INTERVAL);
  else if (fetch.isRepeated) refresh(part);
}

function receive({ data }) {
  failures = 0;
  clearTimeout(pollTimer);
  pollTimer = 0;
  watchServer();
  const { type, stale, topics } = JSON.parse(data);
  if (type === "watching") showStatus("live");
  if (stale) parts().forEach(refresh);
  const changed = new Set(topics);
  if (type === "changed") parts().filter((part) => topicsOf(part).some((topic) => changed.has(topic))).forEach(refresh);
}

function watchServer() {
  clearTimeout(serverTimer);
  serverTimer = setTimeout(() => disconnect() && handleClose({ code: 1006 }), SERVER_TIMEOUT);
}

function disconnect() {
  clearTimeout(serverTimer);
  const closing = socket;
  socket = null;
  closing?.close();
  return closing;
}

function handleClose({ code }) {
  clearTimeout(serverTimer);
  socket = null;
  if (FINAL_CLOSE_CODES.has(code)) {
    isClosed = true;
    clearTimeout(pollTimer);
    showStatus("gone");
    return;
  }
  failures += 1;
  showStatus(failures > 2 ? "polling" : "reconnecting");
  if (failures > 2) pollTimer ||= setTimeout(poll, POLL_INTERVAL);
  const maxDelay = Math.min(MAX_RECONNECT_DELAY, 400 * 2 ** failures);
  reconnectTimer = setTimeout(connect, maxDelay * (0.5 + Math.random() / 2));
}

function poll() {
  pollTimer = setTimeout(poll, POLL_INTERVAL);
  if (!document.hidden) parts().forEach(refresh);
}

function connect() {
  clearTimeout(reconnectTimer);
  reconnectTimer = 0;
  const topics = listTopics();
  if (isClosed || socket || document.hidden || !topics.length) return;
  connectedTopics = topics.join(" ");
  const query = new URLSearchParams(topics.map((topic) => ["topic", topic]));
  query.set("age", Math.ceil(Math.max(...parts().map(ageOf)) / 1000));
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/live/?${query}`);
  socket = opened;
  opened.addEventListener("message", (event) => opened === socket && receive(event));
  opened.addEventListener("close", (event) => opened === socket && handleClose(event));
}

// A fetched part may have other topics, or none.
export function reconnectIfChanged() {
  if (listTopics().join(" ") === connectedTopics && (socket || reconnectTimer)) return;
  disconnect();
  connect();
}

// A failed fetch is repeated, unless access is denied or the part is gone.
function handleRequestEnd({ detail: { requestConfig, successful, xhr } }) {
  const { id } = requestConfig.elt;
  if (xhr.status === 401 || xhr.status === 403 || xhr.status === 404) fetches.delete(id);
  else if (!successful) finishFetch(id, false);
}

// htmx processes a swapped part only now; an earlier event would be lost.
function handleSettle({ detail: { requestConfig } }) {
  if (requestConfig) finishFetch(requestConfig.elt.id, true);
  reconnectIfChanged();
}

export function startLiveTopics() {
  document.addEventListener("htmx:afterRequest", handleRequestEnd);
  document.addEventListener("htmx:afterSettle", handleSettle);
  addEventListener("online", () => reconnectTimer && connect());
  document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  // htmx must have processed the parts first; an earlier event would be lost.
  if (document.readyState === "complete") connect();
  else document.addEventListener("DOMContentLoaded", connect);
}
