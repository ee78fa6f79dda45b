"""Targets of stages: how they are found, and that services of one run have one image."""

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from catalog.models import Artifact, Service
from deployments.execution.operations import run_pipeline
from pipelines.definition.parser import parse_pipeline
from pipelines.definition.stage_targets import find_service, find_stage_targets
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


def test_targets_of_more_stages_are_found_with_no_more_queries(world: World) -> None:
    for services in (["myapp"], ["myapp", "worker", "myapp"]):
        spec = parse_pipeline(_build_text(*services))
        with CaptureQueriesContext(connection) as queries:
            targets, problems = find_stage_targets(spec, world.scope)
            images = [target.artifact for target in targets]
        assert ([target.service.identifier for target in targets], problems) == (services, [])
        assert all(images)
        assert len(queries) == 5


def test_the_form_of_a_run_finds_the_targets_once(world: World, admin: User, client: Client) -> None:
    client.force_login(admin)
    path = f"/pipelines/{world.pipeline.pk}/run/"
    client.get(path)
    with CaptureQueriesContext(connection) as queries:
        client.get(path)
    assert sum('FROM "catalog_environment" INNER JOIN' in query["sql"] for query in queries) == 1


def test_the_service_of_the_nearest_scope_is_deployed(world: World) -> None:
    account = world.scope.parent.parent
    above = Service.objects.create(scope=account, identifier="myapp", name="The account's")
    assert find_service(world.scope, "myapp") == world.service
    assert find_service(world.scope.parent, "myapp") == above
    assert find_service(world.scope, "nowhere") is None


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
_SCALE, _UNSCALE = "type: EcsScale, spec: {service: worker, instances: 2}", "type: EcsScaleRollback"
_MAKE = "type: ShellScript, spec: {shell: Bash, source: {type: Inline, spec: {script: make}}}"
_WHEN = "when: {condition: '<+artifact.image> == \"shop/worker:v7\"'}"


def _build_step(body: str, identifier: str = "go") -> str:
    return f"{{step: {{identifier: {identifier}, {body}}}}}"


def _build_group(step: str) -> str:
    return f"{{stepGroup: {{identifier: all, {_WHEN}, steps: [{_build_step(step, 'inner')}]}}}}"


@pytest.mark.parametrize(
    ("step", "is_refused"),
    [
        (_SCALE, False),
        (_MAKE, False),
        ("type: ShellScript, spec: {source: {type: Inline, spec: {script: 'a <+artifact.tag>'}}}", True),
        ("type: Http, spec: {url: 'https://a/<+service.name>'}", False),
        (_TASK + "{type: Inline, spec: {content: 'launchType: EC2'}}}", False),
        (_TASK + "{type: FileStore, spec: {files: /job.yaml}}}", True),
        ("type: EcsRollingDeploy", True),
        (f"{_MAKE}, {_WHEN}", True),
        (f"{_MAKE}, when: {{condition: '<+service.name> == \"worker\"'}}", False),
    ],
)
def test_only_a_stage_that_uses_the_image_has_to_have_that_of_the_run(
    world: World, admin: User, step: str, is_refused: bool
) -> None:
    execution = f"execution: {{steps: [{_build_step(step)}]}}"
    _check_whether_refused(world, admin, execution, is_refused=is_refused)


@pytest.mark.parametrize(
    "body",
    [
        f"execution: {{steps: [{_build_group(_MAKE)}]}}",
        f"execution: {{steps: [{_build_step(_SCALE)}], rollbackSteps: [{_build_group(_UNSCALE)}]}}",
        f"execution: {{steps: [{_build_step(_MAKE)}]}}\n        {_WHEN}",
    ],
    ids=["a group", "a rollback group", "the stage"],
)
def test_the_image_in_a_condition_counts_as_a_use_of_it(world: World, admin: User, body: str) -> None:
    _check_whether_refused(world, admin, body, is_refused=True)


def _check_whether_refused(world: World, admin: User, body: str, *, is_refused: bool) -> None:
    Artifact.objects.filter(service__identifier="worker").update(image="shop/worker")
    head, worker = _build_text("myapp", "worker").rsplit("strategy: Rolling", 1)
    world.pipeline.yaml = f"{head}{body}{worker}"
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
