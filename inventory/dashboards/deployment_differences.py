"""Differences between two versions of an ECS service, in groups, with possible secrets hidden."""

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from deployments.models import StageExecution, StepExecution
from deployments.preview.documents import compare_task_definitions
from guards.limits import DRIFT_FIELDS
from guards.masks import SecretMask
from inventory.drift.desired_state import read_step_documents
from inventory.drift.documents.differences import (
    FieldDifference,
    ServiceDocuments,
    find_differences,
    is_sensitive_path,
)
from inventory.drift.documents.field_rules import SCALABLE_TARGET, SCALING_POLICY
from inventory.drift.redaction import REDACTED_VALUE, DriftMasks, redact_path, redact_value
from inventory.drift.service_changes import DEPLOY_STEPS
from web.text_diffs import TextDiff

IMAGE: Final = "image"
CONFIG: Final = "config"
SIZING: Final = "sizing"
GROUP_TITLES: Final[Mapping[str, str]] = {IMAGE: "Image", CONFIG: "Configuration", SIZING: "Sizing"}
_SIZING_DOCUMENTS: Final = (SCALABLE_TARGET, SCALING_POLICY)
_SIZING_FIELDS: Final = frozenset(
    {"cpu", "memory", "memoryReservation", "sizeInGiB", "sharedMemorySize", "resourceRequirements"}
    | {"desiredCount", "MinCapacity", "MaxCapacity"}
)
_INDEX: Final = re.compile(r"\[[^\]]*\]")


@dataclass(frozen=True)
class DifferenceRow:
    """Field that differs; a value is None where the field is absent.

    `is_hidden` tells that a value may be a secret: only the fact that it changes is known.
    """

    document: str
    path: str
    old: str | None
    new: str | None
    is_hidden: bool


@dataclass(frozen=True)
class DifferenceGroup:
    """Fields that differ and have one purpose."""

    name: str
    rows: tuple[DifferenceRow, ...]

    @property
    def title(self) -> str:
        return GROUP_TITLES[self.name]


@dataclass(frozen=True)
class VersionDifference:
    """Fields that differ by group, and the task definitions line by line.

    `is_complete` is false where only the task definitions are known of both. `hidden_count` is the number of
    fields above the limit.
    """

    groups: tuple[DifferenceGroup, ...]
    text: TextDiff | None
    is_complete: bool
    hidden_count: int = 0

    @property
    def count(self) -> int:
        return sum(len(group.rows) for group in self.groups) + self.hidden_count


@dataclass(frozen=True)
class DeploymentDifference:
    """Two deployments compared; `difference` is None where the task definition of one is unknown."""

    old: StageExecution
    new: StageExecution
    difference: VersionDifference | None
    missing: tuple[StageExecution, ...]


def compare_deployments(old: StageExecution, new: StageExecution) -> DeploymentDifference:
    """Compare what two deployments deployed; a fixed number of queries."""
    documents = load_deployed_documents((old, new))
    missing = tuple(stage for stage in (old, new) if stage.pk not in documents)
    if missing:
        return DeploymentDifference(old, new, None, missing)
    mask = load_secret_mask((old, new))
    return DeploymentDifference(
        old, new, compare_versions(documents[old.pk], documents[new.pk], mask), missing
    )


def load_deployed_documents(stages: Iterable[StageExecution]) -> dict[int, ServiceDocuments]:
    """Return the documents that each of these stages deployed; two queries.

    Stages without a known task definition are left out.
    """
    steps = list(
        StepExecution.objects.filter(stage__in=[stage.pk for stage in stages])
        .order_by("position")
        .only("stage", "type", "run")
    )
    by_step = read_step_documents(steps)
    by_stage: dict[int, ServiceDocuments] = {}
    # The last step that deploys the service counts, or else the last that runs a task.
    for step in sorted(steps, key=lambda step: step.type in DEPLOY_STEPS):
        documents = by_step.get(step.pk)
        if documents is not None and documents.task_definition is not None:
            by_stage[step.stage_id] = documents
    return by_stage


def load_secret_mask(stages: Sequence[StageExecution]) -> SecretMask | None:
    """Return the mask for everything that these deployments could use; None if it cannot be decrypted."""
    rows = StageExecution.objects.filter(pk__in=[stage.pk for stage in stages]).select_related(
        "connector__secret", "execution__scope"
    )
    loaded = list(rows.defer("sources", "values", "execution__yaml"))
    return DriftMasks().build_mask(loaded[-1].execution.scope, loaded) if loaded else None


def compare_versions(
    old: ServiceDocuments, new: ServiceDocuments, mask: SecretMask | None
) -> VersionDifference:
    """Compare two versions field by field and line by line; without a mask no value is shown."""
    # The tags of both count, while drift ignores tags that no manifest sets.
    tagged = replace(old, tags={**dict.fromkeys(new.tags, ""), **old.tags})
    differences = find_differences(tagged, new, aws_defaults={})
    grouped: dict[str, list[DifferenceRow]] = {name: [] for name in GROUP_TITLES}
    for difference in differences[:DRIFT_FIELDS]:
        grouped[_get_group(difference)].append(_build_row(difference, mask))
    return VersionDifference(
        tuple(DifferenceGroup(name, tuple(rows)) for name, rows in grouped.items()),
        _compare_lines(old, new, mask),
        is_complete=old.service is not None and new.service is not None,
        hidden_count=max(0, len(differences) - DRIFT_FIELDS),
    )


def _compare_lines(old: ServiceDocuments, new: ServiceDocuments, mask: SecretMask | None) -> TextDiff | None:
    if mask is None or old.task_definition is None or new.task_definition is None:
        return None
    return compare_task_definitions(old.task_definition, new.task_definition, mask)


def _get_group(difference: FieldDifference) -> str:
    fields = _INDEX.sub("", difference.path).split(".")
    if fields[-1] == "image":
        return IMAGE
    if difference.document in _SIZING_DOCUMENTS or not _SIZING_FIELDS.isdisjoint(fields):
        return SIZING
    return CONFIG


def _build_row(difference: FieldDifference, mask: SecretMask | None) -> DifferenceRow:
    old, new = (
        redact_value(difference.path, value, mask) for value in (difference.desired, difference.actual)
    )
    return DifferenceRow(
        difference.document,
        redact_path(difference, mask),
        _format_value(old),
        _format_value(new),
        is_hidden=is_sensitive_path(difference.path) or REDACTED_VALUE in (old, new),
    )


def _format_value(value: Any) -> str | None:
    if value is None or isinstance(value, str):
        return value
    return json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False)
