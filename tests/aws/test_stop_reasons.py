"""Reasons of stopped tasks: those that a retry can cure, and those longer than AWS ever writes them."""

import pytest

from aws.apis.ecs_types import EcsTask
from aws.stop_reasons import find_cause, find_reason_cause
from tests.fixtures.time_limits import run_within_cpu


def test_a_cause_is_found_soon_in_whatever_a_delegate_answers() -> None:
    reason = "ResourceInitializationError: " + "secret " * 40_000
    task = EcsTask.from_aws({"taskArn": "arn:aws:ecs:eu-west-1:1:task/c/1", "stoppedReason": reason})
    assert run_within_cpu(1, lambda: find_cause(task, None)).code


RESOLVE = (
    "CannotPullContainerError: pull image manifest has been retried 5 time(s): "
    "failed to resolve ref quay.io:5000/x/y:1:"
)
HEAD = "https://quay.io/v2/x/y/manifests/1"
LOGGER = "ResourceInitializationError: failed to validate logger args:"


@pytest.mark.parametrize(
    ("reason", "code", "is_fatal"),
    [
        (
            f'{RESOLVE} failed to do request: Head "{HEAD}": dial tcp 3.210.148.47:443: i/o timeout',
            "IMAGE_PULL_FAILED",
            False,
        ),
        (
            f"{RESOLVE} unexpected status from HEAD request to {HEAD}: 429 Too Many Requests",
            "IMAGE_PULL_FAILED",
            False,
        ),
        (
            f"{RESOLVE} unexpected status from HEAD request to {HEAD}: 503 Service Unavailable",
            "IMAGE_PULL_FAILED",
            False,
        ),
        (f"{RESOLVE} pulling from host quay.io failed: EOF", "IMAGE_PULL_FAILED", False),
        (f"{RESOLVE} quay.io/x/y:1: not found", "IMAGE_NOT_FOUND", True),
        (f"{RESOLVE} unexpected status from HEAD request to {HEAD}: 403 Forbidden", "IMAGE_NOT_FOUND", True),
        (f"{RESOLVE} pull access denied, repository does not exist", "IMAGE_NOT_FOUND", True),
        (
            f"{LOGGER} send request failed: dial tcp 52.1.2.3:443: i/o timeout",
            "RESOURCE_INITIALIZATION",
            False,
        ),
        (
            f"{LOGGER} The task cannot find the log group. There is a connection issue with CloudWatch.",
            "RESOURCE_INITIALIZATION",
            False,
        ),
        (f"{LOGGER} The specified log group does not exist.", "LOG_GROUP_MISSING", True),
    ],
)
def test_a_reason_of_the_network_is_not_fatal_in_the_words_of_a_missing_resource(
    reason: str, code: str, is_fatal: bool
) -> None:
    cause = find_reason_cause(reason, container="web")
    assert cause is not None
    assert (cause.code, cause.fatal) == (code, is_fatal)
