"""A preview says of each step what it would do, with what earlier steps would hand on, and does nothing."""

import pytest

from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from tests.deployments.engine.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.steps.kinds.conftest import Site
from tests.steps.kinds.test_script import script_step

pytestmark = pytest.mark.django_db(transaction=True)

TIME = "outputVariables: [{name: time, type: String, value: TIME}]\n"


def _previewed(drive: Drive) -> PreviewDetails:
    details = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.28")
    assert isinstance(details, PreviewDetails)
    return details


def test_a_preview_goes_on_past_steps_that_only_a_run_can_do(write: Write, drive: Drive, site: Site) -> None:
    ask = f"- step: {{identifier: ask, type: Http, spec: {{url: '{site.url}', method: POST}}}}\n"
    pause = "- step: {identifier: pause, type: Wait, spec: {duration: 10m}}\n"
    scale = (
        "- step: {identifier: scale, type: EcsScale, "
        "spec: {service: <+steps.deploy.output.serviceName>, instances: 4}}\n"
    )
    depends = "- step: {identifier: late, type: Wait, spec: {duration: <+steps.run.output.time>}}\n"
    drive.run("1.27")
    before = drive.mark()
    write(
        pipeline_text(
            stage_text(DEPLOY + script_step("echo hello", options=TIME) + ask + pause + scale + depends)
        )
    )
    steps = {step.identifier: step for step in _previewed(drive).steps}
    assert steps["run"].changes == ["A script of 1 line is run at a delegate."]
    assert steps["ask"].changes == [f"POST {site.url} is sent."]
    assert steps["scale"].changes == ["Service myapp goes from 1 task to 4."]
    assert [step.failure for step in steps.values()] == [None] * 6
    assert "<+steps.run.output.time> is unknown here" in steps["late"].warnings[0]
    assert site.requests == []
    assert drive.effects(before) == []


def test_a_preview_says_what_runs_what_is_skipped_and_what_depends_on_the_run(
    write: Write, drive: Drive, site: Site
) -> None:
    wait = "- step: {{identifier: {}, type: Wait, spec: {{duration: 1m}}, when: {}}}\n"
    steps = (
        wait.format("here", "{condition: '<+env.type> == \"PreProduction\"'}")
        + wait.format("elsewhere", "{condition: '<+env.type> == \"Production\"'}")
        + wait.format("after_failure", "{stageStatus: Failure}")
        + script_step("echo hello", options=TIME)
        + wait.format("told", "{condition: '<+steps.run.output.time> == \"1\"'}")
        + wait.format("color", "{condition: '<+pipeline.variables.color> == \"blue\"'}")
        + wait.format("size", "{condition: '<+pipeline.variables.size> > 3'}")
    )
    variables = "variables: {color: <+input>, size: <+input>.default(4)}"
    write(pipeline_text(stage_text(DEPLOY + steps)).replace("variables: {}", variables))
    steps_by_name = {step.identifier: step for step in _previewed(drive).steps}
    assert {
        name: (step.skipped, step.depends)
        for name, step in steps_by_name.items()
        if name not in ("deploy", "run")
    } == {
        "here": ("", ()),
        "elsewhere": ('because this is false: <+env.type> == "Production"', ()),
        "after_failure": ("because it runs only after a failure", ()),
        "told": ("", ('<+steps.run.output.time> == "1"',)),
        "color": ("", ('<+pipeline.variables.color> == "blue"',)),
        "size": ("", ()),
    }
    details = preview_pipeline(
        actor=drive.deployer,
        pipeline=drive.pipeline,
        artifact_tag="1.28",
        inputs={"color": "green", "size": 2},
    )
    assert isinstance(details, PreviewDetails)
    assert [step.identifier for step in details.steps if step.skipped] == [
        "elsewhere",
        "after_failure",
        "color",
        "size",
    ]
