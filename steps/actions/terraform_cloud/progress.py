"""Progress of a run: status lines, logs, and the result of its plan."""

import json
import re
from typing import Any, Final

from aws.errors import Undelivered
from steps.actions.base import ActionFailed
from steps.actions.context import StepContext
from steps.actions.terraform_cloud.api import RunPhase, TerraformCloud, TerraformCloudRun

_COLOR_CODES: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_CONTROL_CHARACTERS: Final = {ord("\x02"): None, ord("\x03"): None}
_LEVELS: Final = {"warn": "warning", "error": "error"}
# Number of empty reads after the phase that end a log without an end mark.
_EMPTY_READS: Final = 2
TAIL_CHARACTERS: Final = 64 * 1024


def log_run_status(context: StepContext, run: TerraformCloudRun) -> None:
    """Log each status of the run once."""
    if context.progress.get("status") != run.status:
        context.progress["status"] = run.status
        context.log(f"The run {run.status_text}")


def copy_log(cloud: TerraformCloud, phase: RunPhase, *, is_over: bool) -> bool:
    """Log the next segment of a log; return True at its end."""
    context = cloud.context
    state: dict[str, Any] = context.progress.setdefault(
        f"log {phase.id}", {"offset": 0, "tail": "", "empty": 0}
    )
    if state.get("ended") or not phase.log_url:
        return is_over or bool(state.get("ended"))
    try:
        segment = context.work.read_terraform_log(cloud.connector, phase.log_url, state["offset"])
    except Undelivered as problem:
        return _stop_log(context, state, problem.message)
    if segment.status in (401, 403):
        return _stop_log(context, state, f"HTTP status {segment.status}.")
    is_empty = segment.status not in (200, 206) or not segment.size
    state["empty"] = state["empty"] + 1 if is_empty and is_over else 0
    if not is_empty:
        state["offset"] += segment.size
        _log_lines(context, state, segment.text)
    if "\x03" in segment.text or state["empty"] >= _EMPTY_READS:
        _log_lines(context, state, "\n")
        state["ended"] = True
    return bool(state.get("ended"))


def _stop_log(context: StepContext, state: dict[str, Any], reason: str) -> bool:
    state["ended"] = True
    context.log(f"The log of Terraform Cloud cannot be read: {reason}", "warning")
    return True


def _log_lines(context: StepContext, state: dict[str, Any], text: str) -> None:
    content = state["tail"] + text.translate(_CONTROL_CHARACTERS)
    lines = content.split("\n")
    state["tail"] = lines.pop()
    if len(state["tail"]) > TAIL_CHARACTERS:
        lines.append(state["tail"])
        state["tail"] = ""
    for line in lines:
        for text, level in parse_log_line(line):
            context.log(text, level)


def parse_log_line(line: str) -> list[tuple[str, str]]:
    """Return the messages in a line of Terraform with their levels; plain text, or JSON of `-json`."""
    line = line.rstrip("\r")
    plain = _COLOR_CODES.sub("", line)
    if not plain.strip():
        return []
    document = _parse_json_line(plain)
    if document is None:
        return [(line, "error" if plain.lstrip("│╷ ").startswith("Error:") else "info")]
    level = _LEVELS.get(str(document.get("@level")), "info")
    messages = [str(document["@message"])]
    diagnostic = document.get("diagnostic")
    if isinstance(diagnostic, dict):
        messages += str(diagnostic.get("detail") or "").splitlines()
    return [(message, level) for message in messages if message.strip()]


def _parse_json_line(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        document = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return document if isinstance(document, dict) and "@message" in document else None


_MANUAL_END_STATUSES = ("discarded", "canceled", "force_canceled")


def require_usable_plan(
    cloud: TerraformCloud, run: TerraformCloudRun, *, overrides: bool, plan_only: bool
) -> None:
    """Raise `ActionFailed` if the run cannot go on from its plan."""
    refuse_ended_run(run, "plan")
    is_broken = run.status == "policy_soft_failed" or (run.is_undecided and not overrides)
    if is_broken and not plan_only:
        raise ActionFailed(
            "POLICY_FAILED",
            f"Run {run.id} {run.status_text}{_list_broken_policies(cloud, run)}. Correct the configuration, "
            f"or let the step override policies if the token is allowed to.",
        )
    if is_broken:
        cloud.context.log(f"Run {run.id} {run.status_text}{_list_broken_policies(cloud, run)}", "warning")


def refuse_ended_run(run: TerraformCloudRun, phase: str) -> None:
    """Raise `ActionFailed` for a run that errored or that people ended."""
    if run.status == "errored":
        raise ActionFailed(
            "TERRAFORM_FAILED", f"The {phase} of run {run.id} ended with an error. See its log above."
        )
    if run.status in _MANUAL_END_STATUSES:
        raise ActionFailed(
            "RUN_ENDED", f"The run was ended in Terraform Cloud: run {run.id} {run.status_text}."
        )


def log_plan(context: StepContext, run: TerraformCloudRun) -> None:
    """Log the planned changes and set them as outputs."""
    added, changed, destroyed = run.plan.counts
    context.log(f"Plan: {added} to add, {changed} to change, {destroyed} to destroy")
    context.set_outputs(
        planStatus="CHANGES" if run.has_changes else "NO_CHANGES",
        resourcesToAdd=added,
        resourcesToChange=changed,
        resourcesToDestroy=destroyed,
    )


def _list_broken_policies(cloud: TerraformCloud, run: TerraformCloudRun) -> str:
    """Return the names of the failed policies of the run, as a suffix of a sentence."""
    policies: list[str] = []
    for check in cloud.list_documents(("runs", run.id, "policy-checks"), "the policy checks of the run"):
        attributes = check.get("attributes") or {}
        if attributes.get("status") not in ("passes", "passed", "overridden"):
            policies += _list_failed_policies(attributes.get("result") or {})
    names = ", ".join(dict.fromkeys(policies))
    return f": {names[:300]}" if names else ""


def _list_failed_policies(result: dict[str, object]) -> list[str]:
    """Return the failed policies in a result of Sentinel."""
    sentinel = result.get("sentinel")
    sets = sentinel.get("data") if isinstance(sentinel, dict) else None
    names: list[str] = []
    for policy_set in sets.values() if isinstance(sets, dict) else ():
        policies = policy_set.get("policies") if isinstance(policy_set, dict) else None
        for policy in policies if isinstance(policies, list) else ():
            if isinstance(policy, dict) and policy.get("result") is False:
                policy_name = policy.get("policy")
                names.append(str(policy_name.get("name") if isinstance(policy_name, dict) else policy_name))
    return names
