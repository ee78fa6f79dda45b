// Execution page: combines the live connection, the state, the log and the tabs.

import { getStatusStyle, find, findAll } from "./dom.js";
import { ExecutionStream } from "./execution-stream.js";
import { LogPane } from "./log.js";
import { wireSplitter } from "./split-pane.js";
import { ExecutionStateView, hasEnded, steps } from "./execution-state.js";
import { reconnectIfChanged } from "./live-topics.js";
import { wireTabs } from "./tabs.js";

const CONNECTION = {
  live: ["Live", "success"], reconnecting: ["Reconnecting", "running"], polling: ["Polling", "warning"],
  ended: ["Ended", "success"], gone: ["Not available", "unknown"],
};
const TONES = { live: "success", reconnecting: "running", polling: "waiting", ended: "queued", gone: "failed" };

const root = find("[data-execution]");
const first = JSON.parse(document.getElementById("execution-state").textContent);
const page = new ExecutionStateView(root);
const pane = new LogPane(find("[data-log]"), { start: first.started_at || first.created_at, knownLast: first.last_line });
let calls = null;
const startedEnded = hasEnded(first);
let openTab = "log";
let wasFailing = hasFailed(first);
// A failed execution that is opened later starts at its first error, unless its address asks for something else.
let opening = pane.getOpening(startedEnded && hasFailed(first) && first.failure?.code !== "ABORTED");

function hasFailed(state) {
  return state.status === "FAILED" || Boolean(state.failure);
}

function stepNames(state) {
  return steps(state).map(({ identifier, name }) => ({ identifier, name }));
}

function showConnection(status) {
  const [word, form] = CONNECTION[status];
  const node = find("[data-connection]");
  node.className = `status plain-weight tone-${TONES[status]}`;
  find("use", node).setAttribute("href", `#s-${form}`);
  find("svg", node).classList.toggle("spin", form === "running");
  find("span", node).textContent = word;
  root.dataset.live = status;
  watchForReopening(status === "ended");
  if (openTab === "log") showOpening();
}

// Somebody may roll back or retry an ended execution: the topic of its timeline says when.
function watchForReopening(isEnded) {
  const part = find("[data-reopening]");
  part.dataset.topics = isEnded ? `timeline:${first.id}` : "";
  reconnectIfChanged();
}

// A failure ends the following, once, and shows its first line; whoever reads an old one is left in peace.
function noticeFailure(state) {
  const failing = hasFailed(state);
  if (failing && !wasFailing && !startedEnded && pane.display.follow) setTimeout(() => pane.nextFailure(), 400);
  wasFailing = failing;
}

function showOpening() {
  if (!opening || !root.dataset.live) return;
  pane.openAt(opening);
  opening = null;
}

async function showCalls(count) {
  calls ??= import("./calls.js").then(({ CallsTab }) => new CallsTab(find("[data-calls]"), first.id));
  (await calls).show(count);
}

function onState(state) {
  page.draw(state);
  pane.summary.stateWord = getStatusStyle(state.status).word;
  pane.setSteps(stepNames(state));
  if (state.started_at) pane.display.start = Date.parse(state.started_at);
  if (openTab === "calls") showCalls(state.calls_count);
  noticeFailure(state);
}

const tabs = wireTabs(find("[data-tabs]"), (name) => {
  openTab = name;
  if (name === "calls") showCalls(page.state?.calls_count ?? first.calls_count);
  if (name === "log") {
    pane.view.queue();
    showOpening();
  }
});

root.addEventListener("click", (event) => {
  const step = event.target.closest("[data-step]");
  const stage = event.target.closest("[data-stage]");
  if (event.target.closest("[data-first-error]")) {
    tabs.open("log");
    pane.failureAt = 0;
    pane.nextFailure();
  } else if (step) {
    event.preventDefault();
    showStep(step.dataset.step);
  } else if (stage) {
    page.pickStage(stage.dataset.stage);
  } else if (event.target.closest("[data-dialog]")) {
    page.draw(page.state);
  }
});

function showStep(identifier) {
  page.pickStep(identifier);
  const step = steps(page.state).find((step) => step.identifier === identifier);
  if (!step?.first_line) return;
  tabs.open("log");
  pane.toLine(step.first_line);
}

for (const part of findAll("dialog [data-undo-plan]")) {
  const dialog = part.closest("dialog");
  const showPlan = () => dialog.open && import("./undo-plan.js").then((plan) => plan.showUndoPlan(part));
  new MutationObserver(showPlan).observe(dialog, { attributeFilter: ["open"] });
}
wireSplitter(find("[data-splitter]"));
onState(first);
const live = new ExecutionStream({ id: first.id, pane, onState, onStatus: showConnection, lastLine: first.last_line });
find("[data-reopening]").addEventListener("topic-changed", ({ detail }) => (detail.read = live.reopen()));
window.slipway = { live, pane, page };
