"""Live updates of delegates, delegate tasks, agent logs and lookup requests for open pages."""

import logging
from collections.abc import Collection
from datetime import timedelta
from typing import Any, Final

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.db.models import Max, Q
from django.utils import timezone
from redis.exceptions import RedisError

from delegates.connectivity import build_connectivity_case
from delegates.models import Delegate, DelegateLogChunk, DelegateTask, LookupRequest
from delegates.queries.delegates import VIEW
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

DELEGATES_GROUP = "delegates"
# Topics of pages that also show other resources.
DELEGATE_SOURCE_NAME = "delegates"
logger = logging.getLogger(__name__)


def publish_delegates_changed(*delegate_ids: int) -> None:
    """Send the ids of changed delegates to all viewers, after the current transaction commits."""
    transaction.on_commit(lambda: _send_delegates_changed(sorted(set(delegate_ids))))
    publish_change_on_commit(DELEGATE_SOURCE_NAME, *delegate_ids)


def _send_delegates_changed(delegate_ids: list[int]) -> None:
    layer = get_channel_layer()
    if layer is None or not delegate_ids:
        return
    try:
        async_to_sync(layer.group_send)(DELEGATES_GROUP, {"type": "delegates.changed", "ids": delegate_ids})
    except (OSError, RedisError) as error:
        logger.warning("Could not publish a change, subscribers get it with their next refresh: %s", error)


def read_delegate_snapshots(keys: Collection[str] | None) -> dict[str, tuple[TopicSnapshot, ...]]:
    """Return the connectivity of these delegates, or of all, in one query."""
    wanted = (
        Delegate.objects.all()
        if keys is None
        else Delegate.objects.filter(pk__in=parse_primary_keys(Delegate, keys))
    )
    rows = wanted.annotate(connectivity=build_connectivity_case(timezone.now()))
    found: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, name, connectivity in rows.values_list("pk", "scope_id", "name", "connectivity"):
        # Users of the scopes below may view it too, because it serves them.
        topics = frozenset({f"delegates-at:{scope}"})
        audience = Audience(ResourceLocation(scope, {"delegate": name}), VIEW)
        found[str(pk)] = (TopicSnapshot(audience, (name, connectivity), topics, list_topic="delegates"),)
    return found


# A missing heartbeat has no event.
DELEGATE_SOURCE: Final = TopicSource(
    DELEGATE_SOURCE_NAME,
    topics={"delegates": audience_of_scopes, "delegates-at": audience_of_scopes},
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
        wanted = Q(status__in=DelegateTask.OPEN) | Q(queued_at__gte=since)
    else:
        wanted = Q(pk__in=list(parse_primary_keys(DelegateTask, keys)))
    rows = DelegateTask.objects.filter(wanted).values_list(
        "pk", "scope_id", *_LISTED_COLUMNS, *_DETAIL_COLUMNS
    )
    found: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, *facts in rows:
        audience, listed = (
            Audience(ResourceLocation(scope, {}), TASK_VIEW_PERMISSION),
            tuple(facts[: len(_LISTED_COLUMNS)]),
        )
        alone = TopicSnapshot(audience, tuple(facts), frozenset({f"delegate-task:{pk}"}))
        # Users of the scopes below may view it too.
        at = frozenset({f"{TASK_SOURCE_NAME}-at:{scope}"})
        found[str(pk)] = (TopicSnapshot(audience, listed, at, list_topic=TASK_SOURCE_NAME), alone)
    return found


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
    wanted = (
        {"finished_at": None} if keys is None else {"pk__in": list(parse_primary_keys(LookupRequest, keys))}
    )
    rows = LookupRequest.objects.filter(**wanted).values_list("pk", "asked_by_id", "task_id", "finished_at")
    return {
        str(pk): (TopicSnapshot(Audience(person_id=asker), (task, finished), frozenset({f"inquiry:{pk}"})),)
        for pk, asker, task, finished in rows
    }


def _read_audiences(keys: Collection[str]) -> dict[str, Audience]:
    by_key = parse_primary_keys(LookupRequest, keys)
    rows = LookupRequest.objects.filter(pk__in=list(by_key)).values_list("pk", "asked_by_id")
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
    found: dict[str, tuple[TopicSnapshot, ...]] = {}
    for pk, scope, name, newest in rows:
        audience = Audience(ResourceLocation(scope, {"delegate": name}), LOG_VIEW_PERMISSION)
        found[str(pk)] = (TopicSnapshot(audience, newest, frozenset({f"delegate-log:{pk}"})),)
    return found


LOG_SOURCE: Final = TopicSource(
    LOG_SOURCE_NAME,
    topics={"delegate-log": audience_of_rows(Delegate, LOG_VIEW_PERMISSION)},
    read_snapshots=read_log_snapshots,
)
