"""A preview says whether a stack would be created, updated or deleted, and does none of it."""

import pytest

from deployments.preview.documents import PreviewDetails, PreviewedStepDetails
from deployments.preview.operations import preview_pipeline
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.stories.cloudformation.conftest import TEMPLATE, create_step
from tests.stories.cloudformation.test_worker_crashes import DELETE

pytestmark = pytest.mark.django_db(transaction=True)


def _steps(drive: Drive) -> dict[str, PreviewedStepDetails]:
    details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.28")
    assert isinstance(details, PreviewDetails)
    return {step.identifier: step for step in details.steps}


def test_a_preview_tells_a_new_stack_from_one_that_is_there(write: Write, drive: Drive) -> None:
    ready = write(pipeline_text(stage_text(create_step())))
    mark = drive.mark()
    step = _steps(drive)["infra"]
    assert step.failure is None
    assert step.changes == ["Stack shop is created."]
    assert "cloudformation:CreateStack" in step.permissions
    assert drive.effects(mark) == []
    ready.run()
    write(pipeline_text(stage_text(create_step() + DELETE)))
    mark = drive.mark()
    steps = _steps(drive)
    assert steps["infra"].changes == ["Stack shop is updated where the template or a parameter differs."]
    assert steps["gone"].changes == ["Stack shop is deleted with all that it made."]
    assert drive.effects(mark) == []


def test_a_stack_whose_creation_failed_is_deleted_and_created(write: Write, drive: Drive) -> None:
    broken = TEMPLATE.replace(
        "Resources:\n", "Resources:\n  FailsHere: {Type: AWS::CloudFormation::WaitConditionHandle}\n"
    )
    write(pipeline_text(stage_text(create_step(broken)))).run()
    write(pipeline_text(stage_text(create_step())))
    step = _steps(drive)["infra"]
    assert step.failure is None
    assert step.changes == ["Stack shop is deleted with all that it made.", "Stack shop is created."]
