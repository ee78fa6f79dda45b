"""A preview whose reads a delegate makes."""

import pytest
from django.test import Client

from deployments.models import Execution, PreviewRequest
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from tests.deployments.journal.test_delegate_calls import remote
from tests.deployments.preview.comparison import planned
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand

__all__ = ["remote"]
pytestmark = [pytest.mark.django_db(transaction=True)]


def _ask(drive: Drive, tag: str = "1.27") -> PreviewDetails | PreviewRequest:
    return preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag=tag)


def test_a_delegate_reads_for_a_preview_one_call_after_the_other(remote: Drive) -> None:
    one = hand("prod-eu", tags=("prod", "eu"))
    before = remote.mark()
    question = _ask(remote)
    assert isinstance(question, PreviewRequest)
    for _ in range(30):
        one.serve()
    shown = _ask(remote)
    assert isinstance(shown, PreviewDetails)
    assert shown.is_complete
    assert [call for _, call, _ in planned(shown.to_json())] == [
        "ecs:RegisterTaskDefinition",
        "ecs:CreateService",
    ]
    assert remote.effects(before) == []
    assert "DescribeServices" in one.taken
    assert not Execution.objects.exists()
    # Asked again at once, nothing more is read.
    taken = len(one.taken)
    assert isinstance(_ask(remote), PreviewDetails)
    assert (one.serve(), len(one.taken)) == (0, taken)


def test_a_preview_that_no_delegate_can_read_for_says_so(remote: Drive, client: Client) -> None:
    client.force_login(remote.deployer)
    path = f"/pipelines/{remote.pipeline.pk}/preview/"
    shown = client.get(path).content.decode()
    assert "hx-trigger" in shown or "A run would fail here" in shown
    again = client.get(path).content.decode()
    assert "A run would fail here" in again
    assert "prod" in again


def test_the_api_says_that_a_delegate_is_still_at_it(remote: Drive, client: Client) -> None:
    hand("prod-eu", tags=("prod", "eu"))
    client.force_login(remote.deployer)
    answer = client.post(
        f"/api/v1/pipelines/{remote.pipeline.pk}/preview", {}, content_type="application/json"
    )
    assert answer.status_code == 202
    assert answer.json()["reason"]
