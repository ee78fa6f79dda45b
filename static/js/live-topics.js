// Live parts of a page: an element with data-topics is fetched again when one of its topics changes. One socket serves
// all topics; without a socket the parts are polled.

import { all, h, one } from "./dom.js";

const READ_EVERY = 1000;
const ASK_EVERY = 5000;
const LONGEST_WAIT = 15_000;
// What has not been answered by then is asked again.
const PATIENCE = 30_000;
// The server says every half a minute that it is there.
const SILENCE = 75_000;
const GONE = new Set([4401, 4403, 4404]);
const WORDS = { live: "", reconnecting: "Reconnecting…", polling: "Looks every 5 s", gone: "Not live: load the page again" };

let socket = null;
let connected = "";
let failures = 0;
let isGone = false;
let again = 0;
let silence = 0;
let asking = 0;
// When what is shown was asked for, by the part's id, in ms since the page was.
const readAt = new Map();
const reading = new Map();

const parts = () => all("[data-topics]");
const topicsOf = (part) => part.dataset.topics.split(/\s+/).filter((topic) => /^[^:]+:.+/.test(topic));
const wanted = () => [...new Set(parts().flatMap(topicsOf))].sort();
const ageOf = (part) => performance.now() - (readAt.get(part.id) ?? 0);

function say(status) {
  let chip = one("[data-news]");
  // Where another socket says how it is, one word is enough.
  if (!chip && WORDS[status] && !one("[data-connection]")) {
    chip = h("span", { class: "connection small soft", "data-news": "", role: "status" });
    one("#main").prepend(chip);
  }
  if (!chip) return;
  chip.textContent = WORDS[status];
  chip.hidden = !WORDS[status];
}

// Reads a part again: at once, or as soon as it is a second since the last time.
function read(part) {
  const { id } = part;
  if (reading.has(id)) {
    reading.get(id).isWanted = true;
    return;
  }
  const wait = Math.max(0, READ_EVERY - ageOf(part));
  reading.set(id, { isWanted: false, timer: setTimeout(() => begin(id), wait) });
}

function begin(id) {
  const part = document.getElementById(id);
  if (!part?.dataset.topics) {
    reading.delete(id);
    return;
  }
  const mine = reading.get(id);
  mine.askedAt = performance.now();
  mine.timer = setTimeout(() => reading.get(id) === mine && end(id, false), PATIENCE);
  // Who reads it without htmx leaves here a promise of whether that worked.
  const detail = { read: null };
  part.dispatchEvent(new CustomEvent("news", { detail }));
  detail.read?.then((isRead) => end(id, isRead));
}

function end(id, isRead) {
  const mine = reading.get(id);
  if (!mine?.askedAt) return;
  clearTimeout(mine.timer);
  reading.delete(id);
  if (isRead) readAt.set(id, mine.askedAt);
  const part = document.getElementById(id);
  if (!part?.dataset.topics) return;
  if (!isRead) setTimeout(() => document.hidden || read(part), ASK_EVERY);
  else if (mine.isWanted) read(part);
}

function receive({ data }) {
  failures = 0;
  clearTimeout(asking);
  asking = 0;
  listenForSilence();
  const { type, stale, topics } = JSON.parse(data);
  if (type === "watching") say("live");
  if (stale) parts().forEach(read);
  const changed = new Set(topics);
  if (type === "changed") parts().filter((part) => topicsOf(part).some((topic) => changed.has(topic))).forEach(read);
}

function listenForSilence() {
  clearTimeout(silence);
  silence = setTimeout(() => leave() && closed({ code: 1006 }), SILENCE);
}

function leave() {
  clearTimeout(silence);
  const left = socket;
  socket = null;
  left?.close();
  return left;
}

function closed({ code }) {
  clearTimeout(silence);
  socket = null;
  if (GONE.has(code)) {
    isGone = true;
    clearTimeout(asking);
    say("gone");
    return;
  }
  failures += 1;
  say(failures > 2 ? "polling" : "reconnecting");
  if (failures > 2) asking ||= setTimeout(ask, ASK_EVERY);
  const longest = Math.min(LONGEST_WAIT, 400 * 2 ** failures);
  again = setTimeout(connect, longest * (0.5 + Math.random() / 2));
}

function ask() {
  asking = setTimeout(ask, ASK_EVERY);
  if (!document.hidden) parts().forEach(read);
}

function connect() {
  clearTimeout(again);
  again = 0;
  const topics = wanted();
  if (isGone || socket || document.hidden || !topics.length) return;
  connected = topics.join(" ");
  const query = new URLSearchParams(topics.map((topic) => ["topic", topic]));
  query.set("age", Math.ceil(Math.max(...parts().map(ageOf)) / 1000));
  const opened = new WebSocket(`${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/news/?${query}`);
  socket = opened;
  opened.addEventListener("message", (event) => opened === socket && receive(event));
  opened.addEventListener("close", (event) => opened === socket && closed(event));
}

// A part that was read again may show something else, or nothing that changes any more.
function heed() {
  if (wanted().join(" ") === connected && (socket || again)) return;
  leave();
  connect();
}

// What could not be read is asked for again, unless it never will be.
function ended({ detail: { requestConfig, successful, xhr } }) {
  const { id } = requestConfig.elt;
  if (xhr.status === 401 || xhr.status === 403 || xhr.status === 404) reading.delete(id);
  else if (!successful) end(id, false);
}

// Only now does htmx know the part that was swapped in: before, it would not hear that it is to be read again.
function settled({ detail: { requestConfig } }) {
  if (requestConfig) end(requestConfig.elt.id, true);
  heed();
}

export function startLiveTopics() {
  document.addEventListener("htmx:afterRequest", ended);
  document.addEventListener("htmx:afterSettle", settled);
  addEventListener("online", () => again && connect());
  document.addEventListener("visibilitychange", () => (document.hidden ? leave() : connect()));
  // Not before htmx knows the parts: it would not hear what they are told.
  if (document.readyState === "complete") connect();
  else document.addEventListener("DOMContentLoaded", connect);
}
