"""What can never be known of a provisioner is refused when a pipeline or an infrastructure is saved."""

import pytest

from catalog.models import Infrastructure
from pipelines.operations.pipelines import PipelineNotRunnable
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.stories.provisioning.conftest import OUTPUTS, Place, script_step, staged, writing
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)
MAKE = script_step(writing(**OUTPUTS))
USE = """
- step:
    identifier: use
    type: ShellScript
    delegateSelectors: [scripts]
    spec: {script: 'echo "<+provisioner.cluster_name>"'}
"""


def refusals(write: Write, text: str) -> list[tuple[str, str]]:
    """Return the places and messages of a refused pipeline."""
    with pytest.raises(PipelineNotRunnable) as refused:
        write(text)
    return [(error["path"], error["message"]) for error in refused.value.errors]


def test_a_dynamic_infrastructure_needs_a_provisioner_in_the_stage(
    write: Write, drive: Drive, place: Place
) -> None:
    place()
    ((region_at, region), (_, cluster)) = refusals(write, pipeline_text(staged("")))
    assert region_at == "pipeline.stages.0.stage.spec.environment.infrastructureDefinitions.0.identifier"
    assert "infrastructure made maps its region: <+provisioner.region_name> is the output" in region
    assert "add one, such as ShellScriptProvision, under environment.provisioner.steps" in region
    assert "maps its cluster" in cluster


def test_an_output_is_named_behind_the_step_that_makes_it(write: Write, drive: Drive, place: Place) -> None:
    place()
    write(pipeline_text(staged(MAKE, USE + DEPLOY)))
    ((at, message),) = refusals(write, pipeline_text(staged(USE + MAKE)))
    assert at.endswith("environment.provisioner.steps.0.step.spec.script")
    assert "no step before this makes infrastructure" in message
    ((at, _),) = refusals(write, pipeline_text(stage_text(USE + DEPLOY)))
    assert at.endswith("execution.steps.0.step.spec.script")


@pytest.mark.parametrize("anchor", ["identifier: make\n", "identifier: app\n"])
def test_a_condition_names_no_output_before_there_can_be_one(
    write: Write, drive: Drive, place: Place, anchor: str
) -> None:
    place()
    text = pipeline_text(staged(MAKE))
    indented = next(line for line in text.splitlines(keepends=True) if anchor in line)
    spaces = " " * (len(indented) - len(indented.lstrip()))
    status = "stageStatus" if "make" in anchor else "pipelineStatus"
    condition = f"{spaces}when: {{{status}: Success, condition: \"<+provisioner.cluster_name> == 'x'\"}}\n"
    ((at, message),) = refusals(write, text.replace(indented, indented + condition, 1))
    assert at.endswith("when.condition")
    assert "no step before this makes infrastructure" in message


def test_what_looks_into_the_cluster_does_not_belong_before_it(
    write: Write, drive: Drive, place: Place
) -> None:
    place()
    ((at, message),) = refusals(write, pipeline_text(staged(MAKE + DEPLOY.replace("deploy,", "early,"))))
    assert at.endswith("environment.provisioner.steps.1.step")
    assert message == (
        "EcsRollingDeploy needs the cluster, which does not exist yet: move the step to execution"
    )
    step_text = script_step("echo <+infra.cluster>")
    ((_, message),) = refusals(write, pipeline_text(staged(step_text)))
    assert "step make uses <+infra.cluster>, which is resolved only after the provisioner steps" in message


def test_a_stage_of_provisioner_steps_alone_deploys_nothing(write: Write, drive: Drive, place: Place) -> None:
    place()
    stage = staged(MAKE).replace(f"steps:\n{' ' * 10}{DEPLOY.strip()}", "steps: []")
    assert any("the stage has no steps" in message for _, message in refusals(write, pipeline_text(stage)))


@pytest.mark.parametrize(
    ("region", "cluster", "field", "message"),
    [
        ("us-east-1", "orders", "cluster", "Map region and cluster to outputs"),
        ("mars-1", "<+provisioner.c>", "region", "mars-1 is not an AWS region."),
        ("<+provisioner.r", "<+provisioner.c>", "region", "has no end"),
        ("<+infra.region>", "<+provisioner.c>", "region", "refers to itself"),
        ("<+provisioner.r>", "<+provisioner.a b>", "cluster", "is not a path"),
        ("<+provisioner.r>", "no/such", "cluster", "not the ARN"),
    ],
)
def test_a_dynamic_infrastructure_maps_what_can_be_read(
    place: Place, region: str, cluster: str, field: str, message: str
) -> None:
    with pytest.raises(BadInput) as refused:
        place(region, cluster)
    assert refused.value.errors is not None
    (error,) = refused.value.errors
    assert error["path"] == field
    assert message in error["message"]
    assert not Infrastructure.objects.filter(identifier="made").exists()
