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
# A log that does not say its end has ended when this many pieces were empty after the phase.
_EMPTY_READS: Final = 2
TAIL_CHARACTERS: Final = 64 * 1024


def log_run_status(context: StepContext, run: TerraformCloudRun) -> None:
    """Say where the run stands, once for each place."""
    if context.progress.get("status") != run.status:
        context.progress["status"] = run.status
        context.log(f"The run {run.words}")


def copy_log(cloud: TerraformCloud, phase: RunPhase, *, is_over: bool) -> bool:
    """Bring the next piece of a log; True once it has come to its end."""
    context = cloud.context
    state: dict[str, Any] = context.progress.setdefault(
        f"log {phase.id}", {"offset": 0, "tail": "", "empty": 0}
    )
    if state.get("ended") or not phase.log_url:
        return is_over or bool(state.get("ended"))
    try:
        piece = context.work.read_terraform_log(cloud.connector, phase.log_url, state["offset"])
    except Undelivered as problem:
        return _stop_log(context, state, problem.message)
    if piece.status in (401, 403):
        return _stop_log(context, state, f"HTTP status {piece.status}.")
    is_empty = piece.status not in (200, 206) or not piece.size
    state["empty"] = state["empty"] + 1 if is_empty and is_over else 0
    if not is_empty:
        state["offset"] += piece.size
        _log_lines(context, state, piece.text)
    if "\x03" in piece.text or state["empty"] >= _EMPTY_READS:
        _log_lines(context, state, "\n")
        state["ended"] = True
    return bool(state.get("ended"))


def _stop_log(context: StepContext, state: dict[str, Any], why: str) -> bool:
    state["ended"] = True
    context.log(f"The log of Terraform Cloud cannot be read: {why}", "warning")
    return True


def _log_lines(context: StepContext, state: dict[str, Any], text: str) -> None:
    whole = state["tail"] + text.translate(_CONTROL_CHARACTERS)
    lines = whole.split("\n")
    state["tail"] = lines.pop()
    if len(state["tail"]) > TAIL_CHARACTERS:
        lines.append(state["tail"])
        state["tail"] = ""
    for line in lines:
        for text, level in parse_log_line(line):
            context.log(text, level)


def parse_log_line(line: str) -> list[tuple[str, str]]:
    """What a line of Terraform says, with the level of each: plain text, or JSON as `-json` prints it."""
    line = line.rstrip("\r")
    plain = _COLOR_CODES.sub("", line)
    if not plain.strip():
        return []
    said = _parse_json_line(plain)
    if said is None:
        return [(line, "error" if plain.lstrip("│╷ ").startswith("Error:") else "info")]
    level = _LEVELS.get(str(said.get("@level")), "info")
    found = [str(said["@message"])]
    diagnostic = said.get("diagnostic")
    if isinstance(diagnostic, dict):
        found += str(diagnostic.get("detail") or "").splitlines()
    return [(one, level) for one in found if one.strip()]


def _parse_json_line(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and "@message" in said else None


_MANUAL_END_STATUSES = ("discarded", "canceled", "force_canceled")


def require_usable_plan(
    cloud: TerraformCloud, run: TerraformCloudRun, *, overrides: bool, plan_only: bool
) -> None:
    """Raises `ActionFailed` where the run cannot go on from its plan."""
    refuse_ended_run(run, "plan")
    is_broken = run.status == "policy_soft_failed" or (run.is_undecided and not overrides)
    if is_broken and not plan_only:
        raise ActionFailed(
            "POLICY_FAILED",
            f"Run {run.id} {run.words}{_list_broken_policies(cloud, run)}. Correct the configuration, or "
            f"let the step override policies if the token is allowed to.",
        )
    if is_broken:
        cloud.context.log(f"Run {run.id} {run.words}{_list_broken_policies(cloud, run)}", "warning")


def refuse_ended_run(run: TerraformCloudRun, phase: str) -> None:
    """Raises `ActionFailed` for a run that errored, or that people ended."""
    if run.status == "errored":
        raise ActionFailed(
            "TERRAFORM_FAILED", f"The {phase} of run {run.id} ended with an error. See its log above."
        )
    if run.status in _MANUAL_END_STATUSES:
        raise ActionFailed("RUN_ENDED", f"The run was ended in Terraform Cloud: run {run.id} {run.words}.")


def log_plan(context: StepContext, run: TerraformCloudRun) -> None:
    """Say and hand on what the plan would change."""
    added, changed, destroyed = run.plan.counts
    context.log(f"Plan: {added} to add, {changed} to change, {destroyed} to destroy")
    context.set_outputs(
        planStatus="CHANGES" if run.has_changes else "NO_CHANGES",
        resourcesToAdd=added,
        resourcesToChange=changed,
        resourcesToDestroy=destroyed,
    )


def _list_broken_policies(cloud: TerraformCloud, run: TerraformCloudRun) -> str:
    """Return the policies that the run broke, by name."""
    found: list[str] = []
    for check in cloud.listed(("runs", run.id, "policy-checks"), "the policy checks of the run"):
        attributes = check.get("attributes") or {}
        if attributes.get("status") not in ("passes", "passed", "overridden"):
            found += _list_failed_policies(attributes.get("result") or {})
    listed = ", ".join(dict.fromkeys(found))
    return f": {listed[:300]}" if listed else ""


def _list_failed_policies(result: dict[str, object]) -> list[str]:
    """Return the policies in a result of Sentinel that did not pass."""
    sentinel = result.get("sentinel")
    sets = sentinel.get("data") if isinstance(sentinel, dict) else None
    found: list[str] = []
    for one in sets.values() if isinstance(sets, dict) else ():
        policies = one.get("policies") if isinstance(one, dict) else None
        for policy in policies if isinstance(policies, list) else ():
            if isinstance(policy, dict) and policy.get("result") is False:
                named = policy.get("policy")
                found.append(str(named.get("name") if isinstance(named, dict) else named))
    return found
