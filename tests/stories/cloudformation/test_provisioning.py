"""A stage whose cluster a stack makes: deployed into, and taken back together with the deployment."""

import pytest

from tests.deployments.engine.conftest import Write, pipeline_text
from tests.fixtures.engine_driver import Drive
from tests.stories.cloudformation.conftest import clusters, create_step, stack, step_of
from tests.stories.provisioning.conftest import Place, place, staged

__all__ = ["place"]
pytestmark = pytest.mark.django_db(transaction=True)
BACK = """
          rollbackSteps:
            - step: {identifier: unstack, type: RollbackStack}
      execution:"""


def _text() -> str:
    text = staged(create_step(more="region: us-east-1"))
    return pipeline_text(text.replace("\n      execution:", BACK, 1))


def test_what_a_stack_makes_is_deployed_to(write: Write, drive: Drive, place: Place) -> None:
    place()
    execution = write(_text()).run("1.27")
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), execution.failure
    stage = execution.stages.get()
    assert (stage.region, stage.cluster) == ("us-east-1", "made")
    services = drive.call("ecs", "DescribeServices", {"cluster": "made", "services": ["myapp"]})["services"]
    assert (services[0]["status"], services[0]["runningCount"]) == ("ACTIVE", services[0]["desiredCount"])
    second_run = write(_text()).run("1.28")
    assert second_run.outcome == "COMPLETED", second_run.failure
    assert step_of(second_run).all_outputs["stackChange"] == "NONE"


def test_a_deployment_that_fails_is_taken_back_and_then_the_stack(
    write: Write, drive: Drive, place: Place
) -> None:
    place()
    mark = drive.mark()
    execution = write(_text()).run("crash")
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(execution)[-8:]
    assert stack(drive)["StackStatus"] == "DELETE_COMPLETE"
    assert "made" not in clusters(drive)
    effects = drive.effects(mark)
    assert effects.index("DeleteService") < effects.index("DeleteStack")
