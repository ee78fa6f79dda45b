"""Notices to agents through the channel layer, and the scan that finds lost ones."""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

from delegates.models import Delegate, DelegateInstance, DelegateTask, DelegateToken
from web.clock import get_database_time

# Each process joins it once, and forwards its messages to sockets and polls.
AGENTS_GROUP = "agents"
logger = logging.getLogger(__name__)


def notify_task(delegate_id: int, task_id: UUID) -> None:
    """Notify a delegate of an offered task after the current transaction commits."""
    _on_commit({"type": "agents.task", "delegate": delegate_id, "task": str(task_id)})


def notify_abort(instance_id: int, task_id: UUID) -> None:
    """Notify an instance of an abort after the current transaction commits."""
    _on_commit({"type": "agents.abort", "instance": instance_id, "task": str(task_id)})


def notify_drain(delegate_id: int) -> None:
    """Notify a draining delegate's agents after the current transaction commits."""
    _on_commit({"type": "agents.drain", "delegate": delegate_id})


def notify_configuration(delegate_ids: Iterable[int]) -> None:
    """Notify delegates of a changed configuration after the current transaction commits."""
    if ids := sorted(set(delegate_ids)):
        _on_commit({"type": "agents.configuration", "delegates": ids})


def notify_ended(instance_ids: Iterable[int], reason: str) -> None:
    """Notify instances of ended sessions after the transaction commits; their sockets close (4401)."""
    if ids := sorted(set(instance_ids)):
        _on_commit({"type": "agents.ended", "instances": ids, "reason": reason})


def _on_commit(message: dict[str, Any]) -> None:
    transaction.on_commit(lambda: _send(message))


def _send(message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(AGENTS_GROUP, message)
    except (OSError, RedisError) as error:
        logger.warning("Could not publish to agents, they get it with their next poll: %s", error)


MAX_OFFERS = 1000
_SCOPE = "delegate__scope"
SESSION_COLUMNS = (
    "session_hash",
    "token__status",
    "delegate__admission",
    f"{_SCOPE}__archived_at",
    f"{_SCOPE}__parent__archived_at",
)
SESSION_INVALID = "session_invalid"


@dataclass(frozen=True)
class NoticeScan:
    """Offers as (delegate, task), and instances with ended sessions and their close codes."""

    offers: tuple[tuple[int, str], ...]
    ended: tuple[tuple[int, str], ...]


def scan_notices(instance_ids: Sequence[int]) -> NoticeScan:
    """Return the current offers of all agents, and the given instances without a session."""
    queued = DelegateTask.objects.filter(
        status=DelegateTask.Status.QUEUED, offered_until__gt=get_database_time()
    )
    offers = queued.exclude(offered_to=None).order_by("queued_at").values_list("offered_to", "pk")
    sessions = DelegateInstance.objects.filter(pk__in=list(instance_ids)).values_list("pk", *SESSION_COLUMNS)
    end_codes = {pk: get_session_end(*columns) for pk, *columns in sessions}
    return NoticeScan(
        offers=tuple((delegate_id, str(pk)) for delegate_id, pk in offers[:MAX_OFFERS]),
        ended=tuple((pk, code) for pk in instance_ids if (code := end_codes.get(pk, SESSION_INVALID))),
    )


def get_session_end(
    session_hash: str, token_status: str | None, admission: str, *archived: datetime | None
) -> str:
    """Return the refusal code of an ended session with `SESSION_COLUMNS`, or an empty text."""
    if not session_hash:
        return SESSION_INVALID
    # A token that is there no more was revoked first.
    if token_status != DelegateToken.Status.ACTIVE:
        return "token_revoked"
    if any(archived):
        return "scope_archived"
    return "delegate_rejected" if admission == Delegate.Admission.REJECTED else ""
