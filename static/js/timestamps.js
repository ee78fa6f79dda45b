// Timestamps in the reader's time zone, and durations that keep counting.

import { findAll, h } from "./dom.js";

const full = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long", hourCycle: "h23" });
const hour = new Intl.DateTimeFormat(undefined, { timeStyle: "short", hourCycle: "h23" });
const clockTime = new Intl.DateTimeFormat(undefined, { timeStyle: "medium", hourCycle: "h23" });
const day = new Intl.DateTimeFormat(undefined, { month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
const styles = { full, hour, day, clock: clockTime };
const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const twoDigits = (number) => String(number).padStart(2, "0");

export function spell(seconds) {
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} m ${twoDigits(whole % 60)} s`;
  if (whole < 86400) return `${Math.floor(whole / 3600)} h ${twoDigits(Math.floor((whole % 3600) / 60))} m`;
  return `${Math.floor(whole / 86400)} d ${Math.floor((whole % 86400) / 3600)} h`;
}

export function ago(moment, now = Date.now()) {
  const seconds = Math.round((now - moment) / 1000);
  if (seconds < 5) return "just now";
  if (seconds < 60) return `${seconds} s ago`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ago`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)} h ago`;
  return seconds < 7 * 86400 ? `${Math.floor(seconds / 86400)} d ago` : full.format(moment);
}

export function clock(iso, mode, start = 0) {
  const moment = new Date(iso);
  const time = moment.getTime();
  if (Number.isNaN(time)) return "";
  if (mode === "elapsed") {
    const since = Math.max(0, time - start);
    return `${twoDigits(Math.floor(since / 60000))}:${twoDigits(Math.floor(since / 1000) % 60)}.${String(since % 1000).padStart(3, "0")}`;
  }
  if (mode === "utc") return moment.toISOString().slice(11, 23);
  const clockFace = [moment.getHours(), moment.getMinutes(), moment.getSeconds()].map(twoDigits).join(":");
  return `${clockFace}.${String(moment.getMilliseconds()).padStart(3, "0")}`;
}

export function timeNode(iso, style = "full") {
  const node = h("time", { datetime: iso, "data-when": style });
  show(node);
  return node;
}

export function durationNode(start, end) {
  if (!start) return "";
  if (end) return spell((Date.parse(end) - Date.parse(start)) / 1000);
  const node = h("span", { "data-since": start });
  count(node);
  return node;
}

function show(node) {
  // A label of a chart has no attribute of its own for the moment.
  const moment = new Date(node.dateTime ?? node.dataset.at);
  if (Number.isNaN(moment.getTime())) return;
  const style = node.dataset.when;
  node.textContent = style === "ago" ? ago(moment) : (styles[style] ?? full).format(moment);
  node.title = `${full.format(moment)} ${zone}\n${moment.toISOString().slice(0, 19).replace("T", " ")} UTC`;
}

function count(node) {
  node.textContent = spell((Date.now() - Date.parse(node.dataset.since)) / 1000);
}

export function untilNode(end) {
  const node = h("span", { "data-until": end });
  countDown(node);
  return node;
}

function countDown(node) {
  node.textContent = spell((Date.parse(node.dataset.until) - Date.now()) / 1000);
}

export function showTimes(root = document) {
  findAll("[data-until]", root).forEach(countDown);
  findAll("time[data-when], text[data-when]", root).forEach(show);
  for (const node of findAll("[data-zone]", root)) node.textContent = zone;
  findAll("[data-since]", root).forEach(count);
}

export function startTimestamps() {
  showTimes();
  setInterval(() => {
    findAll("[data-since]").forEach(count);
    findAll("[data-until]").forEach(countDown);
  }, 1000);
  setInterval(() => findAll('time[data-when="ago"]').forEach(show), 15000);
}
