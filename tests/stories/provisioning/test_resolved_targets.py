"""Where a stage deploys is settled once, shown only then, and settled anew where the place is made anew."""

import pytest

from deployments.execution.operations import retry_execution
from deployments.models import ServiceLockClaim, StageExecution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text
from tests.fixtures.engine_driver import Drive
from tests.stories.cloudformation.conftest import create_step
from tests.stories.provisioning.conftest import OUTPUTS, Place, script_step, staged, writing

pytestmark = pytest.mark.django_db(transaction=True)
BACK = """
          rollbackSteps:
            - step: {identifier: unstack, type: RollbackStack}
      execution:"""
SETTLED = "Deploying to the provisioned cluster {} in us-east-1"


def test_a_place_that_was_taken_down_is_settled_anew_by_a_retry(
    write: Write, drive: Drive, place: Place
) -> None:
    place()
    text = staged(create_step(more="region: us-east-1"))
    execution = write(pipeline_text(text.replace("\n      execution:", BACK, 1))).run("crash")
    assert execution.outcome == "ROLLED_BACK", execution.failure
    stage = StageExecution.objects.get(execution=execution)
    assert stage.cluster == "made"
    # The next time it is made in another region, as a template that was changed since would.
    stage.dynamic_location = {**(stage.dynamic_location or {}), "region": "eu-west-1"}
    stage.save(update_fields=["dynamic_location"])
    retry_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    log = drive.log(execution)
    assert SETTLED.format("made") in log
    assert "Deploying to the provisioned cluster made in eu-west-1" in log
    regions = {claim.key.split("/")[1] for claim in ServiceLockClaim.objects.filter(stage=stage)}
    assert regions == {"eu-west-1"}


def test_a_preview_shows_the_provisioner_and_says_what_only_a_run_can_know(
    write: Write, drive: Drive, place: Place
) -> None:
    place()
    wait_step = "\n- step: {identifier: ask, type: Wait, spec: {duration: 1m}, when: {condition: "
    wait_step += "'<+infra.cluster> == \"orders\"'}}\n"
    write(pipeline_text(staged(script_step(writing(**OUTPUTS)), wait_step + DEPLOY)))
    mark = drive.mark()
    details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.28")
    assert isinstance(details, PreviewDetails)
    steps = {step.identifier: step for step in details.steps}
    assert steps["make"].changes == ["A script of 3 lines is run at a delegate."]
    assert steps["ask"].depends == ('<+infra.cluster> == "orders"',)
    assert "known once the infrastructure is provisioned" in steps["deploy"].warnings[0]
    assert [step.failure for step in steps.values()] == [None] * 3
    assert drive.mark() == mark
