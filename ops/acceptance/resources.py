"""Disposable resources of an acceptance run in Slipway: project, service, environment and pipelines."""

import json
import re
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from catalog.manifests.stores import INLINE
from catalog.models import Environment, Infrastructure, Manifest, Service
from catalog.operations.environments import EnvironmentSpec, create_environment, delete_environment
from catalog.operations.infrastructures import InfrastructureSpec, create_infrastructure
from catalog.operations.manifests import ManifestSpec
from catalog.operations.services import ServiceSpec, create_service, delete_service
from connectors.models import Connector
from ops.acceptance.targets import AcceptanceImpossible, AcceptanceTarget
from pipelines.models import Pipeline
from pipelines.operations.pipelines import delete_pipeline, save_pipeline
from rbac.models import Scope, User
from rbac.operations.scopes import archive_scope, create_project

IDENTIFIER_PREFIX: Final = "slipway_acceptance_"
AWS_PREFIX: Final = "slipway-acceptance-"
TAG: Final = "slipway:acceptance"
"""Tag of each ECS service and task definition of a run; its value is the run."""
CONTAINER: Final = "web"
SERVING: Final = "exec nginx -g 'daemon off;'"
CRASHING: Final = "sleep 8; exit 1"
BLUE_GREEN_SUFFIX: Final = "-bg"
RUN_PATTERN: Final = re.compile(r"[0-9a-f]{8}")


@dataclass(frozen=True)
class RunKey:
    """The id of a run, with the names that are derived from it."""

    id: str

    @property
    def identifier(self) -> str:
        return f"{IDENTIFIER_PREFIX}{self.id}"

    @property
    def aws_name(self) -> str:
        return f"{AWS_PREFIX}{self.id}"


def create_run_key() -> RunKey:
    """Return the key of a new run."""
    return RunKey(secrets.token_hex(4))


def choose_scope(connector: Connector, organization: Scope | None) -> Scope:
    """Return the project of the connector, or the organization that gets a project for the run.

    Raises `AcceptanceImpossible` for a connector of the account without an `organization`.
    """
    scope: Scope = connector.scope
    if scope.kind != Scope.Kind.ACCOUNT:
        return scope
    if organization is None:
        raise AcceptanceImpossible(
            "The connector belongs to the account. Name the organization that gets a project for the run.",
            errors=[{"path": "organization", "message": "Name an organization."}],
        )
    return organization


def create_disposable_project(*, actor: User, run: RunKey, target: AcceptanceTarget, scope: Scope) -> Scope:
    """Create environment and services of a run in a project, and return it.

    An organization gets a project first.
    """
    if scope.kind == Scope.Kind.ORGANIZATION:
        scope = create_project(actor=actor, organization=scope, identifier=run.identifier, name=run.aws_name)
    description = f"Acceptance run {run.id}. Its end deletes this."
    environment = create_environment(
        actor=actor,
        scope=scope,
        identifier=run.identifier,
        spec=EnvironmentSpec(name=run.aws_name, description=description),
    )
    create_infrastructure(
        actor=actor,
        environment=environment,
        identifier="cluster",
        spec=InfrastructureSpec("Cluster", target.connector, target.region, target.cluster),
    )
    for suffix in ("", BLUE_GREEN_SUFFIX) if target.blue_green else ("",):
        create_service(
            actor=actor,
            scope=scope,
            identifier=run.identifier + suffix.replace("-", "_"),
            spec=_build_service_spec(run, target, suffix, description),
        )
    return scope


def add_pipeline(
    *, actor: User, run: RunKey, scope: Scope, name: str, steps: Mapping[str, Any], script: str, version: str
) -> Pipeline:
    """Add a pipeline that deploys the service with this script as the command of its container."""
    document = _build_pipeline(run, name, steps, script, version)
    return save_pipeline(actor=actor, scope=scope, yaml=json.dumps(document, indent=2))


def delete_disposable_rows(*, actor: User, run: RunKey) -> None:
    """Delete what is left of a run, and archive its project; executions stay as history."""
    for pipeline in Pipeline.objects.filter(identifier__startswith=run.identifier).select_related("scope"):
        delete_pipeline(actor=actor, pipeline=pipeline)
    for service in Service.objects.filter(identifier__startswith=run.identifier).select_related("scope"):
        delete_service(actor=actor, service=service, although_used=True)
    for environment in Environment.objects.filter(identifier=run.identifier).select_related("scope"):
        delete_environment(actor=actor, environment=environment, although_used=True)
    for scope in Scope.objects.filter(identifier=run.identifier, archived_at=None):
        archive_scope(actor=actor, scope=scope)


def list_leftover_runs(target: AcceptanceTarget) -> list[RunKey]:
    """Return the runs that still have an environment in Slipway for this connector and cluster."""
    infrastructures = Infrastructure.objects.filter(
        connector=target.connector,
        cluster=target.cluster,
        environment__identifier__startswith=IDENTIFIER_PREFIX,
    )
    identifiers = infrastructures.values_list("environment__identifier", flat=True).distinct()
    names = sorted(identifier.removeprefix(IDENTIFIER_PREFIX) for identifier in identifiers)
    return [RunKey(name) for name in names if RUN_PATTERN.fullmatch(name)]


def _build_service_spec(run: RunKey, target: AcceptanceTarget, suffix: str, description: str) -> ServiceSpec:
    image, _, tag = target.image.rpartition(":")
    kinds = Manifest.Kind
    documents = (
        ("task_definition", kinds.TASK_DEFINITION, _build_task_definition(run, target, suffix)),
        ("service_definition", kinds.SERVICE_DEFINITION, _build_service_definition(run, target, suffix)),
    )
    manifests = [
        ManifestSpec(identifier, kind, INLINE, content=json.dumps(document, indent=2))
        for identifier, kind, document in documents
    ]
    return ServiceSpec(
        name=run.aws_name + suffix, description=description, image=image, tag=tag, manifests=manifests
    )


def _build_task_definition(run: RunKey, target: AcceptanceTarget, suffix: str) -> dict[str, Any]:
    container = {
        "name": CONTAINER,
        "image": "<+primary.artifact.image>",
        "essential": True,
        "command": ["sh", "-c", "<+pipeline.variables.script>"],
        "environment": [{"name": "ACCEPTANCE_VERSION", "value": "<+pipeline.variables.version>"}],
        "portMappings": [{"containerPort": 80, "protocol": "tcp"}],
    }
    role = {"executionRoleArn": target.execution_role} if target.execution_role else {}
    return {
        "family": run.aws_name + suffix,
        "requiresCompatibilities": ["FARGATE"],
        "networkMode": "awsvpc",
        "cpu": "256",
        "memory": "512",
        **role,
        "containerDefinitions": [container],
        "tags": [{"key": TAG, "value": run.id}],
    }


def _build_service_definition(run: RunKey, target: AcceptanceTarget, suffix: str) -> dict[str, Any]:
    network = {
        "subnets": list(target.subnets),
        "securityGroups": list(target.security_groups),
        "assignPublicIp": "ENABLED" if target.has_public_ip else "DISABLED",
    }
    percentages = {"maximumPercent": 200, "minimumHealthyPercent": 100}
    breaker = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    group = {"targetGroupArn": "<+targetGroupArn>", "containerName": CONTAINER, "containerPort": 80}
    balancing = {"loadBalancers": [group], "healthCheckGracePeriodSeconds": 10} if suffix else {}
    return {
        "serviceName": run.aws_name + suffix,
        "launchType": "FARGATE",
        "desiredCount": 1,
        **balancing,
        "networkConfiguration": {"awsvpcConfiguration": network},
        "deploymentConfiguration": percentages if suffix else percentages | breaker,
        "tags": [{"key": TAG, "value": run.id}],
    }


def _build_pipeline(
    run: RunKey, name: str, steps: Mapping[str, Any], script: str, version: str
) -> dict[str, Any]:
    suffix = BLUE_GREEN_SUFFIX.replace("-", "_") if name.startswith("blue_green") else ""
    environment = {
        "environmentRef": run.identifier,
        "infrastructureDefinitions": [{"identifier": "cluster"}],
    }
    spec = {
        "deploymentType": "ECS",
        "service": {"serviceRef": run.identifier + suffix},
        "environment": environment,
        "execution": steps,
    }
    stage = {"identifier": "deploy", "name": "Deploy", "type": "Deployment", "spec": spec}
    return {
        "pipeline": {
            "identifier": f"{run.identifier}_{name}",
            "name": f"{run.aws_name} {name}",
            "variables": {"script": script, "version": version},
            "stages": [{"stage": stage}],
        }
    }
