"""Each rule holds on what the sandbox was seen to do, and is broken by what contradicts it."""

from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from ops.acceptance.comparison import load_sandbox_observations
from ops.acceptance.observations import Observation
from ops.acceptance.rules import RULES, Verdict, evaluate_rules

Observations = dict[str, Observation]


def list_verdicts(observations: Iterable[Observation]) -> dict[str, Verdict]:
    return {each.rule.identifier: each.verdict for each in evaluate_rules(observations)}


def drop_events(scenario: str, words: str) -> Callable[[Observations], None]:
    def change(observations: Observations) -> None:
        observation = observations[scenario]
        observation.events = [event for event in observation.events if words not in event.text]

    return change


def reverse_events(scenario: str) -> Callable[[Observations], None]:
    return lambda observations: observations[scenario].events.reverse()


def rewrite_event(observations: Observations) -> None:
    events = observations["first"].events
    events[0] = replace(events[0], text="(service acceptance) has launched 1 tasks: (task 1).")


def change_tasks(scenario: str, **values: object) -> Callable[[Observations], None]:
    def change(observations: Observations) -> None:
        for task in observations[scenario].tasks:
            if task.stop_code:
                for name, value in values.items():
                    setattr(task, name, value)

    return change


def change_deployments(scenario: str, **values: object) -> Callable[[Observations], None]:
    def change(observations: Observations) -> None:
        for row in observations[scenario].deployments:
            for name, value in values.items():
                setattr(row, name, value)

    return change


def rename_states(observations: Observations) -> None:
    for row in observations["crash"].deployments:
        row.states = [
            state.replace("deployment circuit breaker", "deployment breaker") for state in row.states
        ]


def start_a_late_task(observations: Observations) -> None:
    observations["crash"].tasks[-1].created = 500.0


def retry_at_once(observations: Observations) -> None:
    for number, task in enumerate(observations["unpullable"].tasks[1:]):
        task.created = 30.0 * number


def forget_states(scenario: str, state: str) -> Callable[[Observations], None]:
    def change(observations: Observations) -> None:
        states = observations[scenario].target_states
        observations[scenario].target_states = [each for each in states if not each.endswith(state)]

    return change


def end_otherwise(observations: Observations) -> None:
    observations["crash"].outcome = "FAILED"


CONTRADICTIONS = {
    "known_events": rewrite_event,
    "started_before_steady": reverse_events("first"),
    "completed_then_steady": drop_events("update", "steady state"),
    "task_statuses": change_tasks("update", statuses=["RUNNING", "PENDING"]),
    "started_by": change_tasks("update", deployment="somebody"),
    "rollout_states": change_deployments("first", states=["PRIMARY COMPLETED: done"]),
    "start_before_stop": reverse_events("update"),
    "scheduler_stop": change_tasks("update", stop_code="UserInitiated"),
    "crash_exit_code": change_tasks("crash", exit_codes={"web": 0}),
    "cannot_pull": change_tasks("unpullable", stopped_reason="ImageNotFound: nopull"),
    "cannot_pull_event": drop_events("unpullable", "CannotPullContainerError"),
    "start_backoff": retry_at_once,
    "breaker_threshold": change_deployments("crash", failed_tasks=10),
    "failed_state": rename_states,
    "breaker_events": drop_events("crash", "rolling back"),
    "rollback_reuses_deployment": rename_states,
    "no_more_starts": start_a_late_task,
    "targets_registered": drop_events("blue_green_swap", "registered 1 targets"),
    "targets_healthy": forget_states("blue_green_first", "healthy"),
    "targets_drained": forget_states("blue_green_swap", "draining"),
    "outcomes": end_otherwise,
}


def test_every_rule_holds_in_the_sandbox() -> None:
    verdicts = list_verdicts(load_sandbox_observations().values())
    assert verdicts == {rule.identifier: Verdict.HELD for rule in RULES}


@pytest.mark.parametrize("rule", [rule.identifier for rule in RULES])
def test_a_rule_is_broken_by_what_contradicts_it(rule: str) -> None:
    observations = load_sandbox_observations()
    CONTRADICTIONS[rule](observations)
    assert list_verdicts(observations.values())[rule] is Verdict.BROKEN


def test_without_observations_no_rule_is_held_or_broken() -> None:
    assert set(list_verdicts([]).values()) == {Verdict.NOT_OBSERVED}


def test_a_scenario_that_never_began_breaks_no_rule_of_aws() -> None:
    observations = [Observation(name, status="FAILED") for name in load_sandbox_observations()]
    broken = [name for name, verdict in list_verdicts(observations).items() if verdict is Verdict.BROKEN]
    assert broken == ["outcomes"]
