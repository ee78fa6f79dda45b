"""Compares what a look has read with what was deployed, and keeps what differs for as long as it does."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from django.utils.crypto import salted_hmac

from deployments.watching.badges import badges_changed
from drift.desired import Desired, Wanted, wanted_of
from drift.documents.comparing import Difference, Documents, choices, differences, is_value
from drift.documents.shape import SERVICE_DEFINITION
from drift.models import Comparison, Drift, KnownRevision
from drift.notifying import drift_found, drift_gone
from drift.reading import Reading
from drift.running import running_documents
from drift.telling import told
from drift.wanted import compared_services
from guards.limits import DRIFT_VALUE_CHARACTERS
from guards.text import clean
from instances.models import SeenService, SyncedCluster
from notifications.facts import Fact
from notifications.outbox import notify
from rbac.audit import record

HIDDEN: Final = "(hidden)"
_STATE_FIELDS: Final = ("state", "reason", "execution", "chosen", "chosen_for", "compared_at")
"""What a look changes of a comparison."""


@dataclass(frozen=True)
class Look:
    """All that is known of one cluster as it is compared."""

    cluster: SyncedCluster
    reading: Reading
    wanted: Wanted
    revisions: Mapping[str, KnownRevision]
    now: datetime
    # What is told of it, all at once.
    facts: list[Fact] = field(default_factory=list)


def keep_comparisons(cluster: SyncedCluster, reading: Reading, now: datetime) -> bool:
    """Compare every ECS service that Slipway deploys in this cluster; inside the commit that ends a look.

    Says whether all of it was as it was when the look began: what sync has changed since waits for the next.
    """
    seen = [one for one in compared_services(cluster) if one.service_id is not None]
    arns = {one.task_definition for one in seen}
    revisions = {one.arn: one for one in KnownRevision.objects.filter(arn__in=arns)}
    look = Look(cluster, reading, wanted_of(cluster, seen), revisions, now)
    known = _comparisons(seen)
    open_drifts = _open_drifts(known)
    ready = [one for one in seen if not _is_news(look, one)]
    before = {one.pk: one.state for one in known.values()}
    for one in ready:
        _compare(look, one, known[one.pk], open_drifts.get(known[one.pk].pk, {}))
    Comparison.objects.bulk_update(known.values(), _STATE_FIELDS)
    if any(one.state != before[one.pk] for one in known.values()):
        badges_changed()
    KnownRevision.objects.filter(arn__in=arns).update(used_at=now)
    notify(*look.facts)
    return len(ready) == len(seen)


def _is_news(look: Look, seen: SeenService) -> bool:
    """Whether it runs a revision that the look did not know of when it began."""
    desired = look.wanted.desired.get(seen.name)
    arn = seen.task_definition
    is_ours = desired is None or arn == desired.revision
    return not is_ours and arn not in look.revisions and arn not in look.reading.wanted


def _comparisons(seen: list[SeenService]) -> dict[int, Comparison]:
    known = set(Comparison.objects.filter(seen__in=seen).values_list("seen", flat=True))
    Comparison.objects.bulk_create(
        [Comparison(seen=one) for one in seen if one.pk not in known], ignore_conflicts=True
    )
    rows = Comparison.objects.filter(seen__in=seen).select_related(
        "seen__cluster", "seen__infrastructure__environment__scope"
    )
    return {row.seen_id: row for row in rows}


def _open_drifts(known: Mapping[int, Comparison]) -> dict[int, dict[tuple[str, str], Drift]]:
    found: dict[int, dict[tuple[str, str], Drift]] = {}
    for one in Drift.objects.filter(comparison__in=known.values(), ended_at=None):
        found.setdefault(one.comparison_id, {})[one.document, one.path] = one
    return found


def _compare(
    look: Look, seen: SeenService, comparison: Comparison, known: Mapping[tuple[str, str], Drift]
) -> None:
    comparison.compared_at, comparison.reason = look.now, ""
    if seen.name in look.wanted.deploying:
        comparison.state = Comparison.State.DEPLOYING
        return
    desired = look.wanted.desired.get(seen.name)
    if desired is None:
        comparison.state = Comparison.State.NOT_COMPARED
        comparison.reason = "Nothing that Slipway has deployed with success runs here under this name."
        _end(known.values(), look.now)
        return
    found, expected = _found(look, seen, desired)
    if comparison.chosen_for != desired.key:
        comparison.chosen, comparison.chosen_for = choices(expected, found), desired.key
    comparison.execution = desired.execution
    different = [*differences(expected, found, chosen=comparison.chosen)]
    if not different and seen.task_definition != desired.revision:
        # The same document as another revision: nothing else would tell.
        different.append(
            Difference(SERVICE_DEFINITION, "taskDefinition", desired.revision, seen.task_definition)
        )
    drifts = _keep(look, comparison, desired, different, known)
    comparison.state = _state_of(drifts)
    comparison.reason = look.reading.scaling_unread[:512]


def _found(look: Look, seen: SeenService, desired: Desired) -> tuple[Documents, Documents]:
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
        expected = Documents(
            expected.task_definition,
            expected.service,
            None,
            expected.target,
            expected.policies,
            expected.tags,
        )
    return found, expected


def _keep(
    look: Look,
    comparison: Comparison,
    desired: Desired,
    different: list[Difference],
    known: Mapping[tuple[str, str], Drift],
) -> list[Drift]:
    """Rows for what differs now; those of what differs no more are ended."""
    kept: list[Drift] = []
    fresh: list[Drift] = []
    for one in different:
        row = known.get((one.document, one.path[:512]))
        mark = mark_of(one)
        if row is None or row.mark != mark:
            if row is not None:
                _end([row], look.now)
            row = _row(look, comparison, one, mark)
            fresh.append(row)
        kept.append(row)
    places = {(row.document, row.path) for row in kept}
    _end([row for place, row in known.items() if place not in places], look.now)
    if known and not kept:
        look.facts.append(drift_gone(comparison))
    if fresh:
        words = told(comparison.seen, [row.path for row in fresh], look.revisions, desired.revision)
        for row in fresh:
            row.told = words
        Drift.objects.bulk_create(fresh)
        _alert(comparison, fresh)
        look.facts.append(drift_found(comparison, fresh))
    return kept


def _alert(comparison: Comparison, fresh: list[Drift]) -> None:
    """Write down that something was changed outside, where the changes of people are written too."""
    fields = [f"{row.document} {row.path}".strip() for row in fresh]
    record(
        actor=None, action="drift.found", thing=comparison, after={"fields": fields, "told": fresh[0].told}
    )


def _row(look: Look, comparison: Comparison, one: Difference, mark: str) -> Drift:
    return Drift(
        comparison=comparison,
        document=one.document,
        path=clean(one.path)[:512],
        desired=shown(one.path, one.desired),
        found=shown(one.path, one.found),
        mark=mark,
        found_at=look.now,
    )


def _end(rows: Any, now: datetime) -> None:
    Drift.objects.filter(pk__in=[row.pk for row in rows], ended_at=None).update(ended_at=now)


def _state_of(drifts: list[Drift]) -> Comparison.State:
    if not drifts:
        return Comparison.State.IN_STEP
    if all(row.accepted_at for row in drifts):
        return Comparison.State.ACCEPTED
    return Comparison.State.DRIFTED


def shown(path: str, value: Any) -> Any:
    """A value as it is kept and shown: what may be secret is hidden, what is long is cut."""
    hidden = _hidden(path, value)
    text = clean(json.dumps(hidden, ensure_ascii=False, sort_keys=True, default=str))
    return json.loads(text) if len(text) <= DRIFT_VALUE_CHARACTERS else f"{text[:DRIFT_VALUE_CHARACTERS]}…"


def _hidden(path: str, value: Any) -> Any:
    if value is not None and is_value(path):
        return HIDDEN
    if isinstance(value, Mapping):
        is_named = path.endswith((".environment", ".environmentFiles"))
        return {key: HIDDEN if is_named else _hidden(f"{path}.{key}", inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_hidden(path, inner) for inner in value]
    return value


def mark_of(one: Difference) -> str:
    """A word for both values that tells nobody what they are: another word if one of them changed."""
    text = json.dumps([one.desired, one.found], sort_keys=True, default=str)
    return salted_hmac("drift.mark", text, algorithm="sha256").hexdigest()
