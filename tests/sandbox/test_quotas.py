"""Enforced quotas throttle calls as AWS does."""

from urllib.error import HTTPError

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import Aws


def count_registrations(aws: Aws, attempts: int) -> int:
    """Return how many of these registrations are not throttled."""
    ecs, count = aws.client("ecs"), 0
    for _ in range(attempts):
        try:
            ecs.register_task_definition(
                family="many", containerDefinitions=[{"name": "web", "image": "web:1", "memory": 64}]
            )
            count += 1
        except ClientError as error:
            if error.response["Error"]["Code"] != "ThrottlingException":
                raise
    return count


def test_calls_beyond_the_published_quota_are_throttled(aws: Aws) -> None:
    assert count_registrations(aws, 24) == 24, "nothing is enforced at first"
    aws.sandbox.enforce_quotas()
    # The quota is 20 at once, and one a second, in which this test makes some of its calls.
    assert 20 <= count_registrations(aws, 30) <= 24
    aws.sandbox.advance(5)
    assert 5 <= count_registrations(aws, 10) <= 8
    aws.sandbox.reset()
    assert count_registrations(aws, 24) == 24


def test_a_switch_that_is_neither_on_nor_off_is_refused(aws: Aws) -> None:
    with pytest.raises(HTTPError, match="400"):
        aws.sandbox.control("POST", "quotas", {"enforced": "yes"})
