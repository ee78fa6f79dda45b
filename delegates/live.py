"""Live updates of delegates, delegate tasks, agent logs and lookup requests for open pages."""

from collections.abc import Collection, Hashable
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from django.db.models import Max, Q

from delegates.models import Delegate, DelegateLogChunk, DelegateTask, LookupRequest
from delegates.queries.delegates import VIEW, DelegateFacts, list_delegate_facts, prefetch_instances
from rbac.policy import ResourceLocation
from web.clock import get_database_time
from web.live import (
    Audience,
    TopicSnapshot,
    TopicSource,
    audience_of_rows,
    audience_of_scopes,
    publish_change_on_commit,
)
from web.live.sources import parse_primary_keys

DELEGATE_SOURCE_NAME: Final = "delegates"
# Topic of the delegate list, which shows more than the connectivity that other pages show.
DELEGATE_LIST_TOPIC: Final = "delegate-rows"


def publish_delegates_changed(*delegate_ids: int) -> None:
    """Publish changes of delegates to their pages after the current transaction commits."""
    publish_change_on_commit(DELEGATE_SOURCE_NAME, *delegate_ids)


def read_delegate_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the state of these delegates, or of all, in six queries at most."""
    delegates = Delegate.objects.all()
    if keys is not None:
        delegates = delegates.filter(pk__in=parse_primary_keys(Delegate, keys))
    return {
        str(facts.pk): _build_delegate_snapshots(facts)
        for facts in list_delegate_facts(prefetch_instances(delegates))
    }


def _build_delegate_snapshots(facts: DelegateFacts) -> tuple[TopicSnapshot, ...]:
    """Return the snapshots for pages that count delegates, for the list, and for the delegate's own page."""
    audience = Audience(ResourceLocation(facts.scope_id, {"delegate": facts.name}), VIEW)
    row = replace(facts, last_heartbeat_at=None)

    def listed(topic: str, state: Hashable) -> TopicSnapshot:
        # Users of the scopes below may view it too, because it serves them.
        at = frozenset({f"{topic}-at:{facts.scope_id}"})
        return TopicSnapshot(audience, state, at, list_topic=topic)

    return (
        listed(DELEGATE_SOURCE_NAME, (facts.name, facts.status)),
        listed(DELEGATE_LIST_TOPIC, row),
        TopicSnapshot(audience, row, frozenset({f"delegate:{facts.pk}"}), age=facts.last_heartbeat_at),
    )


# A missing heartbeat has no event.
DELEGATE_SOURCE: Final = TopicSource(
    DELEGATE_SOURCE_NAME,
    topics={
        DELEGATE_SOURCE_NAME: audience_of_scopes,
        f"{DELEGATE_SOURCE_NAME}-at": audience_of_scopes,
        DELEGATE_LIST_TOPIC: audience_of_scopes,
        f"{DELEGATE_LIST_TOPIC}-at": audience_of_scopes,
        "delegate": audience_of_rows(Delegate, VIEW),
    },
    read_snapshots=read_delegate_snapshots,
    poll_seconds=15,
)
TASK_VIEW_PERMISSION: Final = "core_delegate_view"
TASK_SOURCE_NAME: Final = "delegate-tasks"
# Tasks that were queued and ended between two reads are found by their time of creation.
RECENTLY_QUEUED: Final = timedelta(minutes=5)
_LISTED_COLUMNS: Final = ("status", "reason", "offered_to_id", "instance_id", "finished_at")
_DETAIL_COLUMNS: Final = ("fence", "next_sequence", "abort_requested")


def publish_task_changed(*tasks: Any) -> None:
    """Publish changes of tasks to their pages after the current transaction commits."""
    publish_change_on_commit(TASK_SOURCE_NAME, *tasks)


def read_task_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the state of these tasks, or of all open and new ones; two queries at most."""
    if keys is None:
        since = get_database_time() - RECENTLY_QUEUED
        condition = Q(status__in=DelegateTask.OPEN) | Q(queued_at__gte=since)
    else:
        condition = Q(pk__in=list(parse_primary_keys(DelegateTask, keys)))
    rows = DelegateTask.objects.filter(condition).values_list(
        "pk", "scope_id", *_LISTED_COLUMNS, *_DETAIL_COLUMNS
    )
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, *facts in rows:
        audience, listed = (
            Audience(ResourceLocation(scope, {}), TASK_VIEW_PERMISSION),
            tuple(facts[: len(_LISTED_COLUMNS)]),
        )
        alone = TopicSnapshot(audience, tuple(facts), frozenset({f"delegate-task:{pk}"}))
        # Users of the scopes below may view it too.
        at = frozenset({f"{TASK_SOURCE_NAME}-at:{scope}"})
        snapshots[str(pk)] = (TopicSnapshot(audience, listed, at, list_topic=TASK_SOURCE_NAME), alone)
    return snapshots


TASK_SOURCE: Final = TopicSource(
    TASK_SOURCE_NAME,
    topics={
        TASK_SOURCE_NAME: audience_of_scopes,
        f"{TASK_SOURCE_NAME}-at": audience_of_scopes,
        "delegate-task": audience_of_rows(DelegateTask, TASK_VIEW_PERMISSION),
    },
    read_snapshots=read_task_snapshots,
)
LOOKUP_SOURCE_NAME: Final = "inquiries"


def read_lookup_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the progress of these lookup requests, or of all unfinished ones, in one query."""
    filters = (
        {"finished_at": None} if keys is None else {"pk__in": list(parse_primary_keys(LookupRequest, keys))}
    )
    rows = LookupRequest.objects.filter(**filters).values_list(
        "pk", "requested_by_id", "task_id", "finished_at"
    )
    return {
        str(pk): (TopicSnapshot(Audience(person_id=asker), (task, finished), frozenset({f"inquiry:{pk}"})),)
        for pk, asker, task, finished in rows
    }


def _read_audiences(keys: Collection[str]) -> dict[str, Audience]:
    by_key = parse_primary_keys(LookupRequest, keys)
    rows = LookupRequest.objects.filter(pk__in=list(by_key)).values_list("pk", "requested_by_id")
    return {by_key[pk]: Audience(person_id=asker) for pk, asker in rows}


LOOKUP_SOURCE: Final = TopicSource(
    LOOKUP_SOURCE_NAME, topics={"inquiry": _read_audiences}, read_snapshots=read_lookup_snapshots
)
LOG_VIEW_PERMISSION: Final = "core_delegate_view"
LOG_SOURCE_NAME: Final = "delegate-logs"


def read_log_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the newest line of the logs of these delegates, or of all; one query."""
    chunks = DelegateLogChunk.objects.all()
    if keys is not None:
        chunks = chunks.filter(instance__delegate__in=list(parse_primary_keys(Delegate, keys)))
    columns = ("instance__delegate_id", "instance__delegate__scope_id", "instance__delegate__name")
    rows = chunks.order_by().values_list(*columns).annotate(newest=Max("pk"))
    snapshots: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, name, newest in rows:
        audience = Audience(ResourceLocation(scope, {"delegate": name}), LOG_VIEW_PERMISSION)
        snapshots[str(pk)] = (TopicSnapshot(audience, newest, frozenset({f"delegate-log:{pk}"})),)
    return snapshots


LOG_SOURCE: Final = TopicSource(
    LOG_SOURCE_NAME,
    topics={"delegate-log": audience_of_rows(Delegate, LOG_VIEW_PERMISSION)},
    read_snapshots=read_log_snapshots,
)
