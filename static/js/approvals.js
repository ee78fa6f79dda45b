// Approval of a step: its approvers, the number of approvals, the remaining time, and the link to decide.

import { notice } from "./step-decisions.js";
import { h } from "./dom.js";
import { timeNode, untilNode } from "./timestamps.js";

export function approvalNotice(step) {
  const { id, message, groups, minimum, given, expires_at: until } = step.approval;
  const node = notice(
    "waiting",
    "waiting",
    h("strong", {}, `Step ${step.name} awaits approval: ${given} of ${minimum} approvals from ${groups.join(", ")}.`),
    message ? h("span", { class: "detail-text" }, message) : null,
    h("span", { class: "secondary-text" }, "Time left: ", untilNode(until), " (until ", timeNode(until), ")."),
    h("div", { class: "choices" }, h("a", { class: "button small primary", href: `/approvals/${id}/` }, "Review and decide")),
  );
  node.classList.add("decision");
  return node;
}
