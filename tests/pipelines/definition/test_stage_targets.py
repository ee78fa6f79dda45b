"""Stages of one run have services with one image: a run deploys only one."""

import pytest

from catalog.models import Artifact, Service
from deployments.execution.operations import run_pipeline
from pipelines.operations.pipelines import PipelineNotRunnable, check_pipeline, save_pipeline
from rbac.models import Scope, User
from tests.api.sample_project import PIPELINE, World, make_world

pytestmark = pytest.mark.django_db
_HEAD, _STAGE = PIPELINE.split("    - stage:\n", 1)


def _build_text(*services: str) -> str:
    stages = [
        _STAGE.replace("myapp", service).replace("identifier: deploy", f"identifier: deploy_{number}")
        for number, service in enumerate(services)
    ]
    return _HEAD + "".join(f"    - stage:\n{stage}" for stage in stages)


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    world = make_world(project, admin, admin)
    worker = Service.objects.create(scope=project, identifier="worker", name="Worker")
    image = Artifact.objects.get(service=world.service).image
    Artifact.objects.create(service=worker, image=image, tag="other")
    return world


def test_a_service_with_another_image_than_an_earlier_stage_is_refused(world: World, admin: User) -> None:
    text = _build_text("myapp", "myapp", "worker")
    pipeline = save_pipeline(actor=admin, scope=world.scope, yaml=text, pipeline=world.pipeline)
    run_pipeline(actor=admin, pipeline=pipeline, artifact_tag="v7")
    Artifact.objects.filter(service__identifier="worker").update(image="shop/worker")
    with pytest.raises(PipelineNotRunnable) as refused:
        run_pipeline(actor=admin, pipeline=pipeline, artifact_tag="v7")
    (error,) = refused.value.errors
    assert error["path"] == "pipeline.stages.2.stage.spec.service.serviceRef"
    assert "service worker has another image or image source than service myapp" in error["message"]
    assert "a pipeline of its own" in error["message"]
    (error,) = check_pipeline(text, world.scope, admin)["errors"]
    assert text.splitlines()[error["line"] - 1].strip() == "serviceRef: worker"


def test_a_rollback_to_an_earlier_run_is_not_refused_for_it(world: World, admin: User) -> None:
    text = _build_text("myapp", "worker")
    pipeline = save_pipeline(actor=admin, scope=world.scope, yaml=text, pipeline=world.pipeline)
    earlier = run_pipeline(actor=admin, pipeline=pipeline, artifact_tag="v7")
    Artifact.objects.filter(service__identifier="worker").update(image="shop/worker")
    replay = run_pipeline(actor=admin, pipeline=pipeline, artifact_tag="v7", replays=earlier)
    assert replay.artifact["tag"] == "v7"
