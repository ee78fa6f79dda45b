"""Checks of the rules of AWS on the observations of a run.

A check yields an empty text for each time that its rule was followed, and what was seen instead for each time
that it was not.
"""

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final

from ops.acceptance.event_texts import find_unknown_events
from ops.acceptance.observations import Observation, ObservedTask
from ops.acceptance.scenarios import SCENARIOS

Observations = Mapping[str, Observation]
TASK_STATUSES: Final = (
    "PROVISIONING",
    "PENDING",
    "ACTIVATING",
    "RUNNING",
    "DEACTIVATING",
    "STOPPING",
    "DEPROVISIONING",
    "STOPPED",
)
BREAKER_FAILURES: Final = 3
STEADY: Final = "(service acceptance) has reached a steady state."


def check_known_events(observations: Observations) -> Iterator[str]:
    for name, observation in observations.items():
        unknown = find_unknown_events(observation.list_texts())
        yield from (f"{name}: {text}" for text in unknown)
        if observation.events and not unknown:
            yield ""


def check_started_before_steady(observations: Observations) -> Iterator[str]:
    for name in ("first", "update"):
        texts = observations[name].list_texts() if name in observations else []
        started = _find(texts, r"has started \d+ tasks")
        steady = _find(texts, r"has reached a steady state")
        if started is not None and steady is not None:
            yield "" if started < steady else f"{name}: steady state before the start of the tasks"


def check_completed_then_steady(observations: Observations) -> Iterator[str]:
    for name in ("first", "update", "crash", "roll_back"):
        texts = observations[name].list_texts() if name in observations else []
        completed = _find(texts, r"deployment completed\.")
        if completed is not None:
            is_steady = STEADY in texts[completed:]
            yield "" if is_steady else f"{name}: no “{STEADY}” after “{texts[completed]}”"


def check_task_statuses(observations: Observations) -> Iterator[str]:
    for name, task in _iterate_tasks(observations):
        indexes = [TASK_STATUSES.index(s) if s in TASK_STATUSES else -1 for s in task.statuses]
        in_order = -1 not in indexes and all(early < late for early, late in pairwise(indexes))
        yield "" if in_order else f"{name}: {task.name} was {', '.join(task.statuses)}"


def check_started_by(observations: Observations) -> Iterator[str]:
    for name, task in _iterate_tasks(observations):
        is_known = task.deployment.startswith("deployment ")
        yield "" if is_known else f"{name}: {task.name} was started by “{task.deployment}”"


def check_rollout_states(observations: Observations) -> Iterator[str]:
    for row in observations["first"].deployments if "first" in observations else ():
        expected = [
            f"PRIMARY IN_PROGRESS: ECS {row.name} in progress.",
            f"PRIMARY COMPLETED: ECS {row.name} completed.",
        ]
        # A state between two polls is not seen.
        if row.states and row.states != expected[len(expected) - len(row.states) :]:
            yield f"first: {row.name} was {'; '.join(row.states)}"
        elif row.states == expected:
            yield ""


def check_start_before_stop(observations: Observations) -> Iterator[str]:
    texts = observations["update"].list_texts() if "update" in observations else []
    started = _find(texts, r"has started 1 tasks")
    stopped = _find(texts, r"has stopped 1 running tasks")
    if started is not None and stopped is not None:
        yield "" if started < stopped else f"update: {texts[stopped]} came first"


def check_scheduler_stop(observations: Observations) -> Iterator[str]:
    tasks = observations["update"].tasks if "update" in observations else []
    for task in tasks:
        if task.stop_code:
            is_expected = task.stop_code == "ServiceSchedulerInitiated" and re.fullmatch(
                r"Scaling activity initiated by \(deployment \d+\)", task.stopped_reason
            )
            yield "" if is_expected else f"update: {task.name}: {task.stop_code}, “{task.stopped_reason}”"


def check_crash(observations: Observations) -> Iterator[str]:
    for task in _list_failed_tasks(observations, "crash"):
        is_expected = (
            task.stop_code == "EssentialContainerExited"
            and task.stopped_reason == "Essential container in task exited"
            and set(task.exit_codes.values()) == {1}
        )
        yield (
            ""
            if is_expected
            else (
                f"crash: {task.name}: {task.stop_code}, “{task.stopped_reason}”, exit codes {task.exit_codes}"
            )
        )


def check_unpullable(observations: Observations) -> Iterator[str]:
    for task in _list_failed_tasks(observations, "unpullable"):
        is_expected = (
            task.stop_code == "TaskFailedToStart"
            and task.stopped_reason.startswith("CannotPullContainerError")
            and set(task.exit_codes.values()) == {None}
        )
        yield (
            ""
            if is_expected
            else (
                f"unpullable: {task.name}: {task.stop_code}, “{task.stopped_reason}”, "
                f"exit codes {task.exit_codes}"
            )
        )


def check_placement_event(observations: Observations) -> Iterator[str]:
    if _list_failed_tasks(observations, "unpullable"):
        texts = observations["unpullable"].list_texts()
        found = _find(texts, r"was unable to place a task\. Reason: CannotPullContainerError")
        yield "" if found is not None else "unpullable: there is no such event"


def check_breaker_threshold(observations: Observations) -> Iterator[str]:
    for name in ("crash", "unpullable"):
        for row in observations[name].deployments if name in observations else ():
            if row.has_state(" FAILED: "):
                is_expected = row.failed_tasks == BREAKER_FAILURES
                yield "" if is_expected else f"{name}: {row.name} failed after {row.failed_tasks} tasks"


def check_failed_state(observations: Observations) -> Iterator[str]:
    reason = "ACTIVE FAILED: ECS deployment circuit breaker: tasks failed to start."
    for name in ("crash", "unpullable"):
        for row in observations[name].deployments if name in observations else ():
            if row.has_state(" FAILED: "):
                yield "" if reason in row.states else f"{name}: {row.name} was {'; '.join(row.states)}"


def check_breaker_events(observations: Observations) -> Iterator[str]:
    expected = (
        r"\(deployment \d+\) deployment failed: tasks failed to start\.",
        r"rolling back to deployment \d+\.",
        r"\(deployment \d+\) deployment completed\.",
    )
    for name in ("crash", "unpullable"):
        texts = observations[name].list_texts() if name in observations else []
        places = [_find(texts, pattern) for pattern in expected]
        known = [place for place in places if place is not None]
        if places[0] is not None:
            in_order = len(known) == len(expected) and known == sorted(known)
            yield "" if in_order else f"{name}: {'; '.join(texts)}"


def check_reused_deployment(observations: Observations) -> Iterator[str]:
    """The first deployment seen in a scenario is the one that ran before."""
    for name in ("crash", "unpullable"):
        rows = observations[name].deployments if name in observations else []
        if any(row.has_state(" FAILED: ") for row in rows):
            reason = f"ECS deployment circuit breaker: rolling back to deploymentId {rows[0].name}."
            yield "" if rows[0].has_state(reason) else f"{name}: {rows[0].name} was {rows[0].states}"


def check_no_more_starts(observations: Observations) -> Iterator[str]:
    for name in ("crash", "unpullable"):
        if name not in observations:
            continue
        observation = observations[name]
        ends = [e.seconds for e in observation.events if "deployment failed: " in e.text]
        for task in _list_failed_tasks(observations, name) if ends else ():
            is_late = task.created is not None and task.created > ends[0] + 1
            yield f"{name}: {task.name} started {task.created:.0f} s" if is_late else ""


def check_backoff(observations: Observations) -> Iterator[str]:
    moments = [t.created for t in _list_failed_tasks(observations, "unpullable") if t.created is not None]
    gaps = [late - early for early, late in pairwise(moments)]
    if len(gaps) > 1:
        grows = all(early < late for early, late in pairwise(gaps))
        yield "" if grows else f"unpullable: {', '.join(f'{gap:.0f} s' for gap in gaps)} between starts"


def check_target_events(observations: Observations) -> Iterator[str]:
    for name in ("blue_green_first", "blue_green_swap"):
        observation = observations.get(name)
        if observation and any((task.started or 0.0) > 0 for task in observation.tasks):
            found = _find(observation.list_texts(), r"registered 1 targets in \(target group \d+\)$")
            yield "" if found is not None else f"{name}: there is no such event"


def check_target_health(observations: Observations) -> Iterator[str]:
    states = observations["blue_green_first"].target_states if "blue_green_first" in observations else []
    initial, healthy = _find(states, r": initial$"), _find(states, r": healthy$")
    if initial is not None:
        is_expected = healthy is not None and initial < healthy
        yield "" if is_expected else f"blue_green_first: targets were {', '.join(states)}"


def check_draining(observations: Observations) -> Iterator[str]:
    observation = observations.get("blue_green_swap", Observation(""))
    if _find(observation.list_texts(), r"deregistered 1 targets in") is not None:
        has_event = (
            _find(observation.list_texts(), r"has begun draining connections on 1 tasks\.") is not None
        )
        yield "" if has_event else "blue_green_swap: there is no draining event"
        is_draining = _find(observation.target_states, r": draining$") is not None
        yield "" if is_draining else f"blue_green_swap: targets were {', '.join(observation.target_states)}"


def check_outcomes(observations: Observations) -> Iterator[str]:
    for scenario in SCENARIOS:
        if scenario.name in observations:
            seen = observations[scenario.name]
            result, expected = (f"{each.status} {each.outcome}" for each in (seen, scenario))
            text = f"{scenario.name}: {result} instead of {expected}: {seen.failure}"
            yield "" if result == expected else text


def _find(texts: Iterable[str], pattern: str) -> int | None:
    return next((number for number, text in enumerate(texts) if re.search(pattern, text)), None)


def _iterate_tasks(observations: Observations) -> Iterator[tuple[str, ObservedTask]]:
    for name, observation in observations.items():
        yield from ((name, task) for task in observation.tasks)


def _list_failed_tasks(observations: Observations, scenario: str) -> list[ObservedTask]:
    """Return the stopped tasks that the scheduler did not stop itself, oldest first."""
    tasks = observations[scenario].tasks if scenario in observations else []
    failed = [t for t in tasks if t.stop_code and t.stop_code != "ServiceSchedulerInitiated"]
    return sorted(failed, key=lambda task: task.created or 0.0)
