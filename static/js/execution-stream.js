// Stream of an execution: a socket, and HTTP for messages that the socket missed.

import { hasEnded } from "./execution-state.js";
import { PAGE } from "./log-lines.js";

const TAIL = 1000;
const POLL_EVERY = 3000;
const LONGEST_WAIT = 15_000;
const SILENCE = 20_000;
const GONE = new Set([4401, 4403, 4404]);

const wait = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function getJson(url) {
  const response = await fetch(url, { headers: { Accept: "application/json" }, credentials: "same-origin" });
  if (!response.ok) throw Object.assign(new Error(`${response.status} ${url}`), { status: response.status });
  return response.json();
}

export class ExecutionStream {
  constructor({ id, pane, onState, onStatus, lastLine }) {
    this.api = `/api/v1/executions/${id}`;
    this.address = `${location.protocol === "https:" ? "wss" : "ws"}://${location.host}/ws/executions/${id}/`;
    this.pane = pane;
    this.onState = onState;
    this.onStatus = onStatus;
    this.failures = 0;
    this.ended = false;
    this.heardAt = Date.now();
    pane.onNeed = (number) => this.need(number);
    pane.onFind = (conditions, after) => getJson(`${this.api}/log/search?${new URLSearchParams({ ...conditions, after })}`);
    // A page of the log is fetched once at a time, whoever asks for it.
    this.fetching = new Map();
    this.after = Math.max(0, lastLine - TAIL);
    this.connect();
    setInterval(() => this.watch(), 5000);
    addEventListener("online", () => this.retry());
    document.addEventListener("visibilitychange", () => !document.hidden && this.retry());
  }

  // Position at the time of the call; later lines are requested.
  get position() {
    return Math.max(this.after, this.pane.lines.count ? this.pane.lines.last : 0);
  }

  connect() {
    clearTimeout(this.timer);
    this.timer = 0;
    const socket = new WebSocket(`${this.address}?after=${this.position}`);
    this.socket = socket;
    socket.addEventListener("open", () => {
      this.failures = 0;
      this.heardAt = Date.now();
      this.setStatus("live");
    });
    socket.addEventListener("message", (event) => socket === this.socket && this.receive(event));
    socket.addEventListener("close", (event) => socket === this.socket && this.closed(event));
  }

  receive(event) {
    this.heardAt = Date.now();
    const message = JSON.parse(event.data);
    if (message.type === "lines") this.take(message.blocks);
    else if (message.type === "skipped") this.pane.expect(message.last);
    else if (message.type === "state") this.onState(message.state);
    else if (message.type === "end") this.end(message.last);
  }

  take(blocks) {
    this.pane.addBlocks(blocks);
    this.fill();
  }

  async end(last) {
    this.ended = true;
    if (last) this.pane.expect(last);
    this.socket.close();
    this.setStatus("ended");
    await this.fill();
    try {
      this.onState(await getJson(this.api));
    } catch {
      // The last state that arrived stays on the page.
    }
  }

  // Shows an ended execution again, which a rollback or a retry may have reopened, or whose log got lines that were
  // hidden; returns whether it was read.
  async reopen() {
    if (this.status !== "ended") return true;
    const state = await getJson(this.api).catch(() => null);
    if (!state || this.status !== "ended") return Boolean(state);
    this.onState(state);
    if (hasEnded(state)) {
      this.pane.expect(state.last_line);
      this.fill();
      return true;
    }
    this.ended = false;
    this.failures = 0;
    this.connect();
    return true;
  }

  closed(event) {
    if (this.ended) return;
    if (GONE.has(event.code)) {
      this.ended = true;
      this.setStatus("gone");
      return;
    }
    this.failures += 1;
    this.setStatus(this.failures > 2 ? "polling" : "reconnecting");
    const longest = Math.min(LONGEST_WAIT, 400 * 2 ** this.failures);
    this.timer = setTimeout(() => this.connect(), longest * (0.5 + Math.random() / 2));
    if (this.failures > 2) this.poll();
  }

  retry() {
    if (this.ended || !this.timer) return;
    this.connect();
  }

  // Closes the socket as a lost network would.
  drop() {
    this.socket.close();
  }

  // A dead socket may not report its end: after a silence, HTTP is polled, and newer data closes the socket.
  async watch() {
    const silent = Date.now() - this.heardAt > SILENCE;
    if (this.ended || this.timer || document.hidden || !silent || this.socket.readyState !== WebSocket.OPEN) return;
    this.heardAt = Date.now();
    if (await this.pull()) this.drop();
  }

  async poll() {
    if (this.polling) return;
    this.polling = true;
    while (!this.ended && this.failures > 2) {
      if (!document.hidden) await this.pull();
      await wait(POLL_EVERY);
    }
    this.polling = false;
  }

  // Fetches the state and newer lines by HTTP; returns whether there were any.
  async pull() {
    try {
      this.onState(await getJson(this.api));
      const { blocks, end } = await this.read(this.position);
      const added = this.pane.addBlocks(blocks);
      if (end && !blocks.length && this.failures > 2) await this.end(this.position);
      return added > 0;
    } catch (problem) {
      if (problem.status === 404 || problem.status === 401) this.lost();
      return false;
    }
  }

  lost() {
    this.ended = true;
    this.socket.close();
    this.setStatus("gone");
  }

  need(number) {
    return this.fetchPage(this.pane.lines.before(Math.floor((number - 1) / PAGE))).catch(() => {});
  }

  read(after) {
    return getJson(`${this.api}/log?blocks=1&after=${after}`);
  }

  fetchPage(after) {
    if (!this.fetching.has(after)) {
      const request = this.read(after).then((page) => this.pane.addBlocks(page.blocks));
      this.fetching.set(after, request.finally(() => this.fetching.delete(after)));
    }
    return this.fetching.get(after);
  }

  // Closes every hole, newest first; one pass at a time.
  async fill() {
    if (this.filling) return this.filling;
    this.filling = this.fillHoles();
    await this.filling;
    this.filling = null;
  }

  async fillHoles() {
    let idle = 0;
    for (let after = this.pane.lines.newestHole(); after !== null && idle < 5; after = this.pane.lines.newestHole()) {
      try {
        idle = (await this.fetchPage(after)) ? 0 : idle + 1;
      } catch {
        idle += 1;
      }
      if (idle) await wait(300 * 2 ** idle);
    }
  }

  setStatus(status) {
    if (this.status === status) return;
    this.status = status;
    this.onStatus(status);
  }
}
