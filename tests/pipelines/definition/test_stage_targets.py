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


_TASK = "type: EcsRunTask, spec: {taskDefinitionArn: job, runTaskRequestDefinition: "


@pytest.mark.parametrize(
    ("step", "is_refused"),
    [
        ("type: EcsScale, spec: {service: worker, instances: 2}", False),
        ("type: ShellScript, spec: {shell: Bash, source: {type: Inline, spec: {script: make}}}", False),
        ("type: ShellScript, spec: {source: {type: Inline, spec: {script: 'a <+artifact.tag>'}}}", True),
        ("type: Http, spec: {url: 'https://a/<+service.name>'}", False),
        (_TASK + "{type: Inline, spec: {content: 'launchType: EC2'}}}", False),
        (_TASK + "{type: FileStore, spec: {files: /job.yaml}}}", True),
        ("type: EcsRollingDeploy", True),
    ],
)
def test_only_a_stage_that_uses_the_image_has_to_have_that_of_the_run(
    world: World, admin: User, step: str, is_refused: bool
) -> None:
    Artifact.objects.filter(service__identifier="worker").update(image="shop/worker")
    steps = f"execution: {{steps: [{{step: {{identifier: go, {step}}}}}]}}"
    head, worker = _build_text("myapp", "worker").rsplit("strategy: Rolling", 1)
    world.pipeline.yaml = f"{head}{steps}{worker}"
    world.pipeline.save(update_fields=["yaml"])
    problems = check_pipeline(world.pipeline.yaml, world.scope, admin)["errors"]
    assert bool([problem for problem in problems if "another image" in problem["message"]]) is is_refused
    if is_refused:
        with pytest.raises(PipelineNotRunnable, match="do not exist"):
            run_pipeline(actor=admin, pipeline=world.pipeline, artifact_tag="v7")
    else:
        assert run_pipeline(actor=admin, pipeline=world.pipeline, artifact_tag="v7").artifact["tag"] == "v7"


def test_a_rollback_to_an_earlier_run_is_not_refused_for_it(world: World, admin: User) -> None:
    text = _build_text("myapp", "worker")
    pipeline = save_pipeline(actor=admin, scope=world.scope, yaml=text, pipeline=world.pipeline)
    earlier = run_pipeline(actor=admin, pipeline=pipeline, artifact_tag="v7")
    Artifact.objects.filter(service__identifier="worker").update(image="shop/worker")
    replay = run_pipeline(actor=admin, pipeline=pipeline, artifact_tag="v7", replays=earlier)
    assert replay.artifact["tag"] == "v7"
