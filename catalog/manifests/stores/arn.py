"""The task definition that AWS has already: its ARN is all that the service keeps (R160)."""

import re
from typing import Final

from catalog.manifests.document import Document
from catalog.manifests.stores.base import Source, StoreError, store
from rbac.models import Scope

TASK_DEFINITION_ARN: Final = "TaskDefinitionArn"
_ARN: Final = re.compile(
    r"arn:aws[a-z-]*:ecs:[a-z0-9-]+:\d{12}:task-definition/[A-Za-z0-9_-]{1,255}(:[1-9]\d{0,9})?\Z", re.ASCII
)


@store(TASK_DEFINITION_ARN, title="task definition ARN")
def fetch_arn(source: Source, _scope: Scope) -> tuple[Document, ...]:
    """There is no text to fetch; a deployment hands the ARN to ECS as it is."""
    if not source.get("content"):
        return ()
    raise StoreError(f"The manifest {source['identifier']} is an ARN and has no text.")


def arn_problem(text: str) -> str:
    """What is wrong with the ARN of a task definition, or nothing; expressions count as right."""
    if "<+" in text or _ARN.match(text):
        return ""
    if not text:
        return "needs the ARN of a task definition"
    return (
        "is no ARN of a task definition: it is arn:aws:ecs:region:account:task-definition/family:revision "
        "(without the revision, the newest one counts)"
    )
