"""Daemon task definitions: revisions of families of their own.

Source: ECS API, RegisterDaemonTaskDefinition, DescribeDaemonTaskDefinition, ListDaemonTaskDefinitions.
"""

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from sandbox.clock import CLOCK
from sandbox.services.ecs.errors import EcsClientException
from sandbox.services.ecs.validations import NAME_PATTERN

_STORED_FIELDS: Final = (
    "family", "taskRoleArn", "executionRoleArn", "containerDefinitions", "volumes", "cpu", "memory",
    "pidMode", "ipcMode",
)  # fmt: skip


@dataclass(eq=False)
class DaemonTaskDefinition:
    """One revision; `document` is the registered one."""

    daemon_task_definition_arn: str
    family: str
    revision: int
    document: dict[str, Any]
    registered_at: datetime
    registered_by: str
    status: str = "ACTIVE"
    delete_requested_at: datetime | None = None

    def to_wire(self) -> dict[str, Any]:
        """Return the revision in the format of DescribeDaemonTaskDefinition."""
        return {
            **self.document,
            "daemonTaskDefinitionArn": self.daemon_task_definition_arn,
            "revision": self.revision,
            "status": self.status,
            "registeredAt": self.registered_at,
            "registeredBy": self.registered_by,
            "deleteRequestedAt": self.delete_requested_at,
        }

    def summarize(self) -> dict[str, Any]:
        """Return the revision in the format of ListDaemonTaskDefinitions."""
        wire = self.to_wire()
        names = ("registeredAt", "registeredBy", "deleteRequestedAt", "status")
        return {"arn": self.daemon_task_definition_arn, **{name: wire[name] for name in names}}


class DaemonTaskDefinitionRegistry:
    """The daemon task definitions of one account and region."""

    def __init__(self, account_id: str, region: str) -> None:
        self.prefix = f"arn:aws:ecs:{region}:{account_id}:daemon-task-definition"
        self.registered_by = f"arn:aws:iam::{account_id}:root"
        self.families: dict[str, list[DaemonTaskDefinition]] = {}

    def register(self, params: Mapping[str, Any]) -> DaemonTaskDefinition:
        """Register the next revision of a family. Raises ClientException."""
        family = params.get("family") or ""
        if not NAME_PATTERN.match(family):
            raise EcsClientException("Family contains invalid characters or is longer than 255.")
        if not params.get("containerDefinitions"):
            raise EcsClientException("Container list cannot be empty.")
        revisions = self.families.setdefault(family, [])
        document = {name: copy.deepcopy(params[name]) for name in _STORED_FIELDS if params.get(name)}
        document.setdefault("pidMode", "none")
        document.setdefault("ipcMode", "none")
        number = len(revisions) + 1
        arn = f"{self.prefix}/{family}:{number}"
        made = DaemonTaskDefinition(arn, family, number, document, CLOCK.now(), self.registered_by)
        revisions.append(made)
        return made

    def get(self, reference: str) -> DaemonTaskDefinition:
        """Return the revision of `family:revision` or an ARN; of a family alone, its latest active one.

        Raises ClientException.
        """
        family, _, number = reference.rpartition("/")[2].partition(":")
        revisions = self.families.get(family, [])
        active = [revision for revision in revisions if revision.status == "ACTIVE"]
        candidates = [r for r in revisions if str(r.revision) == number] if number else active[-1:]
        if not candidates:
            raise EcsClientException("Unable to describe daemon task definition.")
        return candidates[0]

    def delete(self, reference: str) -> DaemonTaskDefinition:
        """Mark a revision for deletion. Raises ClientException."""
        definition = self.get(reference)
        if definition.status == "ACTIVE":
            definition.status, definition.delete_requested_at = "DELETE_IN_PROGRESS", CLOCK.now()
        return definition

    def list_revisions(self, params: Mapping[str, Any]) -> list[DaemonTaskDefinition]:
        """Return the revisions that the filters of ListDaemonTaskDefinitions choose."""
        status = params.get("status") or "ACTIVE"
        chosen: list[DaemonTaskDefinition] = []
        for family, revisions in sorted(self.families.items()):
            if family != (params.get("family") or family):
                continue
            if family.startswith(params.get("familyPrefix") or ""):
                matching: Sequence[DaemonTaskDefinition] = [
                    revision for revision in revisions if status in (revision.status, "ALL")
                ]
                chosen += matching[-1:] if params.get("revision") == "LAST_REGISTERED" else matching
        return chosen[::-1] if params.get("sort") == "DESC" else chosen
