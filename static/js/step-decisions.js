// Decisions about a step: the notice with its buttons, the remaining time, and the retries.

import { find, h, shape } from "./dom.js";
import { timeNode, untilNode } from "./timestamps.js";

const WORDS = {
  RETRY: ["Retry", "Retry the step from the point of failure"],
  SKIP: ["Skip", "Continue with the next step and mark this one as skipped"],
  IGNORE: ["Ignore", "Continue with the next step; the failure stays visible"],
  MARK_AS_SUCCESS: ["Mark as success", "Continue as if the step had succeeded"],
  MARK_AS_FAILURE: ["Mark as failure", "End as failed, without a rollback"],
  ROLL_BACK: ["Roll back", "Roll back the stage, newest change first"],
  ABORT: ["Abort", "End as aborted, without a rollback"],
  GO_ON: ["Go on", "Continue where the backup was made; AWS is read again before each change"],
  END_UNCHANGED: ["End without changes", "End as aborted, without another change in AWS"],
};
const BACKWARD = {
  RETRY: ["Retry", "Retry the rollback of this step up to three times"],
  IGNORE: ["Skip this step", "Keep the changes of this step and roll back the rest"],
  ABORT: ["Stop rollback", "Keep all remaining changes"],
};
const AFTERWARDS = {
  Abort: "the execution is aborted", Ignore: "the failure is ignored", MarkAsFailure: "the execution fails without a rollback",
  MarkAsSuccess: "the step is marked as success", StageRollback: "the stage is rolled back", LeaveRest: "the remaining rollback is skipped",
};

export function notice(tone, form, ...lines) {
  return h("div", { class: `message tone-${tone}` }, shape(`s-${form}`, "icon mark"), h("div", {}, lines.filter(Boolean)));
}

// Every other decision is final, and confirmed first.
const REPEATS = ["RETRY", "GO_ON"];

function fillConfirmation(step, choice, [word, text], isDanger) {
  const confirm = find("#decide-dialog [name=choice]");
  confirm.className = `button ${isDanger ? "danger" : "primary"}`;
  confirm.value = choice;
  confirm.textContent = word;
  find("#decide-title").textContent = `${word}: ${step.name}?`;
  find("#decide-text").textContent = `${text}.`;
}

function button(step, decision) {
  const backward = step.section === "ROLLBACK";
  const [word, title] = (backward && BACKWARD[decision]) || WORDS[decision];
  const css = decision === "ABORT" || decision === "END_UNCHANGED" ? "button small danger" : decision === "RETRY" ? "button small primary" : "button small";
  // A rollback shows its undo plan first.
  if (decision === "ROLL_BACK") return h("button", { type: "button", class: css, "data-dialog": "decide-rollback-dialog", title }, word);
  if (!REPEATS.includes(decision)) {
    const onclick = () => fillConfirmation(step, `${decision} ${step.identifier}`, [word, title], css.includes("danger"));
    return h("button", { type: "button", class: css, "data-dialog": "decide-dialog", title, onclick }, word);
  }
  return h("button", { class: css, form: "decide-form", name: "choice", value: `${decision} ${step.identifier}`, title }, word);
}

function limit({ until, on_timeout: then }) {
  if (!until) return null;
  return h("span", { class: "secondary-text" }, "Time left: ", untilNode(until), " (until ", timeNode(until), `), then ${AFTERWARDS[then] || "it is rolled back"}.`);
}

// Decisions that end an execution require the permission to abort it.
const STOPS = ["ABORT", "ROLL_BACK", "END_UNCHANGED"];

// Of an execution that was under way when the backup was made from which the database was restored.
const restoredWords = (taken) => [
  "This execution comes from a restored database and waits for a decision.",
  h("span", {}, "It was under way when the backup or snapshot was made (", timeNode(taken), "). AWS may have changed since: compare it before you decide. Until then Slipway changes nothing."),
];

const failedWords = (step, backward) => [
  backward ? `The rollback step ${step.name} waits for a decision.` : `Step ${step.name} waits for a decision.`,
  h("span", {}, step.failure?.message?.split("\n")[0] || "The last lines of the log say why."),
];

export function decisionNotice(step, can) {
  const { kind, choices, taken_at: taken } = step.intervention;
  const backward = kind === "NOT_RESTORED" || kind === "STUCK_BACKWARD";
  const [what, why] = kind === "RESTORED" ? restoredWords(taken) : failedWords(step, backward);
  const allowed = choices.filter((choice) => (STOPS.includes(choice) ? can.stop : can.decide));
  const buttons = allowed.length
    ? h("div", { class: "choices", role: "group", "aria-label": `Decide about step ${step.name}` }, allowed.map((choice) => button(step, choice)))
    : h("span", { class: "secondary-text" }, "Users who can run or abort this pipeline can decide.");
  const node = notice("waiting", "waiting", h("strong", {}, what), why, limit(step.intervention), buttons);
  node.classList.add("decision");
  return node;
}

export function retryNotice(step) {
  return notice("waiting", "waiting", h("span", {}, h("strong", {}, `Step ${step.name} is retried`), " in ", untilNode(step.retry_at), "."), h("span", {}, step.failure?.message?.split("\n")[0] || ""));
}

/** What is said of a step that only lets time pass: how much is left. */
export const pauseNotice = (step) =>
  notice("waiting", "waiting", h("span", {}, h("strong", {}, `Step ${step.name} waits`), ", time left: ", untilNode(step.intervention.until), " (until ", timeNode(step.intervention.until), ")."));

export const pausing = (steps) => steps.filter((step) => step.intervention?.kind === "WAITING" && step.intervention.until);

export const deciding = (steps) => steps.filter((step) => step.intervention && step.intervention.kind !== "WAITING");

export const waitingStep = (steps) => deciding(steps)[0];

export const skippable = (steps) => steps.find((step) => step.intervention?.kind === "WAITING" && step.intervention.choices.includes("SKIP"));
