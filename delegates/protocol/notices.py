"""Tells every web process that a delegate may take or has to stop a task; never what the task is (R015)."""

import logging
from collections.abc import Iterable
from typing import Any
from uuid import UUID

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from redis.exceptions import RedisError

# Each process joins it once and hands what it hears to its own sockets and waiting polls.
GROUP = "agents"
logger = logging.getLogger(__name__)


def notify_task(delegate_id: int, task_id: UUID) -> None:
    """After the commit under way: a task is offered to a delegate."""
    _on_commit({"type": "agents.task", "delegate": delegate_id, "task": str(task_id)})


def notify_abort(instance_id: int, task_id: UUID) -> None:
    """After the commit under way: an instance has to stop a task."""
    _on_commit({"type": "agents.abort", "instance": instance_id, "task": str(task_id)})


def notify_drain(delegate_id: int) -> None:
    """After the commit under way: a delegate finishes what it has and takes no more."""
    _on_commit({"type": "agents.drain", "delegate": delegate_id})


def notify_configuration(delegate_ids: Iterable[int]) -> None:
    """After the commit under way: the configuration of delegates has changed."""
    if ids := sorted(set(delegate_ids)):
        _on_commit({"type": "agents.configuration", "delegates": ids})


def notify_ended(instance_ids: Iterable[int], reason: str) -> None:
    """After the commit under way: the sessions of instances are over; their sockets close (4401)."""
    if ids := sorted(set(instance_ids)):
        _on_commit({"type": "agents.ended", "instances": ids, "reason": reason})


def _on_commit(message: dict[str, Any]) -> None:
    transaction.on_commit(lambda: _send(message))


def _send(message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(GROUP, message)
    except (OSError, RedisError) as error:
        logger.warning("Agents were not told, they find it with their next look: %s", error)
