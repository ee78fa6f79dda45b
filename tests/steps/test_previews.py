"""A preview says of each step what it would do, with what earlier steps would hand on, and does nothing."""

import pytest

from deployments.preview.documents import ShownPreview
from deployments.previews import preview_pipeline
from tests.deployments.driving import Drive
from tests.flow.conftest import DEPLOY, Write, pipeline_text, stage_text
from tests.steps.conftest import Site
from tests.steps.test_script import script_step

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


def _previewed(drive: Drive) -> ShownPreview:
    shown = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.28")
    assert isinstance(shown, ShownPreview)
    return shown


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
    write(pipeline_text(stage_text(DEPLOY + script_step("echo hello") + ask + pause + scale + depends)))
    steps = {one.identifier: one for one in _previewed(drive).steps}
    assert steps["run"].changes == ["A script of 1 line is run at a delegate."]
    assert steps["ask"].changes == [f"POST {site.url} is sent."]
    assert steps["scale"].changes == ["Service myapp goes from 1 task to 4."]
    assert [one.failure for one in steps.values()] == [None] * 6
    assert "<+steps.run.output.time> is not known here" in steps["late"].warnings[0]
    assert site.asked == []
    assert drive.effects(before) == []
