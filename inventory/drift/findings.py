"""Findings of a drift scan: rows of differing fields, audit entries and notifications."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from django.db.models import Exists, OuterRef

from deployments.live.badges import publish_badges_changed
from guards.masks import SecretMask
from inventory.drift.attribution import DriftAttributor
from inventory.drift.comparison import (
    ComparisonContext,
    ComparisonResult,
    compare_service,
    is_unread,
    is_unread_revision,
)
from inventory.drift.cursor import DriftCursor, list_compared_services
from inventory.drift.desired_state import DesiredState, get_desired_state
from inventory.drift.documents.differences import FieldDifference
from inventory.drift.redaction import (
    DriftMasks,
    compute_drift_fingerprint,
    find_drift,
    is_redacted_path,
    redact_path,
    redact_value,
)
from inventory.models.drift import Drift, DriftComparison, TaskDefinitionRevision
from inventory.models.instances import EcsServiceRecord, SyncedCluster
from notifications.event_texts import describe_drift, describe_drift_end, list_drifted_fields
from notifications.events import EventType, NotificationEvent
from notifications.outbox import notify
from rbac.audit import record_audit_entry
from web.epochs import get_restored_at
from web.page_paths import get_page_path


def build_drift_detected(comparison: DriftComparison, drifts: Sequence[Drift]) -> NotificationEvent:
    """Return the event for fields of an ECS service that differ from the deployment."""
    names = [f"{row.document} {row.path}".strip() for row in drifts]
    return _build_event(
        EventType.DRIFT_FOUND,
        comparison,
        describe_drift(comparison.ecs_service.name, _get_environment_name(comparison), names),
        DriftComparison.State.DRIFTED,
        f"{list_drifted_fields(names)}. {drifts[0].attribution}",
    )


def build_drift_resolved(comparison: DriftComparison) -> NotificationEvent:
    """Return the event for an ECS service that matches its deployment again, or is no longer compared."""
    is_compared = comparison.state != DriftComparison.State.NOT_COMPARED
    reason = "" if is_compared else comparison.reason
    text = describe_drift_end(comparison.ecs_service.name, _get_environment_name(comparison), reason)
    status = DriftComparison.State.IN_STEP if is_compared else DriftComparison.State.NOT_COMPARED
    return _build_event(EventType.DRIFT_GONE, comparison, text, status, "")


def _get_environment_name(comparison: DriftComparison) -> str:
    infrastructure = comparison.ecs_service.infrastructure
    return infrastructure.environment.name if infrastructure is not None else ""


def _build_event(
    event: EventType, comparison: DriftComparison, text: str, status: str, cause: str
) -> NotificationEvent:
    infrastructure, service = comparison.ecs_service.infrastructure, comparison.ecs_service.service
    return NotificationEvent(
        event=event,
        scope=comparison.scope,
        text=text,
        path=get_page_path("drift-of-service", comparison.pk),
        status=status,
        cause=cause,
        # What rules filter by: the text names the ECS service.
        services=(service.identifier,) if service is not None else (),
        environments=(infrastructure.environment.identifier,) if infrastructure is not None else (),
    )


_COMPARISON_FIELDS: Final = (
    "state",
    "reason",
    "execution",
    "aws_defaults",
    "aws_defaults_deployment",
    "compared_at",
)
"""The columns of a comparison that a scan writes."""
_RELATIONS: Final = (
    "ecs_service__cluster__connector__scope",
    "ecs_service__infrastructure__environment__scope",
    "ecs_service__service",
)
ORPHANED_REASON: Final = "Slipway no longer deploys the ECS service."
GONE_REASON: Final = "The ECS service was deleted."


@dataclass(frozen=True)
class IncompleteComparisons:
    """Whether a scan had to leave out ECS services.

    `has_unread_revisions`: sync has read a revision that this scan has not; `is_settling`: an execution
    has changed something since the last sync or scan.
    """

    has_unread_revisions: bool
    is_settling: bool


@dataclass(frozen=True)
class NewDrift:
    """New drift of one ECS service."""

    comparison: DriftComparison
    desired: DesiredState
    rows: Sequence[Drift]


@dataclass
class DriftFindings:
    """The findings of a scan: new drift, resolved drift, and services that match again.

    `revealed` are drifts that were found while secrets could not be read, which hid them as a whole.

    `compared_at` has the last comparison before this one, by the key of the comparison.
    """

    compared_at: dict[int, datetime | None]
    detected: list[NewDrift] = field(default_factory=list)
    resolved: list[Drift] = field(default_factory=list)
    revealed: list[Drift] = field(default_factory=list)
    resolved_comparisons: list[DriftComparison] = field(default_factory=list)


def update_comparisons(cluster: SyncedCluster, cursor: DriftCursor, now: datetime) -> IncompleteComparisons:
    """Compare every managed ECS service of the cluster, in the transaction that ends the scan.

    Returns the incomplete comparisons for the next scan.
    """
    ecs_services = [row for row in list_compared_services(cluster) if row.service_id is not None]
    arns = {row.task_definition for row in ecs_services}
    revisions = {row.arn: row for row in TaskDefinitionRevision.objects.filter(arn__in=arns)}
    desired_state = get_desired_state(cluster, ecs_services, datetime.fromisoformat(cursor.started_at))
    context = ComparisonContext(cluster, cursor, desired_state, revisions, now)
    settled = [row for row in ecs_services if row.name not in context.desired_state.settling]
    ready = [row for row in settled if not is_unread_revision(context, row)]
    _compare_services(context, ready, _get_or_create_comparisons(ecs_services))
    delete_orphaned_comparisons(cluster.pk)
    TaskDefinitionRevision.objects.filter(arn__in=arns).update(used_at=now)
    return IncompleteComparisons(
        has_unread_revisions=len(ready) < len(settled), is_settling=len(settled) < len(ecs_services)
    )


def delete_orphaned_comparisons(cluster: int) -> None:
    """Delete the comparisons of ECS services that Slipway no longer deploys, and notify about their drift."""
    orphaned = DriftComparison.objects.filter(ecs_service__cluster=cluster, ecs_service__service=None)
    drifted = Exists(Drift.objects.filter(comparison=OuterRef("pk"), resolved_at=None))
    for comparison in orphaned.filter(drifted).select_related(*_RELATIONS):
        comparison.state, comparison.reason = DriftComparison.State.NOT_COMPARED, ORPHANED_REASON
        notify(build_drift_resolved(comparison))
    if orphaned.delete()[0]:
        publish_badges_changed()


def _compare_services(
    context: ComparisonContext, ready: Sequence[EcsServiceRecord], comparisons: Mapping[int, DriftComparison]
) -> None:
    states = {row.pk: row.state for row in comparisons.values()}
    findings = DriftFindings({row.pk: row.compared_at for row in comparisons.values()})
    open_drifts, masks = _get_open_drifts(comparisons), DriftMasks()
    for row in ready:
        comparison = comparisons[row.pk]
        result = compare_service(context, row, comparison)
        _apply_result(context, comparison, result, open_drifts.get(comparison.pk, {}), findings, masks)
    gone = _end_gone_comparisons(context, findings)
    _save_findings(context, findings)
    DriftComparison.objects.bulk_update([*comparisons.values(), *gone], _COMPARISON_FIELDS)
    if gone or any(row.state != states[row.pk] for row in comparisons.values()):
        publish_badges_changed()


def _end_gone_comparisons(context: ComparisonContext, findings: DriftFindings) -> list[DriftComparison]:
    """End the comparisons of ECS services that were deleted, and return them."""
    rows = DriftComparison.objects.filter(
        ecs_service__cluster=context.cluster, ecs_service__gone_at__isnull=False
    )
    gone = list(rows.exclude(state=DriftComparison.State.NOT_COMPARED).select_related(*_RELATIONS))
    open_drifts = _get_open_drifts({row.pk: row for row in gone}) if gone else {}
    for comparison in gone:
        findings.compared_at[comparison.pk] = comparison.compared_at
        comparison.state, comparison.reason = DriftComparison.State.NOT_COMPARED, GONE_REASON
        _end_drift(comparison, open_drifts.get(comparison.pk, {}), findings)
    return gone


def _get_or_create_comparisons(ecs_services: list[EcsServiceRecord]) -> dict[int, DriftComparison]:
    existing = set(
        DriftComparison.objects.filter(ecs_service__in=ecs_services).values_list("ecs_service", flat=True)
    )
    DriftComparison.objects.bulk_create(
        [
            DriftComparison(ecs_service=ecs_service)
            for ecs_service in ecs_services
            if ecs_service.pk not in existing
        ],
        ignore_conflicts=True,
    )
    rows = DriftComparison.objects.filter(ecs_service__in=ecs_services).select_related(*_RELATIONS)
    return {row.ecs_service_id: row for row in rows}


def _get_open_drifts(comparisons: Mapping[int, DriftComparison]) -> dict[int, dict[tuple[str, str], Drift]]:
    by_comparison: dict[int, dict[tuple[str, str], Drift]] = {}
    for drift in Drift.objects.filter(comparison__in=comparisons.values(), resolved_at=None):
        by_comparison.setdefault(drift.comparison_id, {})[drift.document, drift.path] = drift
    return by_comparison


def _apply_result(
    context: ComparisonContext,
    comparison: DriftComparison,
    result: ComparisonResult,
    open_drifts: Mapping[tuple[str, str], Drift],
    findings: DriftFindings,
    masks: DriftMasks,
) -> None:
    """Update one comparison from its result, and collect created and resolved drift."""
    comparison.compared_at, comparison.reason = context.now, result.reason
    if result.desired is None:
        comparison.state = result.state
        if result.state == DriftComparison.State.NOT_COMPARED:
            _end_drift(comparison, open_drifts, findings)
        return
    comparison.execution = result.desired.execution
    mask = masks.get_mask(comparison, result.desired) if result.differences else None
    current, created = [row for row in open_drifts.values() if is_unread(context, row)], []
    for difference in result.differences:
        row = find_drift(open_drifts, difference, mask)
        if row is None or row.fingerprint != compute_drift_fingerprint(difference):
            row = _build_drift_row(context, comparison, difference, mask)
            created.append(row)
        elif mask is not None and is_redacted_path(row.path):
            findings.revealed.append(_reveal(row, difference, mask))
        current.append(row)
    current_keys = {row.pk for row in current if row.pk}
    findings.resolved += [row for row in open_drifts.values() if row.pk not in current_keys]
    if open_drifts and not current:
        findings.resolved_comparisons.append(comparison)
    if created:
        findings.detected.append(NewDrift(comparison, result.desired, created))
    comparison.state = _compute_state(current)


def _end_drift(
    comparison: DriftComparison, open_drifts: Mapping[tuple[str, str], Drift], findings: DriftFindings
) -> None:
    """Resolve all drift of an ECS service that is no longer compared."""
    findings.resolved += open_drifts.values()
    if open_drifts:
        findings.resolved_comparisons.append(comparison)


def _build_drift_row(
    context: ComparisonContext,
    comparison: DriftComparison,
    difference: FieldDifference,
    mask: SecretMask | None,
) -> Drift:
    return Drift(
        comparison=comparison,
        document=difference.document,
        path=redact_path(difference, mask),
        desired=redact_value(difference.path, difference.desired, mask),
        actual=redact_value(difference.path, difference.actual, mask),
        fingerprint=compute_drift_fingerprint(difference),
        detected_at=context.now,
    )


def _reveal(row: Drift, difference: FieldDifference, mask: SecretMask) -> Drift:
    """Give a drift the path and values that the mask leaves."""
    row.path = redact_path(difference, mask)
    row.desired = redact_value(difference.path, difference.desired, mask)
    row.actual = redact_value(difference.path, difference.actual, mask)
    return row


def _compute_state(drifts: Iterable[Drift]) -> DriftComparison.State:
    rows = list(drifts)
    if not rows:
        return DriftComparison.State.IN_STEP
    if all(row.accepted_at for row in rows):
        return DriftComparison.State.ACCEPTED
    return DriftComparison.State.DRIFTED


def _save_findings(context: ComparisonContext, findings: DriftFindings) -> None:
    """Resolve drift that has disappeared, then save the new drift with its attribution."""
    resolved_keys = [row.pk for row in findings.resolved]
    if resolved_keys:
        Drift.objects.filter(pk__in=resolved_keys, resolved_at=None).update(resolved_at=context.now)
    Drift.objects.bulk_update(findings.revealed, ["path", "desired", "actual"])
    if findings.detected:
        _save_new_drift(context, findings.detected)
    if findings.detected or findings.resolved_comparisons:
        _notify_about_news(findings)


def _notify_about_news(findings: DriftFindings) -> None:
    """Notify about what changed since the last comparison.

    After a restore, the first comparison only shows what the restored database does not know.
    """
    restored_at = get_restored_at()

    def is_news(comparison: DriftComparison) -> bool:
        last = findings.compared_at.get(comparison.pk)
        return last is None or restored_at is None or last > restored_at

    resolved = filter(is_news, findings.resolved_comparisons)
    detected = (new_drift for new_drift in findings.detected if is_news(new_drift.comparison))
    notify(
        *map(build_drift_resolved, resolved),
        *(build_drift_detected(new_drift.comparison, new_drift.rows) for new_drift in detected),
    )


def _save_new_drift(context: ComparisonContext, detected: Sequence[NewDrift]) -> None:
    attributor = DriftAttributor.of(
        context, [(new_drift.comparison.ecs_service, new_drift.desired) for new_drift in detected]
    )
    for new_drift in detected:
        attribution = attributor.describe_changes(
            new_drift.comparison.ecs_service, new_drift.desired, [row.path for row in new_drift.rows]
        )
        for row in new_drift.rows:
            row.attribution = attribution
    Drift.objects.bulk_create(row for new_drift in detected for row in new_drift.rows)
    for new_drift in detected:
        _record_audit_entry(new_drift)


def _record_audit_entry(new_drift: NewDrift) -> None:
    """Record the change from outside in the audit trail."""
    fields = [f"{row.document} {row.path}".strip() for row in new_drift.rows]
    after = {"fields": fields, "told": new_drift.rows[0].attribution}
    record_audit_entry(actor=None, action="drift.found", thing=new_drift.comparison, after=after)
