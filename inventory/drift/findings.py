"""Findings of a drift scan: rows of differing fields, audit entries and notifications."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from deployments.live.badges import publish_badges_changed
from guards.masks import SecretMask
from inventory.drift.attribution import DriftAttributor
from inventory.drift.comparison import (
    ComparisonContext,
    ComparisonResult,
    compare_service,
    is_unread_revision,
)
from inventory.drift.cursor import DriftCursor
from inventory.drift.desired_state import DesiredState, get_desired_state
from inventory.drift.documents.differences import FieldDifference
from inventory.drift.read_plan import list_compared_services
from inventory.drift.redaction import DriftMasks, compute_drift_fingerprint, redact_path, redact_value
from inventory.models.drift import Drift, DriftComparison, TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from notifications.events import EventType, NotificationEvent
from notifications.outbox import notify
from rbac.audit import record_audit_entry
from web.page_paths import get_page_path

# As many fields as a line of chat has room for.
MAX_NAMED_FIELDS: Final = 5


def build_drift_detected(comparison: DriftComparison, fresh: Sequence[Drift]) -> NotificationEvent:
    """These fields of an ECS service are not as they were deployed."""
    names = [f"{row.document} {row.path}".strip() for row in fresh]
    more = f" and {len(names) - MAX_NAMED_FIELDS} more" if len(names) > MAX_NAMED_FIELDS else ""
    fields = f"{', '.join(names[:MAX_NAMED_FIELDS])}{more}"
    text = f"{comparison.ecs_service.name} was changed outside Slipway: {fields}."
    return _build_fact(
        EventType.DRIFT_FOUND,
        comparison,
        text,
        DriftComparison.State.DRIFTED,
        f"{fields}. {fresh[0].attribution}",
    )


def build_drift_resolved(comparison: DriftComparison) -> NotificationEvent:
    """An ECS service is as it was deployed again."""
    text = f"{comparison.ecs_service.name} is as it was deployed again."
    return _build_fact(EventType.DRIFT_GONE, comparison, text, DriftComparison.State.IN_STEP, "")


def _build_fact(
    event: EventType, comparison: DriftComparison, text: str, status: str, cause: str
) -> NotificationEvent:
    place = comparison.ecs_service.infrastructure
    environment = place.environment if place is not None else None
    return NotificationEvent(
        event=event,
        scope=comparison.scope,
        text=f"{text[:-1]} in {environment.name}." if environment is not None else text,
        path=get_page_path("drift-of-service", comparison.pk),
        status=status,
        cause=cause,
        services=(comparison.ecs_service.name,),
        environments=(environment.identifier,) if environment is not None else (),
    )


_COMPARISON_FIELDS: Final = (
    "state",
    "reason",
    "execution",
    "aws_defaults",
    "aws_defaults_deployment",
    "compared_at",
)
"""What a look changes of a comparison."""


@dataclass(frozen=True)
class IncompleteComparisons:
    """Whether there are ECS services that this look could not judge.

    `is_unread_revision`: sync has seen since what the look has not read; `is_settling`: an execution has
    changed since what sync, or the look, has seen.
    """

    has_unread_revisions: bool
    is_settling: bool


@dataclass(frozen=True)
class NewDrift:
    """What is new about one ECS service."""

    comparison: DriftComparison
    desired: DesiredState
    rows: Sequence[Drift]


@dataclass
class DriftFindings:
    """What a look found of all ECS services: what differs newly, what no more, and where nothing does now."""

    detected: list[NewDrift] = field(default_factory=list)
    resolved: list[Drift] = field(default_factory=list)
    resolved_comparisons: list[DriftComparison] = field(default_factory=list)


def update_comparisons(cluster: SyncedCluster, reading: DriftCursor, now: datetime) -> IncompleteComparisons:
    """Compare every ECS service that Slipway deploys in this cluster; inside the commit that ends a look.

    Says what of it waits for the next look.
    """
    seen = [one for one in list_compared_services(cluster) if one.service_id is not None]
    arns = {one.task_definition for one in seen}
    revisions = {one.arn: one for one in TaskDefinitionRevision.objects.filter(arn__in=arns)}
    wanted = get_desired_state(cluster, seen, datetime.fromisoformat(reading.started_at))
    look = ComparisonContext(cluster, reading, wanted, revisions, now)
    settled = [one for one in seen if one.name not in look.desired_state.settling]
    ready = [one for one in settled if not is_unread_revision(look, one)]
    _compare_services(look, ready, _get_or_create_comparisons(seen))
    _delete_orphaned_comparisons(cluster)
    TaskDefinitionRevision.objects.filter(arn__in=arns).update(used_at=now)
    return IncompleteComparisons(
        has_unread_revisions=len(ready) < len(settled), is_settling=len(settled) < len(seen)
    )


def _delete_orphaned_comparisons(cluster: SyncedCluster) -> None:
    """Forget what was found where Slipway deploys no more: its service was deleted."""
    gone = DriftComparison.objects.filter(ecs_service__cluster=cluster, ecs_service__service=None)
    if gone.delete()[0]:
        publish_badges_changed()


def _compare_services(
    look: ComparisonContext, ready: Sequence[EcsServiceRecord], known: Mapping[int, DriftComparison]
) -> None:
    before = {one.pk: one.state for one in known.values()}
    open_drifts, outcome, hiding = _get_open_drifts(known), DriftFindings(), DriftMasks()
    for one in ready:
        comparison = known[one.pk]
        verdict = compare_service(look, one, comparison)
        _apply_result(look, comparison, verdict, open_drifts.get(comparison.pk, {}), outcome, hiding)
    _save_findings(look, outcome)
    DriftComparison.objects.bulk_update(known.values(), _COMPARISON_FIELDS)
    if any(one.state != before[one.pk] for one in known.values()):
        publish_badges_changed()


def _get_or_create_comparisons(seen: list[EcsServiceRecord]) -> dict[int, DriftComparison]:
    known = set(DriftComparison.objects.filter(ecs_service__in=seen).values_list("ecs_service", flat=True))
    DriftComparison.objects.bulk_create(
        [DriftComparison(ecs_service=one) for one in seen if one.pk not in known], ignore_conflicts=True
    )
    rows = DriftComparison.objects.filter(ecs_service__in=seen).select_related(
        "ecs_service__cluster__connector__scope", "ecs_service__infrastructure__environment__scope"
    )
    return {row.ecs_service_id: row for row in rows}


def _get_open_drifts(known: Mapping[int, DriftComparison]) -> dict[int, dict[tuple[str, str], Drift]]:
    found: dict[int, dict[tuple[str, str], Drift]] = {}
    for one in Drift.objects.filter(comparison__in=known.values(), resolved_at=None):
        found.setdefault(one.comparison_id, {})[one.document, one.path] = one
    return found


def _apply_result(
    look: ComparisonContext,
    comparison: DriftComparison,
    verdict: ComparisonResult,
    known: Mapping[tuple[str, str], Drift],
    outcome: DriftFindings,
    hiding: DriftMasks,
) -> None:
    """Say of one comparison what was found, and note which rows come and go."""
    comparison.compared_at, comparison.reason = look.now, verdict.reason
    if verdict.desired is None:
        comparison.state = verdict.state
        if verdict.state == DriftComparison.State.NOT_COMPARED:
            outcome.resolved += known.values()
        return
    comparison.execution = verdict.desired.execution
    mask = hiding.get_mask(comparison, verdict.desired) if verdict.differences else None
    kept, fresh = [], []
    for one in verdict.differences:
        row = known.get((one.document, redact_path(one, mask)))
        if row is None or row.fingerprint != compute_drift_fingerprint(one):
            row = _build_drift_row(look, comparison, one, mask)
            fresh.append(row)
        kept.append(row)
    stays = {row.pk for row in kept if row.pk}
    outcome.resolved += [row for row in known.values() if row.pk not in stays]
    if known and not kept:
        outcome.resolved_comparisons.append(comparison)
    if fresh:
        outcome.detected.append(NewDrift(comparison, verdict.desired, fresh))
    comparison.state = _compute_state(kept)


def _build_drift_row(
    look: ComparisonContext, comparison: DriftComparison, one: FieldDifference, mask: SecretMask | None
) -> Drift:
    return Drift(
        comparison=comparison,
        document=one.document,
        path=redact_path(one, mask),
        desired=redact_value(one.path, one.desired, mask),
        actual=redact_value(one.path, one.actual, mask),
        fingerprint=compute_drift_fingerprint(one),
        detected_at=look.now,
    )


def _compute_state(drifts: Iterable[Drift]) -> DriftComparison.State:
    rows = list(drifts)
    if not rows:
        return DriftComparison.State.IN_STEP
    if all(row.accepted_at for row in rows):
        return DriftComparison.State.ACCEPTED
    return DriftComparison.State.DRIFTED


def _save_findings(look: ComparisonContext, outcome: DriftFindings) -> None:
    """End the rows of what differs no more, then write those of what differs newly, with who did it."""
    ended = [row.pk for row in outcome.resolved]
    if ended:
        Drift.objects.filter(pk__in=ended, resolved_at=None).update(resolved_at=look.now)
    notify(*map(build_drift_resolved, outcome.resolved_comparisons))
    if outcome.detected:
        _save_new_drift(look, outcome.detected)


def _save_new_drift(look: ComparisonContext, found: Sequence[NewDrift]) -> None:
    teller = DriftAttributor.of(look, [(one.comparison.ecs_service, one.desired) for one in found])
    for one in found:
        words = teller.describe_changes(
            one.comparison.ecs_service, one.desired, [row.path for row in one.rows]
        )
        for row in one.rows:
            row.attribution = words
    Drift.objects.bulk_create(row for one in found for row in one.rows)
    for one in found:
        _record_audit_entry(one)
    notify(*(build_drift_detected(one.comparison, one.rows) for one in found))


def _record_audit_entry(found: NewDrift) -> None:
    """Write down that something was changed outside, where the changes of people are written too."""
    fields = [f"{row.document} {row.path}".strip() for row in found.rows]
    after = {"fields": fields, "told": found.rows[0].attribution}
    record_audit_entry(actor=None, action="drift.found", thing=found.comparison, after=after)
