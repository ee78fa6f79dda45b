"""A rehearsal is refused where it cannot be honest, and by whom may not run the pipeline."""

import pytest
from django.test import Client

from deployments.rehearsal import operations
from deployments.rehearsal.rehearsals import BEHAVIORS, SANDBOX_WAS_LOST
from deployments.rehearsal.results import RehearsalResult
from sandbox.images import BEHAVIORS as SANDBOX_BEHAVIORS
from sandbox.images import DEFAULT_BEHAVIOR
from tests.fixtures.engine_driver import Drive
from web.http.problems import BadInput, Conflict

pytestmark = [pytest.mark.django_db(transaction=True)]


def test_each_behavior_is_one_of_the_sandbox() -> None:
    assert set(BEHAVIORS.values()) <= {*SANDBOX_BEHAVIORS, DEFAULT_BEHAVIOR.name}


def test_a_result_is_unknown_until_a_run_ended() -> None:
    result = RehearsalResult("healthy", {}, reason=SANDBOX_WAS_LOST)
    assert (result.status, result.to_json()["reason"]) == ("UNKNOWN", SANDBOX_WAS_LOST)


def test_another_behavior_or_a_second_rehearsal_is_refused(drive: Drive) -> None:
    choices = {"actor": drive.deployer, "pipeline": drive.pipeline, "artifact_tag": "1.27"}
    with pytest.raises(BadInput):
        operations.rehearse_pipeline(**choices, behavior="nopull")
    with operations._is_running, pytest.raises(Conflict, match="Another rehearsal"):
        operations.rehearse_pipeline(**choices, behavior="healthy")


def test_the_page_offers_a_rehearsal_beside_the_run(drive: Drive, client: Client) -> None:
    client.force_login(drive.deployer)
    page = client.get(f"/pipelines/{drive.pipeline.pk}/preview/").content.decode()
    assert f'formaction="/pipelines/{drive.pipeline.pk}/rehearsal/"' in page
