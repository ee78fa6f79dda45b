"""A worker that dies as it settles where a stage deploys: another one settles it, once."""

import inspect
import os

import pytest

from deployments.journal import runtime
from deployments.models import StageExecution
from tests.deployments.engine.conftest import Write, pipeline_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.stories.cloudformation.conftest import create_step
from tests.stories.provisioning.conftest import Place, staged

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.mark.parametrize(("at", "settled"), [("commit.before", ""), ("commit.after", "made")])
def test_a_place_is_settled_once_wherever_a_worker_dies(
    write: Write, drive: Drive, place: Place, at: str, settled: str
) -> None:
    place()
    execution = write(pipeline_text(staged(create_step(more="region: us-east-1")))).start("1.27")

    def die(name: str) -> None:
        if name == at and any(frame.function == "resolve_infrastructure" for frame in inspect.stack()):
            os._exit(KILLED)

    def doomed() -> None:
        runtime.set_hook(die)
        drive.until_over(execution)

    try:
        assert run_in_fork(doomed) == KILLED
    finally:
        runtime.set_hook(None)
    stage = StageExecution.objects.get(execution=execution)
    assert stage.cluster == settled
    drive.clock.move(61)
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    stage.refresh_from_db()
    assert stage.cluster == "made"
    assert drive.log(execution).count("Deploying to the provisioned cluster made in us-east-1") == 1
