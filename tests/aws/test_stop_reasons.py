"""Reasons of stopped tasks that are longer than AWS ever writes them."""

from aws.apis.ecs_types import EcsTask
from aws.stop_reasons import find_cause
from tests.fixtures.time_limits import run_within_cpu


def test_a_cause_is_found_soon_in_whatever_a_delegate_answers() -> None:
    reason = "ResourceInitializationError: " + "secret " * 40_000
    task = EcsTask.from_aws({"taskArn": "arn:aws:ecs:eu-west-1:1:task/c/1", "stoppedReason": reason})
    assert run_within_cpu(1, lambda: find_cause(task, None)).code
