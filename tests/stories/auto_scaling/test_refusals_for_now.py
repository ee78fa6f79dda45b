"""Application Auto Scaling refuses some changes only for now: they are tried again."""

from collections.abc import Mapping
from typing import Any

import pytest
from botocore.exceptions import ClientError

from aws.caller import BotoCaller
from aws.responses import convert_error
from tests.fixtures.engine_driver import Drive
from tests.stories.auto_scaling.conftest import AutoScaling, tracking

pytestmark = pytest.mark.django_db(transaction=True)
REFUSALS = [
    ("RegisterScalableTarget", "ConcurrentUpdateException", "You already have a pending update."),
    ("PutScalingPolicy", "ConcurrentUpdateException", "You already have a pending update."),
    # RegisterScalableTarget of the API: a new target may be unknown to the next calls.
    ("PutScalingPolicy", "ObjectNotFoundException", "No scalable target registered for namespace: ecs."),
]


@pytest.mark.parametrize(("refused", "code", "message"), REFUSALS)
def test_a_change_that_is_refused_for_now_is_tried_again(
    drive: Drive,
    scaling: AutoScaling,
    monkeypatch: pytest.MonkeyPatch,
    refused: str,
    code: str,
    message: str,
) -> None:
    left, send = [1, 2], BotoCaller._send_once

    def refuse_twice(
        caller: BotoCaller, service: str, operation: str, params: Mapping[str, Any]
    ) -> dict[str, Any]:
        if operation != refused or not left:
            return send(caller, service, operation, params)
        left.pop()
        answer: Any = {"Error": {"Code": code, "Message": message}}
        raise convert_error(ClientError(answer, operation), service, operation)

    monkeypatch.setattr(BotoCaller, "_send_once", refuse_twice)
    scaling.set_manifests(tracking("cpu", 60), bounds=(1, 4))
    execution = drive.run("1.27")
    assert execution.outcome == "COMPLETED", execution.failure
    assert not left
    assert list(scaling.policies) == ["cpu"]
    assert scaling.target is not None
