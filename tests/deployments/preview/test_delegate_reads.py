"""A preview whose reads a delegate makes."""

from datetime import timedelta

import pytest
from django.test import Client

from catalog.models import Infrastructure
from deployments.models import Execution, PreviewRequest
from deployments.preview import step_context
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from tests.deployments.engine.conftest import pipeline_text, stage_text
from tests.deployments.journal.test_delegate_calls import remote
from tests.deployments.preview.comparison import list_planned_calls
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from web.clock import get_database_time

__all__ = ["remote"]
pytestmark = [pytest.mark.django_db(transaction=True)]


def _request_preview(drive: Drive, tag: str = "1.27") -> PreviewDetails | PreviewRequest:
    return preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag=tag)


def test_a_delegate_reads_for_a_preview_one_call_after_the_other(remote: Drive) -> None:
    hand_agent = hand("prod-eu", tags=("prod", "eu"))
    before = remote.mark()
    question = _request_preview(remote)
    assert isinstance(question, PreviewRequest)
    for _ in range(30):
        hand_agent.serve()
    details = _request_preview(remote)
    assert isinstance(details, PreviewDetails)
    assert details.is_complete
    assert [call for _, call, _ in list_planned_calls(details.to_json())] == [
        "ecs:RegisterTaskDefinition",
        "ecs:CreateService",
    ]
    assert remote.effects(before) == []
    assert "DescribeServices" in hand_agent.taken_operations
    assert not Execution.objects.exists()
    # Asked again at once, nothing more is read.
    taken_count = len(hand_agent.taken_operations)
    assert isinstance(_request_preview(remote), PreviewDetails)
    assert (hand_agent.serve(), len(hand_agent.taken_operations)) == (0, taken_count)


def test_a_preview_that_no_delegate_can_read_for_says_so(remote: Drive, client: Client) -> None:
    client.force_login(remote.deployer)
    path = f"/pipelines/{remote.pipeline.pk}/preview/"
    page = client.get(path).content.decode()
    assert "hx-trigger" in page or "A run would fail here" in page
    second_page = client.get(path).content.decode()
    assert "A run would fail here" in second_page
    assert "prod" in second_page


def test_the_api_says_that_a_delegate_is_still_at_it(remote: Drive, client: Client) -> None:
    hand("prod-eu", tags=("prod", "eu"))
    client.force_login(remote.deployer)
    response = client.post(
        f"/api/v1/pipelines/{remote.pipeline.pk}/preview", {}, content_type="application/json"
    )
    assert response.status_code == 202
    assert response.json()["reason"]


def test_a_preview_with_metrics_reads_each_answer_once(
    remote: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    metric = "{namespace: App, metricName: Errors, dimensions: {A: b}, statistic: Sum, threshold: 3}"
    spec = f"{{metrics: [{metric}], duration: 5m}}"
    steps = "".join(
        f"- step: {{identifier: {name}, type: Verify, spec: {spec}}}\n" for name in ("check", "recheck")
    )
    remote.pipeline.yaml = pipeline_text(stage_text(steps))
    remote.pipeline.save()
    hand_agent = hand("prod-eu", tags=("prod", "eu"))
    _request_preview(remote, "1.27")
    for seconds in range(30):
        later = get_database_time() + timedelta(seconds=seconds)
        monkeypatch.setattr(step_context, "get_database_time", lambda later=later: later)
        hand_agent.serve()
    details = _request_preview(remote, "1.27")
    assert isinstance(details, PreviewDetails)
    assert hand_agent.taken_operations.count("GetMetricData") == 2


def test_a_preview_that_took_more_than_a_minute_is_returned_and_not_started_again(remote: Drive) -> None:
    hand_agent = hand("prod-eu", tags=("prod", "eu"))
    _request_preview(remote)
    PreviewRequest.objects.update(requested_at=get_database_time() - timedelta(seconds=70))
    assert isinstance(_request_preview(remote), PreviewRequest)
    assert PreviewRequest.objects.count() == 1
    for _ in range(30):
        hand_agent.serve()
    PreviewRequest.objects.update(requested_at=get_database_time() - timedelta(seconds=100))
    assert isinstance(_request_preview(remote), PreviewDetails)


def test_a_preview_after_a_change_of_the_infrastructure_reads_again_at_once(remote: Drive) -> None:
    hand_agent = hand("prod-eu", tags=("prod", "eu"))
    place = Infrastructure.objects.get(identifier="sandbox", environment__identifier="dev")
    Infrastructure.objects.filter(pk=place.pk).update(cluster="missing")
    _request_preview(remote)
    for _ in range(30):
        hand_agent.serve()
    failed = _request_preview(remote)
    assert isinstance(failed, PreviewDetails)
    assert not failed.is_complete
    Infrastructure.objects.filter(pk=place.pk).update(cluster=place.cluster)
    assert isinstance(_request_preview(remote), PreviewRequest)
    for _ in range(30):
        hand_agent.serve()
    details = _request_preview(remote)
    assert isinstance(details, PreviewDetails)
    assert details.is_complete
