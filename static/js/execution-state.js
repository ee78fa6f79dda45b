// Rendering of the execution document; unchanged parts stay untouched.

import { findAll, statusBadge, copyButton, h, mark, find, shape } from "./dom.js";
import { deciding, decisionNotice, notice, pauseNotice, pausing, retryNotice, skippable, waitingStep } from "./step-decisions.js";
import { approvalNotice } from "./approvals.js";
import { drawChecklist, drawOutputs } from "./execution-results.js";
import { holdPlace } from "./partial-updates.js";
import { timeNode, durationNode } from "./timestamps.js";

const ENDED = new Set(["SUCCESS", "FAILED", "ABORTED", "EXPIRED", "APPROVAL_REJECTED", "IGNORE_FAILED", "ROLLED_BACK"]);
const MOST_SQUARES = 20;

export const hasEnded = (state) => ENDED.has(state.status);

// What was to be deployed was, though a step beside it failed and was ignored.
const deployedAllTheSame = (state) => state.status === "IGNORE_FAILED" && state.outcome === "COMPLETED";

export function steps(state) {
  return state.stages.flatMap((stage) => stage.steps);
}

export function currentStage(state) {
  const open = state.stages.find((stage) => !ENDED.has(stage.status) && !["QUEUED", "SKIPPED"].includes(stage.status));
  const begun = state.stages.findLast((stage) => stage.steps.some((step) => step.started_at));
  return open || begun || state.stages[0];
}

// --- notices ---------------------------------------------------------------------------------------

function failureNotice({ message, step, container, exit_code: exit, code, advice, last_output: output }, isIgnored) {
  const where = [step && `Step ${step}`, container && `container ${container}`, exit !== null && exit !== undefined && `exit code ${exit}`, code];
  const isAborted = code === "ABORTED";
  const [tone, form] = isAborted ? ["aborted", "aborted"] : isIgnored ? ["waiting", "warning"] : ["failed", "failed"];
  const box = notice(tone, form, h("strong", {}, message), " ", h("span", { class: "secondary-text small" }, where.filter(Boolean).join(" \u00b7 ")),
    advice ? h("p", { class: "advice" }, `What to do: ${advice}`) : null,
    output?.length ? h("blockquote", { class: "last-output", tabindex: "0", "aria-label": "Last lines of the container's log" }, output.join("\n")) : null);
  if (!isAborted) box.append(h("button", { type: "button", class: "button small actions", "data-first-error": true }, "Go to first error"));
  box.classList.add("failure");
  return box;
}

// Queued for a delegate: the reason, the required tags and their origin, and a link to the task.
function delegateNotice({ step, selectors, selectors_from: from, reason, task }) {
  const tags = selectors.length ? ` with the ${selectors.length > 1 ? "tags" : "tag"} ${selectors.join(", ")} (from the ${(from || "task").toLowerCase()})` : "";
  return notice("queued", "queued", h("strong", {}, `Queued: step ${step} waits for a delegate${tags}.`), ` ${reason} `, h("a", { href: `/delegates/tasks/${task}/` }, "Why this delegate?"));
}

const isIgnored = (state) => steps(state).some((step) => step.identifier === state.failure.step && step.status === "IGNORE_FAILED");

function notices(state) {
  const found = [];
  if (state.failure) found.push(failureNotice(state.failure, isIgnored(state)));
  if (state.details_deleted_at) found.push(notice("queued", "queued", h("span", {}, "The log, the AWS calls and the AWS events of this execution were deleted on ", timeNode(state.details_deleted_at), ", as their retention period had ended.")));
  if (state.notes?.length) found.push(notice("waiting", "warning", h("div", {}, ...state.notes.map(({ text }) => h("div", {}, text)))));
  for (const entry of state.queue?.steps || []) {
    const text = `Step ${entry.step} waits for the service lock of ECS service ${entry.ecs_service}: position ${entry.position}.`;
    found.push(notice("queued", "queued", h("span", {}, text, entry.waits_for ? ` Execution ${entry.waits_for} is ahead of it.` : "")));
  }
  if (state.waits_for_delegate) found.push(delegateNotice(state.waits_for_delegate));
  // Branches may each wait for a person.
  const waitingSteps = deciding(steps(state));
  for (const step of waitingSteps) found.push(decisionNotice(step, state.can || {}));
  if (!waitingSteps.length && state.status === "INTERVENTION_WAITING") found.push(notice("waiting", "waiting", "This execution awaits a decision. See the last lines of the log."));
  for (const step of pausing(steps(state))) found.push(pauseNotice(step));
  for (const step of steps(state)) if (step.approval?.status === "WAITING") found.push(approvalNotice(step));
  for (const step of steps(state)) if (step.retry_at) found.push(retryNotice(step));
  return found;
}

// --- overview --------------------------------------------------------------------------------------

function ignoredText(count) {
  return `${count} ${count === 1 ? "failure" : "failures"} ignored`;
}

function statusNodes(state) {
  if (deployedAllTheSame(state)) return [statusBadge("SUCCESS"), statusBadge("FAILURE_IGNORED", ignoredText(state.ignored_failures))];
  const plain = !state.outcome || state.outcome === state.status || state.outcome === "COMPLETED";
  return [statusBadge(state.status), plain ? null : statusBadge(state.outcome)].filter(Boolean);
}

function countText(counts) {
  if (!counts) return "";
  const pending = counts.pending ? `, ${counts.pending} pending` : "";
  const state = counts.ended ? "ended" : "running";
  return `${counts[state]}/${counts.desired} ${state}${pending}`;
}

function stageCard(stage, active) {
  return h(
    "li",
    { class: "stage" },
    h("a", { class: `stage-card${active ? " active" : ""}`, href: `#stage-${stage.identifier}`, "data-stage": stage.identifier, "aria-current": active ? "step" : null },
      statusBadge(stage.status), h("span", {}, stage.name), h("small", {}, `${stage.service} \u2192 ${stage.environment} / ${stage.infrastructure}`), h("small", {}, countText(stage.counts) || (stage.reused_from ? `Reused from execution ${stage.reused_from.number}` : "\u00a0"))),
  );
}

function taskSquares({ running, desired, pending, ended = 0 }) {
  const shown = Math.min(MOST_SQUARES, Math.max(desired - ended, running + pending));
  const kind = (at) => (at < running ? "running" : at < running + pending ? "pending" : "missing");
  return h("span", { class: "tasks", "aria-hidden": "true" }, Array.from({ length: shown }, (_, at) => h("i", { class: kind(at) })));
}

function gauge(name, ...value) {
  return h("div", { class: "gauge" }, h("dt", {}, name), h("dd", {}, value));
}

// Users know a deployment by the number after its prefix; the full ID is copied.
function deploymentId(text) {
  return text ? [h("span", { class: "mono" }, text.split("/").at(-1)), copyButton(text, "Copy the deployment id")] : "\u2013";
}

function gauges(stage) {
  if (!stage) return [];
  return [
    gauge("ECS tasks", stage.counts ? [taskSquares(stage.counts), countText(stage.counts)] : "\u2013"),
    gauge("ECS service", stage.ecs_service || "\u2013"),
    gauge("Cluster", `${stage.cluster} \u00b7 ${stage.region}`),
    gauge("Account", stage.account || "\u2013"),
    gauge("ECS deployment", deploymentId(stage.deployment_id)),
  ];
}

// --- steps -----------------------------------------------------------------------------------------

function actionNode(action) {
  const late = action.state === "WAITING" || action.state === "SKIPPED" ? " waiting" : "";
  return h("li", { class: `action${late}` }, mark(action.state), h("span", {}, action.title), h("span", { class: "duration" }, durationNode(action.started_at, action.ended_at)),
    action.detail ? h("span", { class: "detail" }, action.detail) : null);
}

function unitNode(unit) {
  const late = unit.actions.every((action) => action.state === "WAITING" || action.state === "SKIPPED") ? " waiting" : "";
  return h("div", { class: `unit${late}` }, h("h4", {}, unit.name), h("ul", {}, unit.actions.map(actionNode)));
}

function stepNode(step) {
  const late = ["QUEUED", "SKIPPED"].includes(step.status) ? " waiting" : "";
  const note = [step.type, step.attempt > 1 && `attempt ${step.attempt}`, step.skipped_because && `skipped ${step.skipped_because}`].filter(Boolean).join(" \u00b7 ");
  const head = h("a", { class: "step-head", href: step.first_line ? `#L${step.first_line}` : `#step-${step.identifier}`, "data-step": step.identifier },
    mark(step.status), h("span", { class: "step-name" }, step.name, h("small", {}, note)), h("span", { class: "duration" }, durationNode(step.started_at, step.ended_at)));
  const depth = step.depth ? ` depth-${step.depth}` : "";
  return h("li", { class: `step${depth}${late}`, id: `step-${step.identifier}` }, head, h("div", { class: "units" }, step.units.map(unitNode)));
}

const headNode = ({ text, depth }) => h("li", { class: `step-group depth-${depth}` }, text);

function stepsOf(stage, many) {
  const sections = [
    [many ? stage.name : "Steps", stage.steps.filter((step) => step.section !== "ROLLBACK")],
    [many ? `${stage.name}: rollback` : "Rollback", stage.steps.filter((step) => step.section === "ROLLBACK")],
  ];
  return sections.filter(([, list]) => list.length).flatMap(([title, list], at) => [h("h3", { id: at ? null : `stage-${stage.identifier}` }, title), h("ol", {}, list.flatMap((step) => [...(step.heads || []).map(headNode), stepNode(step)]))]);
}

// --- the page --------------------------------------------------------------------------------------

export class ExecutionStateView {
  constructor(root) {
    this.root = root;
    this.keys = new Map();
    this.stage = null;
    this.pickedStep = null;
  }

  part(name) {
    return find(`[data-x-${name}]`, this.root);
  }

  // Redraws a part only if its data has changed; the reader stays at the same place.
  put(name, shown, make) {
    const key = JSON.stringify(shown);
    if (this.keys.get(name) === key) return;
    this.keys.set(name, key);
    const part = this.part(name);
    const top = part.scrollTop;
    const restorePlace = holdPlace(part);
    part.replaceChildren(...make());
    part.scrollTop = top;
    restorePlace(part);
  }

  draw(state) {
    if (this.state && state.last_line < this.state.last_line) return;
    this.state = state;
    const stage = state.stages.find((found) => found.identifier === this.stage) || currentStage(state);
    this.put("status", [state.status, state.outcome, state.ignored_failures], () => statusNodes(state));
    this.put("notices", [state.failure, state.notes, state.details_deleted_at, state.failure && isIgnored(state), state.queue, state.waits_for_delegate, state.status, state.can, steps(state).map((step) => [step.intervention, step.retry_at, step.approval])], () => notices(state));
    this.part("notices").hidden = !this.part("notices").children.length;
    this.put("began", [state.started_at, state.created_at], () => [timeNode(state.started_at || state.created_at)]);
    this.put("took", [state.started_at, state.ended_at], () => [durationNode(state.started_at, state.ended_at)]);
    this.put("stages", [state.stages.map(({ steps: _, ...rest }) => rest), stage?.identifier], () => state.stages.map((found) => stageCard(found, found === stage)));
    this.put("gauges", [stage && { ...stage, steps: 0 }], () => gauges(stage));
    this.put("steps", state.stages, () => state.stages.flatMap((found) => stepsOf(found, state.stages.length > 1)));
    this.put("outputs", steps(state).map((step) => [step.identifier, step.outputs]), () => drawOutputs(steps(state)));
    this.put("checklist", [state.checklist, state.status], () => drawChecklist(state.checklist || [], hasEnded(state)));
    this.drawCounts(state);
    this.drawButtons(state.can || {});
    for (const part of findAll("dialog:not([open]) [data-x-decide-step]")) part.value = waitingStep(steps(state))?.identifier || "";
    this.markPicked();
    document.title = `${statusNodes(state)[0].textContent} \u00b7 Execution ${state.number} \u00b7 ${state.pipeline.name} \u00b7 Slipway`;
  }

  drawCounts(state) {
    const outputs = steps(state).reduce((sum, step) => sum + Object.keys(step.outputs || {}).length, 0);
    const counts = { outputs, calls: state.calls_count || 0, checklist: (state.checklist || []).length };
    for (const [name, count] of Object.entries(counts)) {
      const badge = this.part(`${name}-count`);
      badge.textContent = count.toLocaleString();
      badge.hidden = !count;
    }
  }

  // An open dialog goes on asking about the step that somebody reads there.
  drawButtons(can) {
    const step = can.decide && skippable(steps(this.state));
    this.part("skip").hidden = !step;
    if (step) for (const part of findAll("dialog:not([open]) [data-x-skip-step]")) part.textContent = part.value = step[part.tagName === "INPUT" ? "identifier" : "name"];
    for (const part of findAll("dialog:not([open]) [data-skip-text]")) part.hidden = part.dataset.skipText !== (step?.intervention?.until ? "time" : "result");
    for (const name of ["abort", "rollback", "attempt"]) {
      const button = this.part(name);
      button.disabled = button.hidden = !can[name];
    }
  }

  pickStep(identifier) {
    this.pickedStep = identifier;
    this.markPicked();
  }

  pickStage(identifier) {
    this.stage = identifier;
    this.draw(this.state);
  }

  markPicked() {
    for (const node of findAll(".step", this.root)) {
      const picked = node.id === `step-${this.pickedStep}`;
      node.classList.toggle("picked", picked);
      find("a", node).ariaCurrent = picked;
    }
  }
}
