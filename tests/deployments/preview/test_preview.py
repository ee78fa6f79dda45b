"""What a preview says is what a run then does: the same writes, step by step."""

import json
from collections.abc import Callable

import pytest
from django.test import Client

from connectors.models import Connector, FileNode
from deployments.models import AwsCall, Execution
from pipelines.models import Pipeline
from tests.deployments.preview.comparison import (
    assert_same,
    list_planned_calls,
    list_recorded_calls,
    load_preview,
)
from tests.fixtures.engine_driver import Drive
from tests.secret_watch import sinks

pytestmark = [pytest.mark.django_db(transaction=True)]


def _create_demo_fixture(identifier: str) -> Callable[[pytest.FixtureRequest], Drive]:
    def create_demo(request: pytest.FixtureRequest) -> Drive:
        drive: Drive = request.getfixturevalue("drive")
        drive.pipeline = Pipeline.objects.get(identifier=identifier)
        return drive

    return create_demo


# A strategy is one row: who deploys with it.
STRATEGIES: dict[str, Callable[[pytest.FixtureRequest], Drive]] = {
    "rolling": _create_demo_fixture("rolling_demo"),
    "canary": _create_demo_fixture("canary_demo"),
    "blue/green": _create_demo_fixture("blue_green_demo"),
    "native": _create_demo_fixture("native_demo"),
    "traffic shift": _create_demo_fixture("traffic_shift_demo"),
    "blue/green of two tasks": lambda request: request.getfixturevalue("shop").drive,
    "run task, the demo": _create_demo_fixture("run_task_demo"),
    "run task": lambda request: request.getfixturevalue("job")(),
}


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_run_sends_the_writes_that_its_preview_lists(request: pytest.FixtureRequest, strategy: str) -> None:
    drive = STRATEGIES[strategy](request)
    for tag in ("done", "done") if strategy.startswith("run task") else ("1.27", "1.28", "1.29"):
        before = drive.mark()
        document = load_preview(drive, tag)
        assert drive.effects(before) == []
        assert [(step["failure"], step["warnings"]) for step in document["steps"]] == [(None, [])] * len(
            document["steps"]
        )
        assert [
            permission["action"] for permission in document["permissions"] if not permission["purpose"]
        ] == []
        execution = drive.run(tag)
        assert execution.status == "SUCCESS"
        assert list_planned_calls(document)
        assert_same(list_planned_calls(document), list_recorded_calls(execution))


def test_a_preview_writes_no_row(drive: Drive) -> None:
    load_preview(drive)
    assert not Execution.objects.exists()
    assert not AwsCall.objects.exists()
    assert Pipeline.objects.get(pk=drive.pipeline.pk).next_number == 1


def test_a_preview_shows_what_differs_and_hides_the_values_of_environments(drive: Drive) -> None:
    _edit_task_definition("environment: []", "environment: [{name: TOKEN, value: s3cret-one}]")
    drive.run("1.27")
    _edit_task_definition("s3cret-one", "s3cret-two")
    (step,) = load_preview(drive, "1.28")["steps"]
    assert step["diff"].startswith("--- fargate-task-definition:1\n+++ fargate-task-definition (new)\n@@")
    changed_lines = [line for line in step["diff"].splitlines() if line.startswith(("+ ", "- "))]
    assert {line.replace(" ", "") for line in changed_lines} == {
        '-"value":"•••"',
        '+"value":"•••(changed)"',
        '-"image":"library/nginx:1.27",',
        '+"image":"library/nginx:1.28",',
    }
    assert "s3cret" not in json.dumps(step)


def test_a_blue_green_preview_compares_with_what_production_runs(request: pytest.FixtureRequest) -> None:
    drive = STRATEGIES["blue/green of two tasks"](request)
    drive.run("1.27")
    assert drive.run("crash").outcome == "ROLLED_BACK"
    create_step, _ = load_preview(drive, "1.28")["steps"]
    assert '-      "image": "library/shop:1.27",' in create_step["diff"].splitlines()


def test_a_preview_tells_counts_in_words_and_the_permissions_of_each_step(drive: Drive) -> None:
    (create_step,) = load_preview(drive)["steps"]
    assert "Service myapp is created with 1 task." in create_step["changes"]
    assert {"ecs:CreateService", "ecs:RegisterTaskDefinition", "iam:PassRole", "ecs:TagResource"} <= {
        *create_step["permissions"]
    }
    assert "ecs:UpdateService" not in create_step["permissions"]
    drive.run("1.27")
    (update_step,) = load_preview(drive, "1.28")["steps"]
    assert "Service myapp keeps its desired count of 1." in update_step["changes"]


def test_a_preview_names_the_permission_that_is_missing(drive: Drive) -> None:
    drive.sandbox.fault("denied", service="ecs", operation="DescribeServices", count=1)
    (step,) = load_preview(drive)["steps"]
    assert step["failure"]["action"] == "ecs:DescribeServices"
    assert step["calls"] == []


def test_a_preview_says_what_iam_allows_and_what_it_does_not(drive: Drive) -> None:
    drive.sandbox.fault("denied", service="ecs", operation="CreateService")
    document = load_preview(drive)
    decisions = {permission["action"]: permission["allowed"] for permission in document["permissions"]}
    assert decisions.pop("ecs:CreateService") == "denied"
    assert set(decisions.values()) == {"allowed"}
    assert document["unasked"] == []


def test_a_preview_says_when_iam_may_not_be_asked(drive: Drive) -> None:
    drive.sandbox.fault("denied", service="iam", operation="SimulatePrincipalPolicy", count=1)
    document = load_preview(drive)
    assert {permission["allowed"] for permission in document["permissions"]} == {"unknown"}
    assert document["unasked"] == [
        "IAM could not be asked what is allowed: iam:SimulatePrincipalPolicy is not."
    ]


def test_what_a_preview_tells_hides_the_secret_of_the_connector(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Somebody has written it into a file, where it does lie in the clear.
    monkeypatch.setattr(sinks, "insists", False)
    secret = Connector.objects.get(identifier="sandbox_aws").secret
    assert secret is not None
    secret.value = "written-where-it-must-not-be"
    secret.save()
    _edit_task_definition("family: fargate-task-definition", f"family: x-{secret.value}-x")
    (step,) = load_preview(drive)["steps"]
    texts = json.dumps([step["log"], step["failure"], step["warnings"]], ensure_ascii=False)
    assert "x-•••-x" in texts
    assert secret.value not in texts


def test_a_preview_refuses_a_bad_manifest_as_a_run_would(drive: Drive) -> None:
    _edit_task_definition("networkMode: awsvpc", "networkMod: awsvpc")
    (step,) = load_preview(drive)["steps"]
    assert step["failure"]["code"] == "BAD_MANIFEST"
    assert "networkMod" in step["failure"]["message"]


def _edit_task_definition(old: str, new: str) -> None:
    node = FileNode.objects.get(path="/ECS Tutorial/RegisterTaskDefinitionRequest.yaml")
    assert old in node.content, node.content
    node.content = node.content.replace(old, new)
    node.save()


def test_the_api_takes_what_a_run_takes_and_nothing_else(drive: Drive, client: Client) -> None:
    address = f"/api/v1/pipelines/{drive.pipeline.pk}/preview"
    client.force_login(drive.deployer)
    body = {"artifact": {"tag": "1.28"}, "inputs": {}}
    response_body = client.post(address, body, content_type="application/json").json()
    assert response_body["artifact"]["tag"] == "1.28"
    response = client.post(address, {"artefact": {"tag": "1.28"}}, content_type="application/json")
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == "artefact"
