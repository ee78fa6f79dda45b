"""Overrides: what is checked when they are saved, what a run freezes, and what they do to a deployment."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from catalog.models import Infrastructure, Manifest, ServiceOverride
from catalog.operations import ManifestSpec, OverrideSpec, override_service
from catalog.overrides.effective_manifests import list_effective_manifests
from catalog.overrides.override_sets import load_override_set
from deployments.engine.steps.inputs import load_manifests
from deployments.execution.operations import run_pipeline
from deployments.models import StageExecution
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person
from web.http.problems import BadInput, VersionConflict

pytestmark = pytest.mark.django_db
TASK = "EcsTaskDefinition"


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


def build_inline_manifest(content: str, kind: str = TASK, **values: Any) -> ManifestSpec:
    return ManifestSpec(values.pop("identifier", "mine"), kind, "Inline", content=content, **values)


def set_override(
    world: World,
    actor: User,
    *manifests: ManifestSpec,
    infrastructure: Infrastructure | None = None,
    variables: dict[str, Any] | None = None,
    version: int | None = None,
) -> ServiceOverride | None:
    return override_service(
        actor=actor,
        environment=world.environment,
        service=world.service,
        infrastructure=infrastructure,
        spec=OverrideSpec(variables or {}, manifests),
        version=version,
    )


TARGET_TRACKING = """\
policyName: cpu
policyType: TargetTrackingScaling
targetTrackingScalingPolicyConfiguration:
  targetValue: 60
  predefinedMetricSpecification:
    predefinedMetricType: ECSServiceAverageCPUUtilization
"""


def create_stage_execution(world: World, actor: User) -> StageExecution:
    run = run_pipeline(actor=actor, pipeline=world.pipeline)
    return run.stages.get()


def test_a_run_takes_what_the_infrastructure_says_before_what_the_environment_says(world: World, admin: User):
    set_override(
        world,
        admin,
        build_inline_manifest("cpu: '512'\nmemory: '1024'\n"),
        variables={"level": "env", "size": 1},
    )
    set_override(
        world,
        admin,
        build_inline_manifest("memory: '2048'\n"),
        infrastructure=world.infrastructure,
        variables={"level": "infra"},
    )
    stage = create_stage_execution(world, admin)
    manifest = load_manifests(stage.execution, stage, TASK, {})[0]
    assert (manifest.value["cpu"], manifest.value["memory"]) == ("512", "2048")
    assert manifest.value["containerDefinitions"][0]["image"] == "myapp:v1"
    assert manifest.overrides == ("mine of the environment", "mine of the infrastructure")
    assert stage.values["serviceVariables"] == {"level": "infra", "size": 1}


def test_what_is_overridden_later_does_not_change_a_run_under_way(world: World, admin: User):
    set_override(world, admin, build_inline_manifest("memory: '512'\n"))
    stage = create_stage_execution(world, admin)
    set_override(world, admin, build_inline_manifest("memory: '1024'\n"))
    assert load_manifests(stage.execution, stage, TASK, {})[0].value["memory"] == "512"


def test_another_infrastructure_of_the_environment_has_nothing_of_it(world: World, admin: User):
    other = Infrastructure.objects.create(
        environment=world.environment,
        identifier="other",
        name="Other",
        connector=world.connector,
        region="us-east-1",
        cluster="demo",
    )
    set_override(
        world,
        admin,
        build_inline_manifest("cpu: '512'\n"),
        infrastructure=other,
        variables={"level": "other"},
    )
    override_set = load_override_set(world.service, world.environment, world.infrastructure)
    assert [row["level"] for row in override_set.list_rows([TASK])] == ["service"]
    assert "level" not in override_set.values[-1]


def test_an_environment_may_bring_a_manifest_that_the_service_has_not(world: World, admin: User):
    policy = Manifest.Kind.SCALING_POLICY.value
    set_override(world, admin, build_inline_manifest(TARGET_TRACKING, policy))
    stage = create_stage_execution(world, admin)
    (manifest,) = load_manifests(stage.execution, stage, policy, {})
    assert manifest.value["PolicyName"] == "cpu"
    assert manifest.value["TargetTrackingScalingPolicyConfiguration"]["TargetValue"] == 60


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("memory: '512'\nnetworkMode: magic\n", "mine of the environment, line 2: networkMode"),
        ("family:\n", "mine of the environment, line 1: family"),
        ("cpu: [\n", "line 2"),
        ("nonsense: 1\n", "mine of the environment, line 1: nonsense"),
    ],
)
def test_what_could_not_be_deployed_is_refused_when_it_is_saved(
    world: World, admin: User, text: str, message: str
):
    with pytest.raises(BadInput) as error:
        set_override(world, admin, build_inline_manifest(text))
    assert error.value.errors[0]["path"] == "manifests.0"
    assert message in error.value.errors[0]["message"]
    assert "mine" not in str([row.manifests for row in ServiceOverride.objects.all()])


def test_what_is_wrong_with_the_service_itself_does_not_hinder_an_override(world: World, admin: User):
    world.file.content = "family: a b\ncontainerDefinitions: []\n"
    world.file.save()
    saved_override = set_override(world, admin, build_inline_manifest("cpu: '512'\n"))
    assert saved_override is not None


def test_an_arn_cannot_be_laid_over_and_may_be_replaced(world: World, admin: User):
    arn = "arn:aws:ecs:us-east-1:123456789012:task-definition/web:7"
    set_override(world, admin, ManifestSpec("known", TASK, "TaskDefinitionArn", content=arn))
    (source,) = load_override_set(world.service, world.environment, world.infrastructure).list_rows([TASK])
    assert source["content"] == arn
    with pytest.raises(BadInput, match="cannot be deployed") as error:
        set_override(world, admin, build_inline_manifest("cpu: '512'\n"), infrastructure=world.infrastructure)
    assert "set it to replace the manifest" in error.value.errors[0]["message"]
    full_manifest = build_inline_manifest(
        "family: x\ncontainerDefinitions: [{name: a, image: b, memory: 128}]\n", mode="replace"
    )
    set_override(world, admin, full_manifest, infrastructure=world.infrastructure)


@pytest.mark.parametrize(
    "arn",
    ["", "web:7", "arn:aws:ecs:us-east-1:123456789012:cluster/web", "arn:aws:ecs:x:1:task-definition/a"],
)
def test_what_is_no_arn_of_a_task_definition_is_refused(world: World, admin: User, arn: str):
    with pytest.raises(BadInput) as error:
        set_override(world, admin, ManifestSpec("known", TASK, "TaskDefinitionArn", content=arn))
    assert "ARN of a task definition" in error.value.errors[0]["message"]


def test_saving_over_somebody_else_is_refused_and_the_audit_says_what_changed(world: World, admin: User):
    set_override(world, admin, build_inline_manifest("cpu: '512'\n"), infrastructure=world.infrastructure)
    with pytest.raises(VersionConflict):
        set_override(
            world,
            admin,
            build_inline_manifest("cpu: '1024'\n"),
            infrastructure=world.infrastructure,
            version=0,
        )
    entry = AuditEntry.objects.filter(action="override.update").latest("pk")
    assert entry.after is not None
    assert entry.after["infrastructure"] == "sandbox"
    assert [row["identifier"] for row in entry.after["manifests"]] == ["mine"]
    assert "512" not in str(entry.after)
    set_override(world, admin, infrastructure=world.infrastructure)
    assert AuditEntry.objects.latest("pk").action == "override.delete"


def test_files_that_the_reader_may_not_see_are_not_shown_merged(world: World, admin: User, stranger: User):
    override_set = load_override_set(world.service, world.environment, world.infrastructure)
    manifests = {manifest.kind: manifest for manifest in list_effective_manifests(override_set, stranger)}
    assert manifests[TASK].merged is None
    assert "You cannot view the file /task.yaml" in manifests[TASK].error
    assert list_effective_manifests(override_set, admin)[0].error == ""


def test_an_infrastructure_takes_out_a_scaling_policy_of_the_service(world: World, admin: User):
    policy = Manifest.Kind.SCALING_POLICY.value
    for name in ("cpu", "memory"):
        Manifest.objects.create(
            service=world.service,
            identifier=name,
            kind=policy,
            store="Inline",
            content=TARGET_TRACKING.replace("policyName: cpu", f"policyName: {name}"),
        )
    set_override(
        world,
        admin,
        build_inline_manifest("policyName: cpu\n$remove: true\n", policy),
        infrastructure=world.infrastructure,
    )
    stage = create_stage_execution(world, admin)
    assert [
        manifest.value["PolicyName"] for manifest in load_manifests(stage.execution, stage, policy, {})
    ] == ["memory"]


def test_a_program_overrides_manifests_and_reads_what_counts(
    world: World, admin: User, call: Callable[[User], Any]
):
    path = f"/api/v1/environments/{world.environment.pk}/infrastructures/{world.infrastructure.pk}"
    address = f"{path}/overrides/{world.service.pk}"
    manifest = {"identifier": "larger", "kind": TASK, "store": "Inline", "content": "memory: '512'\n"}
    body = {"variables": {"level": "debug"}, "manifests": [manifest]}
    response = call(admin).put(address, body, format="json", headers={"if-match": '"0"'})
    assert (response.status_code, response["etag"]) == (200, '"1"')
    assert response.json()["manifests"] == [manifest | {"mode": "merge", "paths": [], "place": {}}]
    assert call(admin).put(address, body, format="json", headers={"if-match": '"0"'}).status_code == 412
    assert call(admin).get(f"{address}/manifests?fetch=perhaps").status_code == 400
    effective_manifest = call(admin).get(f"{address}/manifests").json()["manifests"][0]
    assert effective_manifest["value"]["memory"] == "512"
    assert {
        "path": ["memory"],
        "level": "infrastructure",
        "file": "larger of the infrastructure",
        "line": 1,
        "removed": False,
    } in effective_manifest["parts"]
    assert [row["service"] for row in call(admin).get(f"{path}/overrides").json()["results"]] == [
        world.service.pk
    ]
    broken = body | {"manifests": [manifest | {"content": "memory: '512'\ncpu: much\n"}]}
    invalid_response = call(admin).put(address, broken, format="json")
    assert invalid_response.status_code == 400
    assert "larger of the infrastructure, line 2: cpu" in invalid_response.json()["errors"][0]["message"]
    assert call(admin).delete(address, headers={"if-match": '"1"'}).json()["version"] == 0


def test_who_may_not_see_a_service_does_not_see_its_overrides(
    world: World, admin: User, project: Scope, call: Callable[[User], APIClient]
) -> None:
    set_override(world, admin, variables={"level": "debug"})
    role = Role.objects.create(identifier="places", name="Places", scope=project)
    role.set_permissions(["core_environment_view"])
    person = make_person("placer")
    RoleAssignment.objects.create(user=person, role=role, scope=project)
    address = f"/api/v1/environments/{world.environment.pk}/overrides"
    assert len(call(admin).get(address).json()["results"]) == 1
    assert call(person).get(address).json()["results"] == []
