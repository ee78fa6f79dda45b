"""Manifest store of existing task definitions, given by ARN (R160)."""

import re
from collections.abc import Mapping, Sequence
from typing import Final

from catalog.manifests.documents import Document
from catalog.manifests.kinds import TASK_DEFINITION
from catalog.manifests.stores.registry import (
    ManifestSource,
    ManifestStore,
    StoreError,
    StoreField,
    register_store,
)
from rbac.models import Scope

TASK_DEFINITION_ARN: Final = "TaskDefinitionArn"
_ARN_PATTERN: Final = re.compile(
    r"arn:aws[a-z-]*:ecs:[a-z0-9-]+:\d{12}:task-definition/[A-Za-z0-9_-]{1,255}(:[1-9]\d{0,9})?\Z", re.ASCII
)


@register_store
class TaskDefinitionArnStore(ManifestStore):
    """Registered task definitions of AWS; a deployment passes the ARN to ECS unchanged."""

    name = TASK_DEFINITION_ARN
    title = "task definition ARN"
    choice = "Existing task definition ARN"
    # A step has a field of its own for it.
    serves_steps = False
    content_field = StoreField(
        "arn",
        "ARN of the task definition",
        help="Such as arn:aws:ecs:us-east-1:123456789012:task-definition/web:7. Without :7 the latest "
        "revision is used. A rolling deployment then replaces all tasks, even if nothing changed.",
        max_length=512,
    )

    def describe_problem(
        self, kind: str, content: str, paths: Sequence[str], place: Mapping[str, str]
    ) -> str:
        if kind != TASK_DEFINITION:
            return "only a task definition can be given by its ARN"
        return describe_arn_problem(content)

    def fetch(self, source: ManifestSource, scope: Scope) -> tuple[Document, ...]:
        """Return no texts: there is nothing to fetch."""
        if not source.get("content"):
            return ()
        raise StoreError(f"The manifest {source['identifier']} is an ARN and has no text.")


def describe_arn_problem(text: str) -> str:
    """Return the problem of a task definition ARN, or an empty text; expressions are valid."""
    if "<+" in text or _ARN_PATTERN.match(text):
        return ""
    if ":daemon-task-definition/" in text:
        return (
            "is the ARN of a daemon task definition. No step deploys daemons of managed instances: update "
            "the daemon in AWS with aws ecs update-daemon"
        )
    if not text:
        return "needs the ARN of a task definition"
    return (
        "is not the ARN of a task definition, such as "
        "arn:aws:ecs:region:account:task-definition/family:revision "
        "(without the revision, the latest one is used)"
    )
