"""A write leaves before its moment or not at all, whatever took the time before it."""

import time

import pytest

from aws.caller import BotoCaller
from aws.clients import AccessKey, SendDeadlinePassed, send_deadline
from tests.aws.conftest import Endpoint

KEY = AccessKey("AKIAEXAMPLE", "secret")


def test_a_write_whose_moment_has_passed_does_not_leave(endpoint: Endpoint) -> None:
    caller = BotoCaller(KEY, "us-east-1", endpoint.url)
    with pytest.raises(SendDeadlinePassed) as late, send_deadline(time.monotonic() - 0.001):
        caller.call("ecs", "UpdateService", {"service": "web"})
    assert endpoint.requests == []
    assert not late.value.may_have_happened


def test_a_write_in_time_and_a_read_at_any_time_leave(endpoint: Endpoint) -> None:
    endpoint.answer(200, '{"clusterArns": []}')
    caller = BotoCaller(KEY, "us-east-1", endpoint.url)
    with send_deadline(time.monotonic() + 60):
        caller.call("ecs", "DeleteService", {"service": "web"})
    with send_deadline(time.monotonic() - 1):
        caller.call("ecs", "ListClusters", {})
    caller.call("ecs", "DeleteService", {"service": "web"})
    assert len(endpoint.requests) == 3
