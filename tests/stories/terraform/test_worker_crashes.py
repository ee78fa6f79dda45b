"""A worker that dies around an apply: it goes on with what the delegate has done, and notes it once."""

import os

import pytest

from delegates.models import DelegateTask
from deployments.journal import runtime
from deployments.models import AppliedConfiguration, AwsCall
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.steps.kinds.conftest import Worker
from tests.steps.kinds.test_script import serve_until_over
from tests.stories.terraform.conftest import States, needs_terraform, terraform_step

pytestmark = [needs_terraform, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize(
    ("place", "number"),
    [
        ("commit.before", 1),
        ("commit.before", 2),
        ("commit.after", 1),
        ("commit.after", 2),
        ("lease.released", 1),
    ],
)
def test_what_a_delegate_has_applied_is_taken_up_by_the_next_worker(
    write: Write, drive: Drive, worker: Worker, states: States, place: str, number: int
) -> None:
    execution = write(pipeline_text(stage_text(terraform_step(states)))).start()
    for _ in range(20):
        drive.reconcile()
        if worker.serve():
            break
    passes = 0

    def die(name: str) -> None:
        nonlocal passes
        passes += name == place
        if passes == number:
            os._exit(KILLED)

    def doomed() -> None:
        runtime.set_hook(die)
        drive.until_over(execution)

    try:
        assert run_in_fork(doomed) == KILLED
    finally:
        runtime.set_hook(None)
    drive.clock.move(61)
    serve_until_over(drive, execution, worker)
    assert execution.status == "SUCCESS", execution.failure
    assert [row.identifier for row in AppliedConfiguration.objects.all()] == ["network"]
    assert DelegateTask.objects.filter(kind="terraform").count() == 1
    assert AwsCall.objects.get(operation="RunTerraform").send_number == 1
    assert drive.log(execution).count("Applying network with Terraform") == 1
