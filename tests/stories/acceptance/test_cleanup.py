"""An acceptance run deletes what it created, and nothing else."""

from typing import Any

import pytest

from catalog.models import Environment, Service
from connectors.models import Connector
from ops.acceptance.leftovers import list_leftover_services
from ops.acceptance.resources import IDENTIFIER_PREFIX, AcceptanceRun, choose_scope
from ops.acceptance.runs import AcceptanceResult, create_run, delete_run, find_leftover_runs
from ops.acceptance.targets import AcceptanceImpossible
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.fixtures.engine_driver import Drive
from tests.stories.acceptance.runs import build_target, run_acceptance

pytestmark = pytest.mark.django_db(transaction=True)


class Interruption:
    """Time that passes until somebody presses Ctrl-C, once."""

    def __init__(self, drive: Drive, pauses: int) -> None:
        self.drive, self.pauses = drive, pauses

    def __call__(self, seconds: float) -> None:
        self.pauses -= 1
        if self.pauses == 0:
            raise KeyboardInterrupt
        self.drive.pass_time(seconds)


def count_rows() -> int:
    return sum(
        model.objects.filter(identifier__startswith=IDENTIFIER_PREFIX).count()
        for model in (Pipeline, Service, Environment)
    )


def list_services(drive: Drive) -> list[str]:
    arns: list[str] = drive.call("ecs", "ListServices", {"cluster": "demo"})["serviceArns"]
    return [arn.rpartition("/")[2] for arn in arns]


def create_service(drive: Drive, name: str, tags: list[dict[str, str]]) -> None:
    definition: dict[str, Any] = {
        "family": name,
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        "containerDefinitions": [{"name": "web", "image": "nginx:1.27"}],
    }
    drive.call("ecs", "RegisterTaskDefinition", definition)
    params = {"cluster": "demo", "serviceName": name, "taskDefinition": name, "desiredCount": 0}
    network = {"awsvpcConfiguration": {"subnets": drive.sandbox.seed()["subnets"]}}
    drive.call("ecs", "CreateService", {**params, "networkConfiguration": network, "tags": tags})


def test_an_interrupted_run_aborts_its_execution_and_leaves_nothing(drive: Drive) -> None:
    result = AcceptanceResult(create_run())
    target = build_target(drive, has_load_balancer=False)

    with pytest.raises(KeyboardInterrupt):
        run_acceptance(drive, target, result=result, pause=Interruption(drive, pauses=5))

    assert (result.left, result.is_complete) == ([], False)
    assert list_services(drive) == []
    assert count_rows() == 0


def test_a_connector_of_the_account_gets_a_project_that_is_archived(drive: Drive) -> None:
    Connector.objects.filter(identifier="sandbox_aws").update(scope=Scope.objects.account())
    result = AcceptanceResult(create_run())
    target = build_target(drive, has_load_balancer=False)
    with pytest.raises(AcceptanceImpossible, match="--organization"):
        choose_scope(target.connector, None)
    organization = choose_scope(target.connector, Scope.objects.get(identifier="default"))

    interruption = Interruption(drive, pauses=5)
    with pytest.raises(KeyboardInterrupt):
        run_acceptance(drive, target, result=result, pause=interruption, scope=organization)

    project = Scope.objects.get(identifier=result.run.identifier)
    assert project.archived_at is not None
    assert (list_services(drive), count_rows()) == ([], 0)


def test_what_could_not_be_deleted_is_found_by_a_later_run(drive: Drive) -> None:
    result = AcceptanceResult(create_run())
    target = build_target(drive, has_load_balancer=False)
    drive.sandbox.fault("denied", service="ecs", operation="DeleteService")

    with pytest.raises(KeyboardInterrupt):
        run_acceptance(drive, target, result=result, pause=Interruption(drive, pauses=5))
    assert "ecs:DeleteService" in result.left[0]
    assert find_leftover_runs(target) == [result.run]

    drive.sandbox.clear_faults()
    admin = User.objects.get(username="admin")
    assert delete_run(actor=admin, target=target, run=result.run, pause=drive.pass_time) == []
    assert (find_leftover_runs(target), list_services(drive), count_rows()) == ([], [], 0)


def test_a_service_without_the_tag_of_the_run_is_never_touched(drive: Drive) -> None:
    run = AcceptanceRun("0123abcd")
    create_service(drive, run.aws_name, tags=[])
    create_service(drive, f"{run.aws_name}-bg", tags=[{"key": "slipway:acceptance", "value": "another"}])
    target = build_target(drive)
    assert list_leftover_services(target.caller, "demo") == []

    admin = User.objects.get(username="admin")
    left = delete_run(actor=admin, target=target, run=run, pause=drive.pass_time)

    assert [text for text in left if "has no tag of this run and stays" in text] == left
    assert sorted(list_services(drive)) == [run.aws_name, f"{run.aws_name}-bg"]
