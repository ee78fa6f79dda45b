"""How often a service deployment is checked, and how late its end is seen."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from aws.apis.ecs_types import ServiceDeployment
from steps.actions.ecs_service.check_intervals import LONG_INTERVAL, get_interval

SHIFTS = ("POST_SCALE_UP", "TEST_TRAFFIC_SHIFT", "PRODUCTION_TRAFFIC_SHIFT", "POST_PRODUCTION_TRAFFIC_SHIFT")


def build(stage: str, *, status: str = "IN_PROGRESS", **fields: Any) -> ServiceDeployment:
    return ServiceDeployment.from_aws({"status": status, "lifecycleStage": stage, **fields})


def get_seconds(deployment: ServiceDeployment, age: float = 0) -> float:
    return get_interval(deployment, timedelta(seconds=age)).total_seconds()


def list_checks(scale_up: float, bake_minutes: float) -> tuple[list[float], float]:
    """Return when a deployment is checked, the last time after its end, and when it ended."""
    stages: list[tuple[str, float]] = [("SCALE_UP", scale_up), *((stage, 2.5) for stage in SHIFTS)]
    stages += [("BAKE_TIME", 60 * bake_minutes + 2), ("CLEAN_UP", 10)]
    end = sum(seconds for _, seconds in stages)
    checks, first_seen = [LONG_INTERVAL.total_seconds()], {}
    while (now := checks[-1]) < end:
        stage = _find_stage(stages, now)
        deployment = build(stage, deploymentConfiguration={"bakeTimeInMinutes": bake_minutes})
        checks.append(now + get_seconds(deployment, now - first_seen.setdefault(stage, now)))
    return checks, end


def _find_stage(stages: list[tuple[str, float]], moment: float) -> str:
    for stage, seconds in stages:
        if moment < seconds:
            return stage
        moment -= seconds
    return stages[-1][0]


def list_lateness() -> Iterator[float]:
    for tenths in range(100, 3000, 7):
        for bake_minutes in (0, 1, 5):
            checks, end = list_checks(tenths / 10, bake_minutes)
            yield checks[-1] - end


def test_the_end_of_a_success_is_seen_within_five_and_a_half_seconds_in_95_of_100_cases() -> None:
    lateness = sorted(list_lateness())
    assert lateness[int(len(lateness) * 0.95)] <= 5.5


def test_a_bake_time_of_an_hour_costs_at_most_two_checks_a_minute() -> None:
    checks, end = list_checks(40, 60)
    assert len(checks) <= 2 * end / 60 + 8


@pytest.mark.parametrize(
    ("deployment", "seconds"),
    [
        (build("SCALE_UP"), 20),
        (build(""), 20),
        (build("POST_TEST_TRAFFIC_SHIFT"), 10),
        (build("A_NEW_STAGE"), 10),
        (
            build(
                "PRODUCTION_TRAFFIC_SHIFT", targetServiceRevision={"requestedProductionTrafficWeight": 10.0}
            ),
            20,
        ),
        (build("POST_SCALE_UP", lifecycleHookDetails=[{"hookId": "h", "status": "AWAITING_ACTION"}]), 20),
        (build("BAKE_TIME", deploymentConfiguration={"bakeTimeInMinutes": 5}), 30),
        (
            build("BAKE_TIME", deploymentConfiguration={"bakeTimeInMinutes": 5, "alarms": {"enable": True}}),
            10,
        ),
        (build("CLEAN_UP"), 5),
        (build("BAKE_TIME", status="ROLLBACK_IN_PROGRESS"), 5),
        (build("BAKE_TIME", status="A_NEW_STATUS"), 5),
    ],
)
def test_checks_are_close_where_the_end_may_come(deployment: ServiceDeployment, seconds: float) -> None:
    assert get_seconds(deployment) == seconds
