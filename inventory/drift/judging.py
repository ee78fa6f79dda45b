"""Judges one ECS service: what of it differs from what was deployed last, or why nobody can tell."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final

from guards.text import clean
from inventory.drift.desired import Desired, Wanted
from inventory.drift.documents.comparing import Difference, Documents, choices, differences
from inventory.drift.documents.shape import SERVICE_DEFINITION
from inventory.drift.reading import Reading
from inventory.drift.running import running_documents
from inventory.models.drift import Comparison, KnownRevision
from inventory.models.instances import SeenService, SyncedCluster

BEING_CHANGED: Final = (
    "An execution has the right to change this ECS service now. It is compared once that has ended and sync "
    "has seen what it left."
)
NOTHING_DEPLOYED: Final = "Nothing that Slipway has deployed with success runs here under this name."
NO_SENSE: Final = "AWS shows this ECS service in a way that cannot be compared."
_REASON: Final = 512


@dataclass(frozen=True)
class Look:
    """All that is known of one cluster as it is compared."""

    cluster: SyncedCluster
    reading: Reading
    wanted: Wanted
    revisions: Mapping[str, KnownRevision]
    now: datetime


@dataclass(frozen=True)
class Verdict:
    """What was found; without `desired` nothing was compared, and `state` says how that is called."""

    reason: str = ""
    state: Comparison.State = Comparison.State.NOT_COMPARED
    desired: Desired | None = None
    different: tuple[Difference, ...] = ()


def is_news(look: Look, seen: SeenService) -> bool:
    """Whether it runs a revision that the look did not know of when it began."""
    if seen.name in look.wanted.deploying:
        return False
    desired, arn = look.wanted.desired.get(seen.name), seen.task_definition
    is_ours = desired is None or arn == desired.revision
    return not is_ours and arn not in look.revisions and arn not in look.reading.wanted


def judge(look: Look, seen: SeenService, comparison: Comparison) -> Verdict:
    """Compare an ECS service; what AWS had chosen for a deployment is noted in `comparison` once."""
    if seen.name in look.wanted.deploying:
        return Verdict(BEING_CHANGED, Comparison.State.DEPLOYING)
    desired = look.wanted.desired.get(seen.name)
    if desired is None:
        return Verdict(_why_not(look, seen))
    try:
        return _compared(look, seen, comparison, desired)
    except (ValueError, TypeError, AttributeError, LookupError):
        # Whatever one of them is shown as, the others are compared.
        return Verdict(NO_SENSE)


def _why_not(look: Look, seen: SeenService) -> str:
    latest = look.wanted.latest.get(seen.name)
    if latest is None or latest.ecs_service in ("", seen.name):
        return NOTHING_DEPLOYED
    return clean(
        f"It stands beside {latest.ecs_service}, which was deployed last and is compared in its place."
    )[:_REASON]


def _compared(look: Look, seen: SeenService, comparison: Comparison, desired: Desired) -> Verdict:
    found, expected = _documents(look, seen, desired)
    chosen = comparison.chosen
    if comparison.chosen_for != desired.key:
        chosen = choices(expected, found)
    different = [*differences(expected, found, chosen=chosen)]
    if not different and seen.task_definition != desired.revision:
        # The same document as another revision: nothing else would tell.
        different.append(
            Difference(SERVICE_DEFINITION, "taskDefinition", desired.revision, seen.task_definition)
        )
    comparison.chosen, comparison.chosen_for = chosen, desired.key
    reason = look.reading.scaling_unread[:_REASON]
    return Verdict(reason, desired=desired, different=tuple(different))


def _documents(look: Look, seen: SeenService, desired: Desired) -> tuple[Documents, Documents]:
    """What runs, and what should, of which both are known."""
    revision = look.revisions.get(seen.task_definition)
    is_foreign = seen.task_definition != desired.revision and revision is not None
    definition = json.loads(revision.content) if revision is not None and is_foreign else None
    found = running_documents(
        seen,
        task_definition=definition,
        target=look.reading.targets.get(seen.name),
        policies=look.reading.policies.get(seen.name, {}),
    )
    expected = desired.documents
    if look.reading.scaling_unread:
        expected = Documents(expected.task_definition, expected.service, tags=expected.tags)
    elif found.target is not None or expected.target is not None:
        # The count is auto scaling's.
        expected = replace(expected, count=None)
    return found, expected
