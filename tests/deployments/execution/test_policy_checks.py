"""Policy rules at the start of a run: refused before anything is written, warned in its log."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from catalog.operations.manifests import ManifestSpec
from catalog.operations.overrides import OverrideSpec, override_service
from catalog.operations.services import ServiceSpec, create_service, update_service
from catalog.overrides.override_sets import load_override_set
from catalog.overrides.policy_checks import build_effective_documents, build_service_documents
from deployments.execution.operations import run_pipeline
from deployments.execution.planning.run_requests import validate_run
from deployments.execution.policy_checks import RunSettings, build_run_document
from deployments.log import iterate_lines
from deployments.models import Execution, FreezeWindow
from pipelines.definition.policy_checks import build_pipeline_document
from pipelines.operations.pipelines import check_pipeline, save_pipeline
from policies.evaluation import PolicyViolated, list_rules_in_force
from policies.models import PolicyRule
from policies.subjects import EXAMPLES
from rbac.models import Scope, User
from rbac.operations.scopes import create_project
from tests.api.sample_project import World, make_world
from tests.policies.document_keys import collect_keys

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    sample = make_world(project, admin, admin)
    PolicyRule.objects.all().delete()
    FreezeWindow.objects.all().delete()
    return sample


def add_rule(scope: Scope, condition: str, *, effect: str = "REFUSE", **fields: Any) -> PolicyRule:
    values = {"identifier": "tags", "name": "Tags", "subject": "Run", "message": "Choose a version."}
    return PolicyRule.objects.create(scope=scope, condition=condition, effect=effect, **values | fields)


def test_a_refused_run_writes_nothing_and_names_each_rule(world: World, admin: User, call: Call) -> None:
    add_rule(world.scope, "artifact.tag.startsWith('v2')")
    add_rule(Scope.objects.account(), "stages.all(s, s.approvals.size() > 0)", identifier="approvals")
    before = Execution.objects.count()
    response = call(admin).post(f"/api/v1/pipelines/{world.pipeline.pk}/executions", {}, format="json")
    assert (response.status_code, response.json()["code"]) == (400, "policy_violated")
    messages = [error["message"] for error in response.json()["errors"]]
    assert messages == [
        "Policy rule Tags (account/approvals): Choose a version.",
        f"Policy rule Tags ({world.scope.path}/tags): Choose a version.",
    ]
    assert Execution.objects.count() == before
    body = {"artifact": {"tag": "v2.1"}}
    PolicyRule.objects.filter(identifier="approvals").update(is_enabled=False)
    address = f"/api/v1/pipelines/{world.pipeline.pk}/executions"
    assert call(admin).post(address, body, format="json").status_code == 201


def test_a_warning_is_the_first_line_of_the_log(world: World, admin: User) -> None:
    add_rule(world.scope, "artifact.tag != 'v1'", effect="WARN")
    execution = run_pipeline(actor=admin, pipeline=world.pipeline)
    first = next(iter(iterate_lines(execution.pk)))
    assert (first["level"], first["text"]) == (
        "warning",
        f"Policy rule Tags ({world.scope.path}/tags): Choose a version.",
    )


def test_the_page_of_a_run_shows_the_rules_that_its_tag_violates(
    world: World, admin: User, browse: Callable[[User], Client]
) -> None:
    add_rule(world.scope, "artifact.tag.startsWith('v2')", effect="WARN")
    client, address = browse(admin), f"/pipelines/{world.pipeline.pk}/run/"
    page = client.get(address).content.decode()
    assert "A run would start with a warning" in page
    assert "Choose a version." in page
    plan = client.post(f"{address}plan/", {"tag": "v2.1"}).content.decode()
    assert "Choose a version." not in plan
    PolicyRule.objects.update(effect="REFUSE")
    response = client.post(address, {"tag": "v1"})
    assert "A run would be refused" in response.content.decode()
    assert "This pipeline cannot run" in response.content.decode()


def test_a_rollback_is_only_warned(world: World, admin: User) -> None:
    add_rule(world.scope, "false")
    with pytest.raises(PolicyViolated):
        run_pipeline(actor=admin, pipeline=world.pipeline)
    execution = run_pipeline(actor=admin, pipeline=world.pipeline, replays=world.execution)
    assert next(iter(iterate_lines(execution.pk)))["level"] == "warning"


def test_a_rule_that_cannot_be_evaluated_refuses_with_the_reason(world: World, admin: User) -> None:
    add_rule(world.scope, "inputs.ticket != ''")
    with pytest.raises(PolicyViolated) as refusal:
        run_pipeline(actor=admin, pipeline=world.pipeline)
    message = refusal.value.errors[0]["message"]
    assert "cannot be evaluated, so it counts as not met: there is no field ticket. " in message
    assert message.endswith(PolicyRule.objects.get().message)


def test_rules_of_archived_scopes_and_of_other_projects_do_not_apply(world: World, admin: User) -> None:
    organization = world.scope.parent
    other = create_project(actor=admin, organization=organization, identifier="other", name="Other")
    add_rule(other, "false")
    run_pipeline(actor=admin, pipeline=world.pipeline)
    add_rule(organization, "false")
    Scope.objects.filter(pk=organization.pk).update(archived_at=timezone.now())
    assert not list_rules_in_force(world.scope)


def test_a_pipeline_that_violates_a_rule_is_not_saved_and_not_run(world: World, admin: User) -> None:
    rule = add_rule(
        world.scope, "stages.all(s, s.approvals.exists(a, a.minimum >= 2))", subject="Pipeline", effect="WARN"
    )
    yaml, scope = world.pipeline.yaml, world.scope
    report = check_pipeline(yaml, scope, admin)
    assert (report["errors"], len(report["warnings"])) == ([], 1)
    pipeline = save_pipeline(actor=admin, scope=scope, yaml=yaml, pipeline=world.pipeline)
    PolicyRule.objects.filter(pk=rule.pk).update(effect="REFUSE")
    with pytest.raises(PolicyViolated):
        save_pipeline(actor=admin, scope=scope, yaml=yaml, pipeline=pipeline)
    assert check_pipeline(yaml, scope, admin)["errors"]
    with pytest.raises(PolicyViolated):
        run_pipeline(actor=admin, pipeline=pipeline)


APPROVED = """\
          execution:
            steps:
              - step:
                  type: HarnessApproval
                  identifier: approve
                  spec:
                    approvers: {userGroups: [crew], minimumCount: 2}
              - step:
                  type: EcsRollingDeploy
                  identifier: deploy
              - step:
                  type: HarnessApproval
                  identifier: confirm
                  spec:
                    approvers: {userGroups: [crew], minimumCount: 3}
            rollbackSteps:
              - step:
                  type: EcsRollingRollback
                  identifier: back
"""


def test_the_documents_have_the_names_of_the_examples(world: World, admin: User) -> None:
    yaml = world.pipeline.yaml.replace("          strategy: Rolling\n", APPROVED)
    yaml = yaml.replace("  stages:", "  variables: {replicas: 2}\n  stages:")
    request = validate_run(actor=admin, pipeline=world.pipeline, yaml=yaml, artifact_tag="", inputs={})
    window = FreezeWindow(identifier="holidays", name="Holidays")
    run = build_run_document(world.pipeline, request, RunSettings(admin, overridden=[window]))
    assert collect_keys(run) == collect_keys(EXAMPLES["Run"])
    pipeline = build_pipeline_document(request.spec, request.targets, world.scope)
    assert collect_keys(pipeline) == collect_keys(EXAMPLES["Pipeline"])
    (stage,) = run["stages"]
    assert [(row["step"], row["minimum"]) for row in stage["approvals"]] == [("approve", 2)]


MEMORY_LIMITS = (
    "kind != 'EcsTaskDefinition' || has(manifest.memory) || "
    "manifest.containerDefinitions.all(c, has(c.memory))"
)


def test_a_manifest_that_violates_a_rule_is_not_saved_and_not_run(world: World, admin: User) -> None:
    add_rule(world.scope, MEMORY_LIMITS, subject="Manifest")
    with pytest.raises(PolicyViolated):
        run_pipeline(actor=admin, pipeline=world.pipeline)
    content = "family: a\ncontainerDefinitions:\n  - {name: web, image: a, memoryReservation: 128}\n"
    manifest = ManifestSpec("task", "EcsTaskDefinition", "Inline", content=content)
    spec = ServiceSpec(name="New", manifests=[manifest])
    with pytest.raises(PolicyViolated):
        create_service(actor=admin, scope=world.scope, identifier="new", spec=spec)
    limited = replace(manifest, content=content + "memory: '512'\n")
    allowed = replace(spec, manifests=[limited])
    service = create_service(actor=admin, scope=world.scope, identifier="new", spec=allowed)
    with pytest.raises(PolicyViolated):
        update_service(actor=admin, service=service, spec=spec)
    override = OverrideSpec(manifests=[limited])
    options = {"actor": admin, "environment": world.environment, "service": world.service}
    with pytest.raises(PolicyViolated):
        override_service(**options, spec=replace(override, manifests=[manifest]))
    override_service(**options, spec=override)
    run_pipeline(actor=admin, pipeline=world.pipeline)


def test_the_documents_of_manifests_have_the_names_of_the_example(world: World) -> None:
    override_set = load_override_set(world.service, world.environment)
    documents = [*build_service_documents(world.service), *build_effective_documents([override_set])]
    assert len(documents) == 4
    for document in documents:
        assert collect_keys(document) == collect_keys(EXAMPLES["Manifest"])
