"""Terraform Cloud through a delegate: any that makes requests, with the token lent for each of them."""

import pytest

from delegates.task_queue import route_waiting_tasks
from deployments.models import Execution, StepExecution
from rbac.models import User
from tests.deployments.engine.conftest import Write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.terraform_cloud import TOKEN, Output, TerraformCloudServer
from tests.steps.kinds.conftest import Worker, worker
from tests.stories.terraform_cloud.conftest import run_step, terraform_connector, text_of
from web.clock import get_database_time

__all__ = ["worker"]

pytestmark = pytest.mark.django_db(transaction=True)
THROUGH = {"connect_through": "Delegate", "delegate_selectors": ["scripts"]}


@pytest.fixture
def away(write: Write, drive: Drive, terraform_cloud: TerraformCloudServer, worker: Worker) -> Execution:
    """A run whose requests a delegate makes."""
    terraform_connector(terraform_cloud.url, **THROUGH)
    prepared = write(text_of(run_step()))
    prepared.deployer = User.objects.get(username="admin")
    return prepared.start()


def serve_until_over(drive: Drive, execution: Execution, worker: Worker) -> None:
    for _ in range(300):
        drive.reconcile()
        worker.serve()
        drive.clock.move(1)
        execution.refresh_from_db()
        if execution.is_over:
            return
    raise AssertionError(f"{execution} is still {execution.status}: {drive.log(execution)[-5:]}")


def test_a_delegate_makes_all_requests_with_the_token_that_it_is_lent(
    away: Execution, drive: Drive, terraform_cloud: TerraformCloudServer, worker: Worker
) -> None:
    terraform_cloud.outputs = [Output("cluster_name", "shop")]
    serve_until_over(drive, away, worker)
    assert away.status == "SUCCESS", (away.failure, drive.log(away))
    step = StepExecution.objects.get(stage__execution=away, identifier="provision")
    assert step.outputs["cluster_name"] == "shop"
    requests = [verb for verb, *_ in terraform_cloud.requests]
    assert len(worker.taken_operations) == len(requests)
    assert all(payload.mask == (TOKEN,) for payload in worker.payloads)
    lines = drive.log(away)
    assert lines.count("Apply complete! Resources: 1 added.") == 1


@pytest.mark.parametrize("has_arrived", [True, False])
def test_a_delegate_that_is_lost_with_a_run_leaves_one_run(
    away: Execution, drive: Drive, terraform_cloud: TerraformCloudServer, worker: Worker, has_arrived: bool
) -> None:
    lost = False
    for _ in range(300):
        drive.reconcile()
        route_waiting_tasks(get_database_time())
        while (task := worker.take()) is not None:
            is_run = worker.payloads[-1].params["method"] == "POST" and not lost
            if not is_run or has_arrived:
                answer = worker.perform(task)
            if is_run:
                worker.lose(task)
                lost = True
            else:
                worker.complete(task, answer)
        drive.clock.move(2)
        away.refresh_from_db()
        if away.is_over:
            break
    assert lost
    assert away.status == "SUCCESS", (away.failure, drive.log(away))
    assert [run.status for run in terraform_cloud.runs] == ["applied"]
