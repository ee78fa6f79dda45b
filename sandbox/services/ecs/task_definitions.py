"""Task definitions and their revisions."""

import copy
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from moto.ecs.exceptions import RevisionNotFoundException, TaskDefinitionNotFoundException

from sandbox.clock import CLOCK
from sandbox.services.ecs import validations
from sandbox.services.ecs.errors import EcsClientException, InvalidEcsParameter
from sandbox.services.ecs.records import SandboxTaskDefinition
from sandbox.services.ecs.validations import check_task_definition

CONTAINER_DEFAULTS: dict[str, Any] = {
    "cpu": 0,
    "portMappings": [],
    "essential": True,
    "environment": [],
    "mountPoints": [],
    "volumesFrom": [],
    "systemControls": [],
}
STORED_FIELDS = (
    "family",
    "taskRoleArn",
    "executionRoleArn",
    "networkMode",
    "containerDefinitions",
    "volumes",
    "placementConstraints",
    "requiresCompatibilities",
    "cpu",
    "memory",
    "pidMode",
    "ipcMode",
    "proxyConfiguration",
    "inferenceAccelerators",
    "ephemeralStorage",
    "runtimePlatform",
    "enableFaultInjection",
    "trustedExecutionConfiguration",
)
MAX_DELETED = 10


@lru_cache(maxsize=10_000)
def _parse_reference(reference: str) -> tuple[str, str]:
    """Return family and revision of `family`, `family:revision` or an ARN."""
    family, _, revision = reference.rpartition("/")[2].partition(":")
    return family, revision


class TaskDefinitionRegistry:
    """The families of one account and region."""

    def __init__(self, account_id: str, region: str) -> None:
        self.account_id = account_id
        self.region = region
        self.families: dict[str, dict[int, SandboxTaskDefinition]] = {}
        self.last_revision: dict[str, int] = {}

    def register(self, params: Mapping[str, Any]) -> SandboxTaskDefinition:
        check_task_definition(params)
        family = params["family"]
        revision = self.last_revision.get(family, 0) + 1
        self.last_revision[family] = revision
        prefix = f"arn:aws:ecs:{self.region}:{self.account_id}"
        made = SandboxTaskDefinition(
            arn=f"{prefix}:task-definition/{family}:{revision}",
            family=family,
            revision=revision,
            document=_apply_defaults(params),
            registered_at=CLOCK.now(),
            registered_by=f"arn:aws:iam::{self.account_id}:root",
            tags=copy.deepcopy(params.get("tags") or []),
        )
        self.families.setdefault(family, {})[revision] = made
        return made

    def find(self, reference: str) -> SandboxTaskDefinition | None:
        """Return the revision of `family:revision` or an ARN; of a family alone, its latest active one."""
        family, revision = _parse_reference(reference)
        revisions = self.families.get(family, {})
        if revision:
            return revisions.get(int(revision)) if revision.isdigit() else None
        active = [d for d in revisions.values() if d.status == "ACTIVE"]
        return max(active, key=lambda d: d.revision, default=None)

    def get(self, reference: str) -> SandboxTaskDefinition:
        definition = self.find(reference)
        if definition is None:
            raise TaskDefinitionNotFoundException
        return definition

    def get_usable(self, reference: str) -> SandboxTaskDefinition:
        """Return the revision for new tasks.

        Raises the AWS error for a missing or inactive one.
        """
        definition = self.find(reference)
        if definition is None:
            raise EcsClientException("TaskDefinition not found.")
        if definition.status != "ACTIVE":
            raise EcsClientException("TaskDefinition is inactive")
        return definition

    def deregister(self, reference: str) -> SandboxTaskDefinition:
        _, _, revision = reference.rpartition("/")[2].partition(":")
        if not revision:
            raise RevisionNotFoundException
        if not revision.isdigit():
            raise InvalidEcsParameter(f"Invalid revision number. Number: {revision}")
        definition = self.find(reference)
        if definition is None:
            raise TaskDefinitionNotFoundException
        if definition.status == "ACTIVE":
            definition.status = "INACTIVE"
            definition.deregistered_at = CLOCK.now()
        return definition

    def delete(self, references: list[str]) -> tuple[list[SandboxTaskDefinition], list[dict[str, str]]]:
        """Delete deregistered revisions; others are returned as failures."""
        if not references or len(references) > MAX_DELETED:
            raise InvalidEcsParameter(f"Specify 1 to {MAX_DELETED} task definitions.")
        deleted, failures = [], []
        for reference in references:
            definition = self.find(reference) if ":" in reference.rpartition("/")[2] else None
            reason = _describe_delete_failure(definition)
            if definition is None or reason:
                failures.append({"arn": reference, "reason": reason})
                continue
            definition.status = "DELETE_IN_PROGRESS"
            definition.delete_requested_at = CLOCK.now()
            deleted.append(definition)
        return deleted, failures

    def purge(self, in_use: set[str]) -> None:
        """Delete the records of deleted revisions without running tasks."""
        for revisions in self.families.values():
            for number, definition in list(revisions.items()):
                if definition.status == "DELETE_IN_PROGRESS" and definition.arn not in in_use:
                    del revisions[number]

    def list_arns(self, *, family: str | None, status: str, newest_first: bool) -> list[str]:
        definitions = [
            d
            for name, revisions in sorted(self.families.items())
            if family is None or name == family
            for d in revisions.values()
            if d.status == status
        ]
        definitions.sort(key=lambda d: (d.family, d.revision), reverse=newest_first)
        return [d.arn for d in definitions]

    def list_families(self, *, prefix: str, status: str) -> list[str]:
        def matches(revisions: dict[int, SandboxTaskDefinition]) -> bool:
            is_active = any(d.status == "ACTIVE" for d in revisions.values())
            return status == "ALL" or (status == "ACTIVE") == is_active

        return sorted(
            f for f, revisions in self.families.items() if f.startswith(prefix) and matches(revisions)
        )


def _describe_delete_failure(definition: SandboxTaskDefinition | None) -> str:
    if definition is None:
        return (
            "The specified task definition does not exist."
            " Specify a valid account, family, revision and try again."
        )
    if definition.status == "ACTIVE":
        return (
            "The specified task definition is still in ACTIVE status."
            " Please deregister the target and try again."
        )
    return ""


def _apply_defaults(params: Mapping[str, Any]) -> dict[str, Any]:
    document = {name: copy.deepcopy(params[name]) for name in STORED_FIELDS if params.get(name) is not None}
    needs = document.get("requiresCompatibilities") or []
    document.setdefault("networkMode", "awsvpc" if "FARGATE" in needs else "bridge")
    document.setdefault("volumes", [])
    document.setdefault("placementConstraints", [])
    document["compatibilities"] = _compute_compatibilities(document)
    for size in ("cpu", "memory"):
        if size in document and (number := validations.parse_size(document[size])) is not None:
            document[size] = str(number)
    document["containerDefinitions"] = [
        _apply_container_defaults(c, document["networkMode"]) for c in document["containerDefinitions"]
    ]
    return document


def _compute_compatibilities(document: Mapping[str, Any]) -> list[str]:
    needs = document.get("requiresCompatibilities") or []
    can_fargate = document["networkMode"] == "awsvpc" and "cpu" in document and "memory" in document
    return ["EC2", "FARGATE"] if "FARGATE" in needs or (not needs and can_fargate) else ["EC2"]


def _apply_container_defaults(container: Mapping[str, Any], network_mode: str) -> dict[str, Any]:
    full = {**copy.deepcopy(CONTAINER_DEFAULTS), **container}
    for mapping in full["portMappings"]:
        mapping.setdefault("protocol", "tcp")
        if network_mode in ("awsvpc", "host"):
            mapping.setdefault("hostPort", mapping.get("containerPort"))
    return full
