"""Comparison of observations with those of the sandbox."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from pathlib import Path
from typing import Final

from ops.acceptance.observations import Observation, ObservedEvent

SANDBOX_FILE: Final = Path(__file__).parent / "sandbox.json"


@dataclass(frozen=True)
class EventPair:
    """The same event here and in the sandbox; one of both is missing where they differ."""

    here: ObservedEvent | None
    sandbox: ObservedEvent | None

    @property
    def is_equal(self) -> bool:
        return self.here is not None and self.sandbox is not None


def load_sandbox_observations() -> dict[str, Observation]:
    """Return what the sandbox does in each scenario."""
    records = json.loads(SANDBOX_FILE.read_text())
    return {record["scenario"]: Observation.from_json(record) for record in records}


def pair_events(here: Sequence[ObservedEvent], sandbox: Sequence[ObservedEvent]) -> Iterator[EventPair]:
    """Yield both sequences side by side, aligned at their equal texts."""
    matcher = SequenceMatcher(a=[e.text for e in here], b=[e.text for e in sandbox], autojunk=False)
    for kind, start, end, sandbox_start, sandbox_end in matcher.get_opcodes():
        if kind == "equal":
            yield from map(EventPair, here[start:end], sandbox[sandbox_start:sandbox_end])
        else:
            yield from (EventPair(event, None) for event in here[start:end])
            yield from (EventPair(None, event) for event in sandbox[sandbox_start:sandbox_end])


def summarize(observation: Observation) -> dict[str, list[str]]:
    """Return what is compared besides events, without times: result, deployments, tasks and targets."""
    tasks = [
        f"{task.name} of {task.deployment}: {task.stop_code or 'not stopped'}"
        + (f", {task.stopped_reason}" if task.stopped_reason else "")
        + "".join(
            f", {name} exited with {code}" for name, code in task.exit_codes.items() if code is not None
        )
        for task in observation.tasks
    ]
    deployments = [f"{row.name}: {state}" for row in observation.deployments for state in row.states] + [
        f"{row.name}: {row.failed_tasks} failed tasks" for row in observation.deployments
    ]
    result = [" ".join(filter(None, (observation.status, observation.outcome))), observation.failure]
    return {
        "Result": [text for text in result if text],
        "Deployments": deployments,
        "Tasks": tasks,
        "Targets": observation.target_states,
    }
