"""What would be undone is shown before anybody decides: in words, newest change first, and truthfully."""

import pytest
from rest_framework.test import APIClient

from deployments.models import Execution
from pipelines.models import Pipeline
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def _get_plan(client: APIClient, execution: Execution) -> tuple[list[str], str]:
    body = client.get(f"/api/v1/executions/{execution.pk}/undo-plan").json()
    return [change["words"] for change in body["changes"]], body["note"]


def test_a_running_deployment_tells_its_changes_as_it_makes_them(drive: Drive, client: APIClient) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    assert _get_plan(client, execution) == (
        [],
        "This execution has made no changes that a rollback would undo.",
    )
    drive.pass_time(12)
    assert _get_plan(client, execution) == (
        [
            "Service myapp: task definition fargate-task-definition:2 back to fargate-task-definition:1",
            "Deregister task definition fargate-task-definition:2",
        ],
        "",
    )


def test_a_service_that_was_created_would_be_deleted(drive: Drive, client: APIClient) -> None:
    descriptions, _ = _get_plan(client, drive.run("1.27"))
    assert descriptions[0] == "Delete Service myapp with its tasks: created by this execution"


def test_what_was_rolled_back_has_nothing_left_to_undo(drive: Drive, client: APIClient) -> None:
    drive.run("1.27")
    assert _get_plan(client, drive.run("crash"))[0] == []


def test_of_an_older_execution_the_version_that_is_deployed_again_is_named(
    drive: Drive, client: APIClient
) -> None:
    first = drive.run("1.26")
    older = drive.run("1.27")
    drive.run("1.28")

    changes, note = _get_plan(client, older)
    assert changes == []
    assert note.endswith("A new execution deploys the version before this one again, with the tag 1.26.")
    assert "no earlier execution succeeded" in _get_plan(client, first)[1]


def test_changes_that_no_rollback_step_undoes_are_not_promised(drive: Drive, client: APIClient) -> None:
    text, separator, _ = drive.pipeline.yaml.partition("rollbackSteps:")
    assert separator
    drive.pipeline.yaml = f"{text.rstrip()}\n"
    drive.pipeline.save(update_fields=["yaml"])
    descriptions, note = _get_plan(client, drive.run("1.27"))
    assert descriptions == []
    assert note.startswith("The stage has no matching rollback step")


def test_of_a_swap_traffic_goes_back_before_anything_is_deleted(drive: Drive, client: APIClient) -> None:
    drive.pipeline = Pipeline.objects.get(identifier="blue_green_demo")
    drive.run("1.27")
    descriptions, _ = _get_plan(client, drive.run("1.28"))
    assert descriptions == [
        "Service storefront__1: restore desired count 1 (now 0)",
        "Tag BG_VERSION of Service storefront__2: back to GREEN",
        "Tag BG_VERSION of Service storefront__1: back to BLUE",
        "Prod listener, default rule of port 80: back to target group target2",
        "Stage listener, default rule of port 8080: back to target group target1",
        "Delete Service storefront__2 with its tasks: created by this execution",
        "Deregister task definition storefront:2",
    ]
