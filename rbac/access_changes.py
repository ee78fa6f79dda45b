"""Notification of web processes about changed access; they check their open sockets again."""

import asyncio
import hashlib
import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction
from django.db.models import Model
from redis.exceptions import RedisError

from rbac.models import RoleAssignment, ServiceAccount, User

ACCESS_GROUP = "access"
# Prefixes of audited actions that change access.
_ACCESS_ACTION_PREFIXES = (
    "role.",
    "roleassignment.",
    "resourcegroup.",
    "usergroup.",
    "serviceaccount.",
    "scope.",
    "user.",
)
# Begins like it and takes nothing away from anybody.
_HARMLESS_ACTIONS = ("user.sign_in", "user.sign_in_failed", "user.sign_out", "role.create", "scope.create")
logger = logging.getLogger(__name__)


def publish_access_change(*people: int | None) -> None:
    """Request a check of the open sockets of these users, or of all, after the transaction commits."""
    concerned = sorted({pk for pk in people if pk is not None})
    _publish_on_commit({"type": "access.changed", "people": concerned, "sessions": []})


def publish_session_end(key_hash: str) -> None:
    """Request a check of the sockets of this session after the transaction commits."""
    _publish_on_commit({"type": "access.changed", "people": [], "sessions": [key_hash]})


def hash_session_key(session_key: str) -> str:
    """Return the hash of a session key for the database and messages: 40 hexadecimal digits.

    A hash is useless as a cookie. Keys are random, so a hash needs no salt.
    """
    return hashlib.sha256(session_key.encode()).hexdigest()[:40]


def publish_audited_change(action: str, thing: Model) -> None:
    """Publish the change of an audit entry if it may have removed access."""
    if action.startswith(_ACCESS_ACTION_PREFIXES) and action not in _HARMLESS_ACTIONS:
        publish_access_change(*_get_affected_users(thing))


def _get_affected_users(thing: Model) -> Iterable[int | None]:
    if isinstance(thing, User):
        return (thing.pk,)
    if isinstance(thing, RoleAssignment | ServiceAccount):
        return (thing.user_id,)
    return ()


def _publish_on_commit(message: dict[str, Any]) -> None:
    transaction.on_commit(lambda: _send(message))


def _send(message: dict[str, Any]) -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        _send_in_thread(message)
        return
    # A loop that runs in this thread cannot be waited for in it.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_send_in_thread, message).result()


def _send_in_thread(message: dict[str, Any]) -> None:
    layer = get_channel_layer()
    if layer is None:
        return
    try:
        async_to_sync(layer.group_send)(ACCESS_GROUP, message)
    except (OSError, RedisError) as error:
        logger.warning("Open connections were not told, they find it with their next look: %s", error)


class PasswordChangePublisher:
    """Password validator that accepts everything; Django calls validators at each password change."""

    def validate(self, password: str, user: User | None = None) -> None:
        """Accept any password."""

    def password_changed(self, password: str, user: User | None = None) -> None:
        """Request a check of the user's open sockets: their sessions end with the old password."""
        if user is not None:
            publish_access_change(user.pk)

    def get_help_text(self) -> str:
        """Return no help text."""
        return ""
