"""Terraform Cloud in trouble, and workers that die: one run is made, confirmed once, and told once."""

import os

import pytest

from deployments.journal import runtime
from deployments.models import AwsCall
from tests.deployments.engine.conftest import Write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.terraform_cloud import Fault, TerraformCloudServer
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.stories.terraform_cloud.conftest import run_step, text_of

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(
    ("fault", "run_count", "confirmed"),
    [
        (Fault("GET", "runs/run-1", 503, times=3), 1, 1),
        (Fault("GET", "runs/run-1", 429, times=3), 1, 1),
        (Fault("GET", "organizations/.*", 502), 1, 1),
        (Fault("POST", "runs", 429), 2, 1),
        (Fault("POST", "runs", 503), 2, 1),
        (Fault("POST", "runs", is_lost=True), 1, 1),
        (Fault("POST", "runs/run-1/actions/apply", is_lost=True), 1, 1),
        (Fault("POST", "runs/run-1/actions/apply", 500), 1, 2),
        (Fault("GET", "workspaces/ws-1/current-state-version-outputs", 503, times=2), 1, 1),
    ],
    ids=lambda value: f"{value.method} {value.path} {value.status}" if isinstance(value, Fault) else "",
)
def test_what_was_not_answered_is_asked_again_and_never_done_twice(
    ready: Write, terraform_cloud: TerraformCloudServer, fault: Fault, run_count: int, confirmed: int
) -> None:
    terraform_cloud.faults.append(fault)
    execution = ready(text_of(run_step())).run()
    assert execution.status == "SUCCESS", execution.failure
    assert [run.status for run in terraform_cloud.runs] == ["applied"]
    assert len(terraform_cloud.sent("POST", "^runs$")) == run_count
    assert len(terraform_cloud.sent("POST", "/apply$")) == confirmed


def test_trouble_is_told_once_with_whose_it_is(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.faults.append(Fault("GET", "runs/run-1", 503, times=3))
    lines = drive.log(ready(text_of(run_step())).run())
    assert lines.count("Terraform Cloud has a server error (503). Slipway tries again.") == 1


@pytest.mark.parametrize("number", range(4))
@pytest.mark.parametrize("place", ["call.before_sent", "call.sent", "call.answered"])
def test_a_worker_that_dies_leaves_one_run_that_the_next_goes_on_with(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer, place: str, number: int
) -> None:
    execution = ready(text_of(run_step())).start()
    passes: list[str] = []

    def die(name: str) -> None:
        if name == place:
            passes.append(name)
            if len(passes) > number:
                os._exit(KILLED)

    def doomed() -> None:
        runtime.set_hook(die)
        drive.until_over(execution)

    try:
        died = run_in_fork(doomed) == KILLED
    finally:
        runtime.set_hook(None)
    assert died or number > 1
    drive.clock.move(61)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", (execution.failure, drive.log(execution))
    assert [run.status for run in terraform_cloud.runs] == ["applied"]
    lines = drive.log(execution)
    assert lines.count("aws_ecs_cluster.main will be created") == 1, lines
    assert lines.count("Run run-1 is created in workspace acme/network") == 1, lines
    assert not AwsCall.objects.filter(execution=execution, state__in=("SENT", "UNKNOWN")).exists()
