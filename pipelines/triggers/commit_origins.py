"""Commits and repositories of the pushes and images that started executions."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from uuid import UUID

from pipelines.models import TriggerFiring
from pipelines.triggers.kinds.git import GITHUB, PLAIN, PROVIDER, Git
from pipelines.triggers.kinds.image import ImagePush

# Tags of images that are commits: the whole hash, or a part that is marked as one.
_COMMIT_TAG: Final = re.compile(r"(?:sha-)?([0-9a-f]{40})|sha-([0-9a-f]{7,39})")


@dataclass(frozen=True)
class CommitOrigin:
    """Repository and commit of a firing; `git_service` is that of a Git trigger, such as github."""

    repository: str = ""
    commit: str = ""
    git_service: str = ""


def find_commit_origin(execution_id: UUID) -> CommitOrigin:
    """Return what is known of the event that started an execution; one query."""
    rows = TriggerFiring.objects.filter(execution_id=execution_id)
    row = rows.values_list("trigger__kind", "trigger__spec", "values").first()
    return build_commit_origin(*row) if row is not None else CommitOrigin()


def build_commit_origin(kind: str, spec: Mapping[str, Any], values: Mapping[str, Any]) -> CommitOrigin:
    """Return the origin in the values of an event: of an image its name, and a tag that is a hash."""
    repository = str(values.get("repository") or "")
    if kind == Git.identifier:
        provider = str(spec.get(PROVIDER) or GITHUB)
        service = "" if provider == PLAIN else provider
        return CommitOrigin(repository, str(values.get("commit") or ""), service)
    if kind == ImagePush.identifier:
        match = _COMMIT_TAG.fullmatch(str(values.get("tag") or ""))
        return CommitOrigin(repository, (match[1] or match[2]) if match else "")
    return CommitOrigin()
