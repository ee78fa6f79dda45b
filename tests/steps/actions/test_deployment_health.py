"""One sight of an ECS service, judged: what is there, what it may mean, and when it is certain."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from aws.apis.ecs_types import EcsService
from steps.actions.ecs_service.deployment_health import (
    HealthVerdict,
    OwnDeployment,
    evaluate_deployment,
    is_verdict_certain,
    was_rolled_back_by_aws,
)

BEGUN = datetime(2026, 11, 23, 12, tzinfo=UTC)
CREATED = "2026-11-01T00:00:00+00:00"
OURS = OwnDeployment("ecs-svc/2", "myapp:2", "ecs-svc/1", True, 3, started_at=BEGUN, service_created=CREATED)


def deployment(number: int, status: str = "PRIMARY", **values: Any) -> dict[str, Any]:
    return {
        "id": f"ecs-svc/{number}",
        "status": status,
        "taskDefinition": f"myapp:{number}",
        "desiredCount": 3,
        "runningCount": 3,
        "rolloutState": "COMPLETED",
        "createdAt": (BEGUN + timedelta(minutes=number - 2)).isoformat(),
        **values,
    }


def service(*deployments: dict[str, Any], status: str = "ACTIVE", events: tuple[str, ...] = ()) -> EcsService:
    return EcsService.from_aws(
        {
            "serviceName": "myapp",
            "status": status,
            "createdAt": CREATED,
            "desiredCount": deployments[0]["desiredCount"] if deployments else 0,
            "deployments": list(deployments),
            "events": [{"id": text, "message": text} for text in events],
        }
    )


@pytest.mark.parametrize(
    ("service_state", "verdict"),
    [
        (service(deployment(2)), HealthVerdict.COMPLETED),
        (service(deployment(2, runningCount=2)), HealthVerdict.GOING),
        (service(deployment(2, rolloutState="IN_PROGRESS")), HealthVerdict.GOING),
        (service(deployment(2, desiredCount=0, runningCount=0)), HealthVerdict.MAYBE_NO_TASKS),
        (service(deployment(2, rolloutState="FAILED")), HealthVerdict.FAILED),
        (
            service(deployment(1), deployment(2, "ACTIVE", rolloutState="FAILED")),
            HealthVerdict.ROLLED_BACK_BY_AWS,
        ),
        (service(deployment(1)), HealthVerdict.MAYBE_BACK),
        (service(deployment(3)), HealthVerdict.MAYBE_SUPERSEDED),
        (service(status="DRAINING"), HealthVerdict.MAYBE_GONE),
        (None, HealthVerdict.MAYBE_GONE),
    ],
)
def test_a_sight_is_judged_by_the_id_of_the_deployment_and_what_runs(
    service_state: EcsService | None, verdict: HealthVerdict
) -> None:
    assert evaluate_deployment(service_state, OURS) is verdict


@pytest.mark.parametrize(
    ("service_state", "verdict"),
    [
        (service(deployment(2, rolloutState=None)), HealthVerdict.COMPLETED),
        (service(deployment(2, rolloutState=None, runningCount=2)), HealthVerdict.GOING),
        (service(deployment(2, rolloutState=None, pendingCount=1)), HealthVerdict.GOING),
        (service(deployment(2, rolloutState=None), deployment(1, "ACTIVE")), HealthVerdict.GOING),
        (
            service(deployment(2, rolloutState=None, desiredCount=0, runningCount=0)),
            HealthVerdict.MAYBE_NO_TASKS,
        ),
    ],
)
def test_behind_a_classic_load_balancer_the_only_deployment_is_completed_when_its_tasks_run(
    service_state: EcsService, verdict: HealthVerdict
) -> None:
    assert evaluate_deployment(service_state, OURS) is verdict


@pytest.mark.parametrize(
    ("configuration", "reason", "verdict"),
    [
        ({"alarms": {"enable": True, "rollback": True}}, "alarm detected", HealthVerdict.MAYBE_FAILED),
        ({"alarms": {"enable": True, "rollback": False}}, "alarm detected", HealthVerdict.FAILED),
        ({"alarms": {"enable": True, "rollback": True}}, "ECS circuit breaker: x", HealthVerdict.FAILED),
        ({"deploymentCircuitBreaker": {"enable": True, "rollback": True}}, "", HealthVerdict.MAYBE_FAILED),
    ],
)
def test_a_failed_deployment_waits_for_the_rollback_of_whatever_failed_it(
    configuration: dict[str, Any], reason: str, verdict: HealthVerdict
) -> None:
    state = service(deployment(2, rolloutState="FAILED", rolloutStateReason=reason))
    state.raw["deploymentConfiguration"] = configuration
    assert evaluate_deployment(state, OURS) is verdict


def test_a_failed_deployment_that_aws_rolls_back_has_not_failed_yet() -> None:
    event = "(service myapp) rolling back to deployment ecs-svc/1."
    state = service(deployment(2, rolloutState="FAILED"), events=(event,))
    state.raw["deploymentConfiguration"] = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    assert evaluate_deployment(state, OURS) is HealthVerdict.GOING
    assert evaluate_deployment(state, replace(OURS, known_events=frozenset([event]))) is (
        HealthVerdict.MAYBE_FAILED
    )


def test_nothing_runs_on_purpose_where_our_write_asked_for_nothing() -> None:
    none = OwnDeployment("ecs-svc/2", "myapp:2", "ecs-svc/1", was_observed=True, desired_count=0)
    assert (
        evaluate_deployment(service(deployment(2, desiredCount=0, runningCount=0)), none)
        is HealthVerdict.COMPLETED
    )


@pytest.mark.parametrize(
    ("service_state", "is_by_aws"),
    [
        (service(deployment(1)), False),
        (service(deployment(1), events=("(service myapp) has started 1 tasks",)), False),
        (service(deployment(1), events=("rolling back to deployment ecs-svc/1.",)), True),
        (
            service(
                deployment(
                    1, rolloutStateReason="ECS deployment circuit breaker: rolling back to deploymentId x"
                )
            ),
            True,
        ),
    ],
)
def test_aws_rolled_back_only_where_the_service_says_so(service_state: EcsService, is_by_aws: bool) -> None:
    assert was_rolled_back_by_aws(service_state, OURS) == is_by_aws


def test_an_event_from_before_our_deployment_is_no_evidence() -> None:
    old = "rolling back to deployment ecs-svc/1."
    own_deployment = OwnDeployment(
        "ecs-svc/2", "myapp:2", "ecs-svc/1", True, 3, known_events=frozenset({old})
    )
    assert not was_rolled_back_by_aws(service(deployment(1), events=(old,)), own_deployment)


@pytest.mark.parametrize(
    ("service_state", "verdict", "is_sure"),
    [
        (service(deployment(3)), HealthVerdict.MAYBE_SUPERSEDED, True),
        (service(deployment(3, createdAt=None)), HealthVerdict.MAYBE_SUPERSEDED, False),
        (service(deployment(1)), HealthVerdict.MAYBE_BACK, False),
        (service(status="DRAINING"), HealthVerdict.MAYBE_GONE, True),
        (None, HealthVerdict.MAYBE_GONE, False),
    ],
)
def test_what_a_late_copy_cannot_show_is_certain_at_once(
    service_state: EcsService | None, verdict: HealthVerdict, is_sure: bool
) -> None:
    assert is_verdict_certain(verdict, service_state, OURS) == is_sure


def test_an_earlier_service_of_the_name_says_nothing_of_ours() -> None:
    own_deployment = OwnDeployment(
        "ecs-svc/2", "myapp:2", "ecs-svc/1", True, 3, service_created="2026-11-23T12:00:00+00:00"
    )
    assert not is_verdict_certain(HealthVerdict.MAYBE_GONE, service(status="INACTIVE"), own_deployment)
