"""Each member of CreateService that botocore knows is deployed, read back, compared, updated and restored."""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import EcsService, parse_tags
from aws.caller import BotoCaller
from aws.clients import AccessKey
from aws.shapes import get_parameter_names
from catalog.manifests.checks import check_manifest, check_with_task_definition
from catalog.manifests.documents import parse_document
from catalog.manifests.kinds import SERVICE_DEFINITION
from inventory.drift.documents.differences import (
    ServiceDocuments,
    find_aws_defaults,
    find_differences,
    list_paths,
)
from sandbox.process import SandboxProcess
from steps.actions.ecs_service.snapshots import build_snapshot
from steps.actions.ecs_service.update_fields import (
    merge_deployment_fields,
    read_revision_fields,
    requires_new_deployment,
    select_changeable_fields,
    select_restored_fields,
)
from tests.aws.fake_caller import skip_sleep
from tests.sandbox.field_examples import FieldExample, Path, build_examples, select_members
from tests.sandbox.service_fields import SERVICE_FIELDS

CLUSTER = "demo"
EXAMPLES = tuple(build_examples(SERVICE_FIELDS))
# AWS shows the name as part of the ARN as well; each service of these tests has its own.
NAME: Path = ("serviceName",)
# UpdateService does not take them: AWS sets them once, and tags have operations of their own.
SET_AT_CREATION = {"serviceName", "launchType", "schedulingStrategy", "role", "tags"}


@dataclass(frozen=True)
class Account:
    """ECS of the sandbox as deployments call it, with task definitions and resources that examples name."""

    ecs: EcsClient
    resources: Mapping[str, Any]
    task_definitions: Mapping[str, Mapping[str, Any]]
    bases: dict[str, EcsService] = field(default_factory=dict)

    def validate(self, example: FieldExample) -> dict[str, Any]:
        """Return the definition as a deployment sends it; a problem or warning of the manifest fails."""
        definition = self._fill_in(copy.deepcopy(dict(example.definition)))
        document = parse_document(json.dumps(definition), "service.yaml")
        checked = check_manifest(SERVICE_DEFINITION, document)
        fit = check_with_task_definition(document, self._get_task_definition(definition))
        assert [str(problem) for problem in (*checked.problems, *checked.warnings, *fit.problems)] == []
        return checked.value

    def _fill_in(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._fill_in(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._fill_in(inner) for inner in value]
        return self.resources[value[1:]] if isinstance(value, str) and value.startswith("@") else value

    def _get_task_definition(self, definition: Mapping[str, Any]) -> Mapping[str, Any]:
        return self.task_definitions["EC2" if definition.get("launchType") == "EC2" else "FARGATE"]

    def create(self, definition: Mapping[str, Any], name: str) -> EcsService:
        arn = self._get_task_definition(definition)["taskDefinitionArn"]
        parameters = {**definition, "serviceName": name, "taskDefinition": arn}
        return self.ecs.create_service(parameters, cluster=CLUSTER, client_token=name[-36:])

    def claim_base(self, base: Mapping[str, Any], name: str) -> EcsService:
        """Return a service with nothing but these fields: one that a test has restored, or a new one."""
        return self.bases.pop(json.dumps(base), None) or self.create(base, name)

    def describe(self, service: EcsService, definition: Mapping[str, Any]) -> dict[str, Any]:
        """Return the fields of a service, with those of its revision if the definition has any."""
        raw = merge_deployment_fields(service) | read_revision_fields(self.ecs, definition, service)
        return {**raw, "role": raw.get("roleArn"), "tags": service.raw.get("tags")}


@pytest.fixture(scope="module")
def account(sandbox_process: SandboxProcess) -> Account:
    sandbox_process.clear_faults()
    sandbox_process.reset()
    seed = sandbox_process.seed()
    balancer = seed["load_balancer"]
    resources = {
        "subnets": list(seed["subnets"]),
        "security groups": [seed["security_group"]],
        "target1": balancer["target_groups"]["target1"],
        "target2": balancer["target_groups"]["target2"],
        "production rule": balancer["prod_listener"]["default_rule_arn"],
        "test rule": balancer["stage_listener"]["default_rule_arn"],
    }
    key = AccessKey("AKIATEST", "secret")
    ecs = EcsClient(BotoCaller(key, seed["region"], sandbox_process.url, sleep=skip_sleep))
    role = seed["execution_role_arn"]
    task_definitions = {
        kind: ecs.register_task_definition(_build_task_definition(kind, role)).raw
        for kind in ("FARGATE", "EC2")
    }
    return Account(ecs, resources, task_definitions)


def _build_task_definition(kind: str, role: str) -> dict[str, Any]:
    ports = [{"containerPort": 80, "name": "http"}]
    return {
        "family": kind.lower(),
        "requiresCompatibilities": [kind],
        "networkMode": "awsvpc" if kind == "FARGATE" else "bridge",
        "cpu": "256",
        "memory": "512",
        "taskRoleArn": role,
        "executionRoleArn": role,
        "containerDefinitions": [{"name": "web", "image": "shop:1", "portMappings": ports}],
        "volumes": [{"name": "data", "configuredAtLaunch": True}],
    }


def _list_drift(account: Account, definition: Mapping[str, Any], service: EcsService) -> list[str]:
    actual = ServiceDocuments(
        service=account.describe(service, {}), count=service.desired, tags=parse_tags(service.raw.get("tags"))
    )
    desired = ServiceDocuments(
        service=definition, count=definition["desiredCount"], tags=parse_tags(definition.get("tags"))
    )
    return list_paths(find_differences(desired, actual, aws_defaults=find_aws_defaults(desired, actual)))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda example: example.name)
def test_a_field_reaches_a_new_service_and_an_updated_one_without_drift(
    account: Account, example: FieldExample
) -> None:
    definition = account.validate(example)
    paths = tuple(path for path in example.paths if path != NAME)
    created = account.create(definition, f"created-{EXAMPLES.index(example)}")
    assert select_members(account.describe(created, definition), paths) == select_members(definition, paths)
    assert _list_drift(account, definition, created) == []

    changes = select_changeable_fields(definition)
    if example.paths[0][0] in {*SET_AT_CREATION, "desiredCount", "deploymentController"}:
        return
    assert example.paths[0][0] in changes
    kept = ("launchType", "desiredCount", "networkConfiguration")
    base = {key: definition[key] for key in kept if key in definition}
    before = account.claim_base(base, name=f"updated-{EXAMPLES.index(example)}")
    snapshot = build_snapshot(before, read_revision_fields(account.ecs, definition, before))
    forced = {"forceNewDeployment": True} if requires_new_deployment(definition, before) else {}
    updated = account.ecs.update_service(CLUSTER, before.name, {**changes, **forced})
    assert select_members(account.describe(updated, definition), paths) == select_members(definition, paths)
    assert _list_drift(account, definition, updated) == []

    restoring = select_restored_fields(definition, snapshot["raw"], updated)
    restored = account.ecs.update_service(CLUSTER, before.name, restoring)
    assert _list_drift(account, base, restored) == []
    account.bases[json.dumps(base)] = restored


def test_only_the_fields_that_are_set_at_creation_are_missing_in_an_update() -> None:
    names = get_parameter_names("ecs", "CreateService") - SERVICE_FIELDS.not_applicable.keys()
    assert names - get_parameter_names("ecs", "UpdateService") == SET_AT_CREATION
