"""A step kind with an action of its own is one file: check, form, preview, run and rollback know it."""

import re
from collections.abc import Callable

import pytest
from django.test import Client

from deployments.execution.operations import roll_back_execution
from ops.documentation import steps as reference
from pipelines.operations.pipelines import PipelineNotRunnable
from rbac.models import User
from steps.kinds.outputs import list_all_outputs
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.deployments.preview.comparison import (
    assert_same,
    list_planned_calls,
    list_recorded_calls,
    load_preview,
)
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)
TAG = "- step: {{identifier: tag, type: EcsTagService, spec: {{{spec}}}}}\n"
ROLLBACK = "          - step: {identifier: untag, type: EcsTagServiceRollback}\n"


def _text(spec: str) -> str:
    return pipeline_text(stage_text(DEPLOY + TAG.format(spec=spec)) + ROLLBACK)


def _get_tags(drive: Drive) -> dict[str, str]:
    answer = drive.call("ecs", "ListTagsForResource", {"resourceArn": drive.service()["serviceArn"]})
    return {tag["key"]: tag["value"] for tag in answer["tags"]}


@pytest.mark.parametrize(
    ("spec", "problem"),
    [
        ("service: myapp", "EcsTagService needs value"),
        ("service: myapp, value: x, colour: red", "EcsTagService has no field colour"),
        (f"service: myapp, value: {'x' * 257}", "value has 256 characters at most"),
        ("service: myapp, value: <+steps.deploy.output.nothing>", "nothing"),
    ],
)
def test_a_pipeline_is_checked_by_the_spec(write: Write, spec: str, problem: str) -> None:
    with pytest.raises(PipelineNotRunnable) as refused:
        write(_text(spec))
    assert problem in str(refused.value.errors)


def test_the_form_has_a_field_for_each_of_the_spec(write: Write, browse: Callable[[User], Client]) -> None:
    drive = write(_text("service: myapp, value: checkout, tag: owner"))
    step = "pipeline.stages.0.stage.spec.execution.steps.1"
    request = {"in_scope": drive.pipeline.scope.path, "yaml": drive.pipeline.yaml, "do": "open", "at": step}
    page = (
        browse(User.objects.get(username="admin"))
        .post("/pipelines/visual/", {**request, "is": "tag"})
        .content.decode()
    )
    assert "ECS Tag Service" in page
    assert "The name of the ECS service." in page
    assert '<option value="owner" selected>' in page
    assert re.search(r'<textarea[^>]*name="spec\.value"', page)


def test_the_reference_and_completion_know_the_outputs() -> None:
    pages = {page.path: page.text for page in reference.generate()}
    assert "The ECS service that has the tag." in pages["reference/steps/EcsTagService.md"]
    outputs = list_all_outputs("EcsTagService", {})
    assert outputs is not None
    assert {"taggedService", "serviceArn"} <= outputs


def test_a_run_does_what_the_preview_lists_and_a_rollback_undoes_it(write: Write, drive: Drive) -> None:
    write(_text("service: <+steps.deploy.output.serviceName>, value: checkout"))
    preview = load_preview(drive)
    assert [call for step, call, _ in list_planned_calls(preview) if step == "tag"] == ["ecs:TagResource"]
    execution = drive.run("1.27")
    assert execution.status == "SUCCESS", execution.failure
    assert_same(list_planned_calls(preview), list_recorded_calls(execution))
    assert _get_tags(drive)["team"] == "checkout"
    assert "Tag of Service myapp: team is checkout" in drive.log(execution)

    write(_text("service: myapp, value: payments"))
    second = drive.run("1.28")
    assert _get_tags(drive)["team"] == "payments"
    roll_back_execution(actor=drive.deployer, execution=second)
    drive.until_over(second)
    assert second.status == "ROLLED_BACK", second.failure
    assert _get_tags(drive)["team"] == "checkout"
