"""A stage makes its cluster first, and deploys where its provisioner says (R184-R189)."""

import pytest

from deployments.models import Call, StageExecution, StepExecution
from tests.deployments.driving import Drive
from tests.flow.conftest import Write, pipeline_text
from tests.provisioning.conftest import OUTPUTS, Place, Worker, making, script_step, staged

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def serve(drive: Drive, execution, worker: Worker):  # type: ignore[no-untyped-def]
    """Let a delegate work, and time go by in AWS too."""
    for _ in range(400):
        drive.look()
        if not worker.serve():
            drive.clock.move(1)
            drive.sandbox.advance(1)
        execution.refresh_from_db()
        if execution.is_over:
            return execution
    raise AssertionError(f"{execution} is still {execution.status}: {drive.log(execution)[-5:]}")


def test_a_stage_deploys_into_the_cluster_that_its_script_has_made(
    write: Write, drive: Drive, place: Place, worker: Worker
) -> None:
    place()
    ready = write(pipeline_text(staged(script_step(making(drive, **OUTPUTS)))))
    execution = ready.start("1.27")
    stage = StageExecution.objects.get(execution=execution)
    assert (stage.region, stage.cluster) == ("", "")
    serve(drive, execution, worker)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    stage.refresh_from_db()
    assert (stage.region, stage.cluster, stage.values["infra"]["cluster"]) == (
        "us-east-1",
        "orders",
        "orders",
    )
    assert "Deploying to the provisioned cluster orders in us-east-1" in drive.log(execution)
    asked = {"cluster": "orders", "services": ["myapp"]}
    (service,) = drive.call("ecs", "DescribeServices", asked)["services"]
    assert service["runningCount"] == service["desiredCount"] > 0
    first = Call.objects.filter(execution=execution, service="ecs").order_by("pk").first()
    made = StepExecution.objects.get(stage=stage, identifier="make")
    assert first is not None
    assert first.planned_at >= made.ended_at
    assert made.outputs == OUTPUTS
