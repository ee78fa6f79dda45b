"""Store of existing task definitions: a service keeps the ARN alone (R160)."""

import re
from typing import Final

from catalog.manifests.documents import Document
from catalog.manifests.stores.registry import ManifestSource, StoreError, register_store
from rbac.models import Scope

TASK_DEFINITION_ARN: Final = "TaskDefinitionArn"
_ARN_PATTERN: Final = re.compile(
    r"arn:aws[a-z-]*:ecs:[a-z0-9-]+:\d{12}:task-definition/[A-Za-z0-9_-]{1,255}(:[1-9]\d{0,9})?\Z", re.ASCII
)


@register_store(TASK_DEFINITION_ARN, title="task definition ARN")
def fetch_arn(source: ManifestSource, _scope: Scope) -> tuple[Document, ...]:
    """There is no text to fetch; a deployment hands the ARN to ECS as it is."""
    if not source.get("content"):
        return ()
    raise StoreError(f"The manifest {source['identifier']} is an ARN and has no text.")


def describe_arn_problem(text: str) -> str:
    """What is wrong with the ARN of a task definition, or nothing; expressions count as right."""
    if "<+" in text or _ARN_PATTERN.match(text):
        return ""
    if not text:
        return "needs the ARN of a task definition"
    return (
        "is no ARN of a task definition: it is arn:aws:ecs:region:account:task-definition/family:revision "
        "(without the revision, the newest one counts)"
    )
