"""A service may name a task definition that AWS has already (R161, R162)."""

from typing import Any

import pytest

from catalog.models import Manifest, Service
from deployments.models import Execution
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def known_arn(drive: Drive) -> str:
    """The ARN of a revision that runs as myapp."""
    drive.run("1.27")
    return str(drive.service()["taskDefinition"])


def _by_arn(arn: str) -> None:
    manifest = Service.objects.get(identifier="myapp").manifests.get(kind=Manifest.Kind.TASK_DEFINITION)
    manifest.store, manifest.paths, manifest.content = "TaskDefinitionArn", [], arn
    manifest.save()


def _force(drive: Drive, value: str) -> None:
    drive.pipeline.yaml = drive.pipeline.yaml.replace("spec: {}", f"spec: {{forceNewDeployment: {value}}}", 1)
    drive.pipeline.save(update_fields=["yaml"])


def _updates(drive: Drive, execution: Execution) -> list[dict[str, Any]]:
    return [c.parsed_parameters for c in drive.calls(execution) if c.operation == "UpdateService"]


def test_it_is_deployed_anew_and_neither_registered_nor_deregistered(drive: Drive, known_arn: str) -> None:
    _by_arn(known_arn)
    before = drive.service()["deployments"][0]["id"]
    mark = drive.mark()
    execution = drive.run()
    assert execution.outcome == "COMPLETED"
    assert "RegisterTaskDefinition" not in drive.effects(mark)
    assert _updates(drive, execution)[0]["forceNewDeployment"] is True
    assert drive.service()["deployments"][0]["id"] != before
    assert f"Using Task Definition with Arn {known_arn}" in drive.log(execution)
    assert "Fetching EcsTaskDefinition from task definition ARN" in drive.log(execution)


def test_a_rollback_leaves_it_registered(drive: Drive, known_arn: str) -> None:
    drive.run("1.28")
    now = drive.service()["taskDefinition"]
    crashing = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": known_arn})["taskDefinition"]
    kept_keys = ("family", "networkMode", "cpu", "memory", "requiresCompatibilities", "executionRoleArn")
    definition = {key: crashing[key] for key in kept_keys}
    containers = [{**crashing["containerDefinitions"][0], "image": "library/nginx:crash"}]
    response = drive.call("ecs", "RegisterTaskDefinition", {**definition, "containerDefinitions": containers})
    arn = response["taskDefinition"]["taskDefinitionArn"]
    _by_arn(arn)
    execution = drive.run()
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK")
    assert drive.service()["taskDefinition"] == now
    described = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": arn})["taskDefinition"]
    assert described["status"] == "ACTIVE"


@pytest.mark.parametrize(("force", "forces"), [("true", True), ("false", False)])
def test_what_the_step_says_of_a_new_deployment_counts(
    drive: Drive, known_arn: str, force: str, forces: bool
) -> None:
    _by_arn(known_arn)
    _force(drive, force)
    execution = drive.run()
    assert execution.outcome == "COMPLETED"
    assert _updates(drive, execution)[0].get("forceNewDeployment", False) is forces


def test_without_an_arn_nothing_is_forced_unless_the_step_says_so(drive: Drive) -> None:
    drive.run("1.27")
    assert "forceNewDeployment" not in _updates(drive, drive.run("1.28"))[0]
    _force(drive, "true")
    assert _updates(drive, drive.run("1.27"))[0]["forceNewDeployment"] is True


def test_one_that_does_not_exist_or_is_inactive_is_named_before_anything_changes(
    drive: Drive, known_arn: str
) -> None:
    missing_arn = known_arn.rsplit(":", 1)[0] + ":77"
    _by_arn(missing_arn)
    mark = drive.mark()
    execution = drive.run()
    assert execution.failure["code"] == "TASK_DEFINITION_MISSING"
    assert missing_arn in execution.failure["message"]
    drive.call("ecs", "DeregisterTaskDefinition", {"taskDefinition": known_arn})
    _by_arn(known_arn)
    execution = drive.run()
    assert execution.failure["code"] == "TASK_DEFINITION_INACTIVE"
    assert drive.effects(mark) == ["DeregisterTaskDefinition"]
