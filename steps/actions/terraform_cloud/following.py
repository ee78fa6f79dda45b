"""Follows a run: says where it stands when that changes, and brings its logs into the step's."""

import json
import re
from typing import Any, Final

from aws.errors import Undelivered
from steps.actions.base import Rollout
from steps.actions.terraform_cloud.api import TerraformCloud
from steps.actions.terraform_cloud.runs import Phase, Run

_COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]")
_MARKS: Final = {ord("\x02"): None, ord("\x03"): None}
_LEVELS: Final = {"warn": "warning", "error": "error"}
# A log that does not say its end has ended when this many pieces were empty after the phase.
_EMPTY_PIECES: Final = 2
MOST_TAIL: Final = 64 * 1024


def tell_status(rollout: Rollout, run: Run) -> None:
    """Say where the run stands, once for each place."""
    if rollout.progress.get("status") != run.status:
        rollout.progress["status"] = run.status
        rollout.log(f"The run {run.words}")


def follow_log(cloud: TerraformCloud, phase: Phase, *, is_over: bool) -> bool:
    """Bring the next piece of a log; True once it has come to its end."""
    rollout = cloud.rollout
    state: dict[str, Any] = rollout.progress.setdefault(
        f"log {phase.id}", {"offset": 0, "tail": "", "empty": 0}
    )
    if state.get("ended") or not phase.log_url:
        return is_over or bool(state.get("ended"))
    try:
        piece = rollout.work.read_terraform_log(cloud.connector, phase.log_url, state["offset"])
    except Undelivered as problem:
        return _give_up(rollout, state, problem.message)
    if piece.status in (401, 403):
        return _give_up(rollout, state, f"HTTP status {piece.status}.")
    is_empty = piece.status not in (200, 206) or not piece.size
    state["empty"] = state["empty"] + 1 if is_empty and is_over else 0
    if not is_empty:
        state["offset"] += piece.size
        _tell(rollout, state, piece.text)
    if "\x03" in piece.text or state["empty"] >= _EMPTY_PIECES:
        _tell(rollout, state, "\n")
        state["ended"] = True
    return bool(state.get("ended"))


def _give_up(rollout: Rollout, state: dict[str, Any], why: str) -> bool:
    state["ended"] = True
    rollout.log(f"The log of Terraform Cloud cannot be read: {why}", "warning")
    return True


def _tell(rollout: Rollout, state: dict[str, Any], text: str) -> None:
    whole = state["tail"] + text.translate(_MARKS)
    lines = whole.split("\n")
    state["tail"] = lines.pop()
    if len(state["tail"]) > MOST_TAIL:
        lines.append(state["tail"])
        state["tail"] = ""
    for line in lines:
        for told, level in readable(line):
            rollout.log(told, level)


def readable(line: str) -> list[tuple[str, str]]:
    """What a line of Terraform says, with the level of each: plain text, or JSON as `-json` prints it."""
    line = line.rstrip("\r")
    plain = _COLOURS.sub("", line)
    if not plain.strip():
        return []
    said = _as_json(plain)
    if said is None:
        return [(line, "error" if plain.lstrip("│╷ ").startswith("Error:") else "info")]
    level = _LEVELS.get(str(said.get("@level")), "info")
    found = [str(said["@message"])]
    diagnostic = said.get("diagnostic")
    if isinstance(diagnostic, dict):
        found += str(diagnostic.get("detail") or "").splitlines()
    return [(one, level) for one in found if one.strip()]


def _as_json(line: str) -> dict[str, Any] | None:
    if not line.startswith("{"):
        return None
    try:
        said = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) and "@message" in said else None
