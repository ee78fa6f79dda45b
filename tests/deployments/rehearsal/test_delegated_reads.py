"""A rehearsal whose cluster a delegate reads, and whose steps reach the sandbox alone."""

import pytest
from django.test import Client

from deployments.models import Execution, PreviewRequest
from deployments.rehearsal.operations import rehearse_pipeline
from deployments.rehearsal.results import RehearsalResult
from tests.deployments.journal.test_delegate_calls import remote
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand

__all__ = ["remote"]
pytestmark = [pytest.mark.django_db(transaction=True)]
READS = ("Describe", "Get", "List", "Simulate")


def _rehearse(drive: Drive, behavior: str = "healthy") -> RehearsalResult | PreviewRequest:
    return rehearse_pipeline(
        actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.27", behavior=behavior
    )


def test_a_delegate_reads_the_cluster_and_writes_nothing(remote: Drive) -> None:
    hand_agent = hand("prod-eu", tags=("prod", "eu"))
    before = remote.mark()
    question = _rehearse(remote)
    assert isinstance(question, PreviewRequest)
    for _ in range(60):
        hand_agent.serve()
    rehearsed = _rehearse(remote)
    assert isinstance(rehearsed, RehearsalResult)
    assert (rehearsed.status, rehearsed.reason) == ("SUCCEEDED", "")
    assert "DescribeClusters" in hand_agent.taken_operations
    assert [name for name in hand_agent.taken_operations if not name.startswith(READS)] == []
    assert remote.effects(before) == []
    assert not Execution.objects.exists()
    # Another behavior meets the same reads, as nothing is read again at once.
    taken_count = len(hand_agent.taken_operations)
    crashed = _rehearse(remote, "crashes")
    assert isinstance(crashed, RehearsalResult)
    assert crashed.status == "FAILED"
    assert len(hand_agent.taken_operations) == taken_count


def test_api_and_page_say_that_a_delegate_is_still_reading(remote: Drive, client: Client) -> None:
    hand("prod-eu", tags=("prod", "eu"))
    client.force_login(remote.deployer)
    body = {"artifact": {"tag": "1.27"}, "behavior": "healthy"}
    response = client.post(
        f"/api/v1/pipelines/{remote.pipeline.pk}/rehearsal", body, content_type="application/json"
    )
    assert (response.status_code, response["Retry-After"]) == (202, "1")
    form = {"tag": "1.27", "behavior": "healthy"}
    page = client.post(f"/pipelines/{remote.pipeline.pk}/rehearsal/", form).content.decode()
    assert "A delegate is reading the AWS account for this rehearsal" in page
