"""Compares what a look has read with what was deployed, and keeps what differs for as long as it does."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from deployments.watching.badges import badges_changed
from guards.masks import Mask
from inventory.drift.desired import Desired, wanted_of
from inventory.drift.documents.comparing import Difference
from inventory.drift.hiding import Hiding, mark_of, path_of, shown
from inventory.drift.judging import Look, Verdict, is_news, judge
from inventory.drift.notifying import drift_found, drift_gone
from inventory.drift.reading import Reading
from inventory.drift.telling import Teller
from inventory.drift.wanted import compared_services
from inventory.models.drift import Comparison, Drift, KnownRevision
from inventory.models.instances import SeenService, SyncedCluster
from notifications.outbox import notify
from rbac.audit import record

_STATE_FIELDS: Final = ("state", "reason", "execution", "chosen", "chosen_for", "compared_at")
"""What a look changes of a comparison."""


@dataclass(frozen=True)
class Left:
    """Whether there are ECS services that this look could not judge.

    `is_news`: sync has seen since what the look has not read; `is_settling`: an execution has changed since
    what sync, or the look, has seen.
    """

    is_news: bool
    is_settling: bool


@dataclass(frozen=True)
class Found:
    """What is new about one ECS service."""

    comparison: Comparison
    desired: Desired
    rows: Sequence[Drift]


@dataclass
class Outcome:
    """What a look found of all ECS services: what differs newly, what no more, and where nothing does now."""

    found: list[Found] = field(default_factory=list)
    over: list[Drift] = field(default_factory=list)
    gone: list[Comparison] = field(default_factory=list)


def keep_comparisons(cluster: SyncedCluster, reading: Reading, now: datetime) -> Left:
    """Compare every ECS service that Slipway deploys in this cluster; inside the commit that ends a look.

    Says what of it waits for the next look.
    """
    seen = [one for one in compared_services(cluster) if one.service_id is not None]
    arns = {one.task_definition for one in seen}
    revisions = {one.arn: one for one in KnownRevision.objects.filter(arn__in=arns)}
    wanted = wanted_of(cluster, seen, datetime.fromisoformat(reading.began))
    look = Look(cluster, reading, wanted, revisions, now)
    settled = [one for one in seen if one.name not in look.wanted.settling]
    ready = [one for one in settled if not is_news(look, one)]
    _keep(look, ready, _comparisons(seen))
    _let_go(cluster)
    KnownRevision.objects.filter(arn__in=arns).update(used_at=now)
    return Left(is_news=len(ready) < len(settled), is_settling=len(settled) < len(seen))


def _let_go(cluster: SyncedCluster) -> None:
    """Forget what was found where Slipway deploys no more: its service was deleted."""
    gone = Comparison.objects.filter(seen__cluster=cluster, seen__service=None)
    if gone.delete()[0]:
        badges_changed()


def _keep(look: Look, ready: Sequence[SeenService], known: Mapping[int, Comparison]) -> None:
    before = {one.pk: one.state for one in known.values()}
    open_drifts, outcome, hiding = _open_drifts(known), Outcome(), Hiding()
    for one in ready:
        comparison = known[one.pk]
        verdict = judge(look, one, comparison)
        _settle(look, comparison, verdict, open_drifts.get(comparison.pk, {}), outcome, hiding)
    _write(look, outcome)
    Comparison.objects.bulk_update(known.values(), _STATE_FIELDS)
    if any(one.state != before[one.pk] for one in known.values()):
        badges_changed()


def _comparisons(seen: list[SeenService]) -> dict[int, Comparison]:
    known = set(Comparison.objects.filter(seen__in=seen).values_list("seen", flat=True))
    Comparison.objects.bulk_create(
        [Comparison(seen=one) for one in seen if one.pk not in known], ignore_conflicts=True
    )
    rows = Comparison.objects.filter(seen__in=seen).select_related(
        "seen__cluster__connector__scope", "seen__infrastructure__environment__scope"
    )
    return {row.seen_id: row for row in rows}


def _open_drifts(known: Mapping[int, Comparison]) -> dict[int, dict[tuple[str, str], Drift]]:
    found: dict[int, dict[tuple[str, str], Drift]] = {}
    for one in Drift.objects.filter(comparison__in=known.values(), ended_at=None):
        found.setdefault(one.comparison_id, {})[one.document, one.path] = one
    return found


def _settle(
    look: Look,
    comparison: Comparison,
    verdict: Verdict,
    known: Mapping[tuple[str, str], Drift],
    outcome: Outcome,
    hiding: Hiding,
) -> None:
    """Say of one comparison what was found, and note which rows come and go."""
    comparison.compared_at, comparison.reason = look.now, verdict.reason
    if verdict.desired is None:
        comparison.state = verdict.state
        if verdict.state == Comparison.State.NOT_COMPARED:
            outcome.over += known.values()
        return
    comparison.execution = verdict.desired.execution
    mask = hiding.mask_for(comparison, verdict.desired) if verdict.different else None
    kept, fresh = [], []
    for one in verdict.different:
        row = known.get((one.document, path_of(one, mask)))
        if row is None or row.mark != mark_of(one):
            row = _row(look, comparison, one, mask)
            fresh.append(row)
        kept.append(row)
    stays = {row.pk for row in kept if row.pk}
    outcome.over += [row for row in known.values() if row.pk not in stays]
    if known and not kept:
        outcome.gone.append(comparison)
    if fresh:
        outcome.found.append(Found(comparison, verdict.desired, fresh))
    comparison.state = _state_of(kept)


def _row(look: Look, comparison: Comparison, one: Difference, mask: Mask | None) -> Drift:
    return Drift(
        comparison=comparison,
        document=one.document,
        path=path_of(one, mask),
        desired=shown(one.path, one.desired, mask),
        found=shown(one.path, one.found, mask),
        mark=mark_of(one),
        found_at=look.now,
    )


def _state_of(drifts: Iterable[Drift]) -> Comparison.State:
    rows = list(drifts)
    if not rows:
        return Comparison.State.IN_STEP
    if all(row.accepted_at for row in rows):
        return Comparison.State.ACCEPTED
    return Comparison.State.DRIFTED


def _write(look: Look, outcome: Outcome) -> None:
    """End the rows of what differs no more, then write those of what differs newly, with who did it."""
    ended = [row.pk for row in outcome.over]
    if ended:
        Drift.objects.filter(pk__in=ended, ended_at=None).update(ended_at=look.now)
    notify(*map(drift_gone, outcome.gone))
    if outcome.found:
        _write_found(look, outcome.found)


def _write_found(look: Look, found: Sequence[Found]) -> None:
    teller = Teller.of(look, [(one.comparison.seen, one.desired) for one in found])
    for one in found:
        words = teller.told(one.comparison.seen, one.desired, [row.path for row in one.rows])
        for row in one.rows:
            row.told = words
    Drift.objects.bulk_create(row for one in found for row in one.rows)
    for one in found:
        _alert(one)
    notify(*(drift_found(one.comparison, one.rows) for one in found))


def _alert(found: Found) -> None:
    """Write down that something was changed outside, where the changes of people are written too."""
    fields = [f"{row.document} {row.path}".strip() for row in found.rows]
    after = {"fields": fields, "told": found.rows[0].told}
    record(actor=None, action="drift.found", thing=found.comparison, after=after)
