"""An acceptance run deletes what it created, and nothing else."""

from typing import Any

import pytest
from django.db.models import F

from catalog.models import Environment, Service
from connectors.models import Connector
from deployments.models import Execution
from ops.acceptance.deletions import delete_run, find_leftover_runs
from ops.acceptance.leftovers import list_leftover_services
from ops.acceptance.operations import cancel_run, delete_leftovers
from ops.acceptance.resources import IDENTIFIER_PREFIX, RunKey, choose_scope
from ops.acceptance.runs import MAX_FAILED_PASSES, LeaseLost, RunPass
from ops.acceptance.targets import AcceptanceImpossible
from ops.backups.restores import settle_restored_state
from ops.models import AcceptanceRun
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.fixtures.engine_driver import Drive
from tests.stories.acceptance.runs import MAX_PASSES, build_target, make_passes, start_acceptance
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)


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


def cancel(run: AcceptanceRun) -> None:
    cancel_run(actor=User.objects.get(username="admin"), run=run)


def test_a_canceled_run_aborts_its_execution_and_leaves_nothing(drive: Drive) -> None:
    run = make_passes(drive, start_acceptance(build_target(drive, has_load_balancer=False)), 5)
    assert run.progress["scenario"]["scenario"] == "first"

    cancel(run)
    with pytest.raises(Conflict):
        cancel(run)
    make_passes(drive, run, MAX_PASSES)

    assert (run.status, run.left, run.is_complete) == ("ABORTED", [], False)
    assert (list_services(drive), count_rows()) == ([], 0)


def test_a_run_whose_worker_dies_again_and_again_is_cleaned_up(drive: Drive) -> None:
    run = make_passes(drive, start_acceptance(build_target(drive, has_load_balancer=False)), 5)

    # As workers leave a row that are killed within their pass.
    AcceptanceRun.objects.filter(pk=run.pk).update(failed_passes=MAX_FAILED_PASSES)
    make_passes(drive, run, MAX_PASSES)

    assert (run.status, run.left) == ("FAILED", [])
    assert "did not come to their end" in run.problem
    assert (list_services(drive), count_rows()) == ([], 0)


def test_a_worker_that_is_slow_writes_nothing_after_another_has_taken_over(drive: Drive) -> None:
    run = make_passes(drive, start_acceptance(build_target(drive, has_load_balancer=False)), 1)
    # The slow worker of the second pass has created no scenario yet when another claims the run.
    AcceptanceRun.objects.filter(pk=run.pk).update(fence=F("fence") + 1)
    with pytest.raises(LeaseLost):
        RunPass(run, drive.clock.now()).perform()

    assert Pipeline.objects.filter(identifier__startswith=IDENTIFIER_PREFIX).count() == 0
    make_passes(drive, run, 1)
    assert Pipeline.objects.filter(identifier__startswith=IDENTIFIER_PREFIX).count() == 1


def test_a_second_run_in_the_cluster_is_refused_until_the_first_has_ended(drive: Drive) -> None:
    target = build_target(drive, has_load_balancer=False)
    run = make_passes(drive, start_acceptance(target), 3)
    with pytest.raises(Conflict, match="Another acceptance run uses the cluster demo"):
        start_acceptance(target)
    # It is no leftover, so nobody deletes it.
    assert find_leftover_runs(target) == []

    cancel(run)
    make_passes(drive, run, MAX_PASSES)
    assert start_acceptance(target).status == "RUNNING"


def test_a_connector_of_the_account_gets_a_project_that_is_archived(drive: Drive) -> None:
    Connector.objects.filter(identifier="sandbox_aws").update(scope=Scope.objects.account())
    target = build_target(drive, has_load_balancer=False)
    with pytest.raises(AcceptanceImpossible, match="Name the organization"):
        choose_scope(target.connector, None)
    organization = choose_scope(target.connector, Scope.objects.get(identifier="default"))

    run = make_passes(drive, start_acceptance(target, scope=organization), 5)
    project = Scope.objects.get(identifier=RunKey(run.key).identifier)
    assert run.scope == project
    cancel(run)
    make_passes(drive, run, MAX_PASSES)

    project.refresh_from_db()
    assert project.archived_at is not None
    assert (list_services(drive), count_rows()) == ([], 0)


def test_what_could_not_be_deleted_is_deleted_on_request(drive: Drive) -> None:
    target = build_target(drive, has_load_balancer=False)
    run = make_passes(drive, start_acceptance(target), 5)
    drive.sandbox.fault("denied", service="ecs", operation="DeleteService")
    cancel(run)
    make_passes(drive, run, MAX_PASSES)
    assert "ecs:DeleteService" in run.left[0]
    assert find_leftover_runs(target) == [RunKey(run.key)]

    drive.sandbox.clear_faults()
    delete_leftovers(actor=User.objects.get(username="admin"), run=run)
    make_passes(drive, run, MAX_PASSES)

    assert (run.status, run.left) == ("ABORTED", [])
    assert (find_leftover_runs(target), list_services(drive), count_rows()) == ([], [], 0)


def test_a_later_run_deletes_what_an_earlier_one_left(drive: Drive) -> None:
    target = build_target(drive, has_load_balancer=False)
    earlier = make_passes(drive, start_acceptance(target), 5)
    drive.sandbox.fault("denied", service="ecs", operation="DeleteService")
    cancel(earlier)
    make_passes(drive, earlier, MAX_PASSES)
    drive.sandbox.clear_faults()

    leftovers = tuple(find_leftover_runs(target))
    run = start_acceptance(target, leftovers=leftovers)
    while run.progress["leftovers"]:
        make_passes(drive, run, 1)

    assert leftovers == (RunKey(earlier.key),)
    assert (find_leftover_runs(target), list_services(drive)) == ([], [])


def test_a_service_without_the_tag_of_the_run_is_never_touched(drive: Drive) -> None:
    run = RunKey("0123abcd")
    create_service(drive, run.aws_name, tags=[])
    create_service(drive, f"{run.aws_name}-bg", tags=[{"key": "slipway:acceptance", "value": "another"}])
    target = build_target(drive)
    assert list_leftover_services(target.caller, "demo") == []

    admin = User.objects.get(username="admin")
    left = delete_run(actor=admin, target=target, run=run, pause=drive.pass_time)

    assert [text for text in left if "has no tag of this run and stays" in text] == left
    assert sorted(list_services(drive)) == [run.aws_name, f"{run.aws_name}-bg"]


def test_what_a_restored_run_created_is_deleted_on_request(drive: Drive) -> None:
    target = build_target(drive, has_load_balancer=False)
    run = make_passes(drive, start_acceptance(target), 5)
    settle_restored_state(drive.clock.now(), {})
    make_passes(drive, run, 2)
    assert (run.status, count_rows() > 0) == ("UNKNOWN", True)

    delete_leftovers(actor=User.objects.get(username="admin"), run=run)
    make_passes(drive, run, 60)

    assert (run.status, run.left) == ("FAILED", [])
    assert Execution.objects.get().status == "ABORTED"
    assert (list_services(drive), count_rows()) == ([], 0)
