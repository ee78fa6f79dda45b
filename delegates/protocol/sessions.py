"""Sessions of agents: issued, verified, rotated; leases extended after a manager outage."""

import hashlib
import hmac
import logging
import re
import secrets
import threading
from datetime import datetime, timedelta
from typing import Any

from django.db import transaction
from django.db.models import Max

from delegates.models import Delegate, DelegateInstance, DelegateTask, DelegateToken
from delegates.protocol import notices
from delegates.protocol.limits import LEASE, ROTATION_GRACE, SESSION
from delegates.protocol.problems import DelegateRejected, ScopeArchived, SessionInvalid, TokenRevoked
from rbac.models import Scope
from web.clock import get_database_time

# Workers send a heartbeat every five seconds. A shorter outage ends before the leases expire: they are valid
# for at least 15 more seconds, and are renewed within five seconds after the outage.
OUTAGE_THRESHOLD = timedelta(seconds=8)
logger = logging.getLogger(__name__)
_outage_checked = threading.Event()


def extend_leases_after_start() -> None:
    """Restart expired leases at the first request of an agent to this process."""
    if not _outage_checked.is_set():
        _outage_checked.set()
        extend_leases_after_outage(get_database_time())


def extend_leases_after_outage(now: datetime) -> int:
    """Restart the leases that expired while no worker ran, and return their number.

    Instances with ended sessions are left out; they cannot continue their tasks.
    """
    if not _is_after_outage(now):
        return 0
    running = DelegateTask.objects.filter(status=DelegateTask.Status.STARTED, lease_until__lt=now + LEASE)
    remote = running.filter(instance__delegate__is_built_in=False).exclude(instance__session_hash="")
    if count := remote.update(lease_until=now + LEASE):
        logger.info("Slipway was unavailable: %s tasks stay with their delegates", count)
    return count


def _is_after_outage(now: datetime) -> bool:
    workers = DelegateInstance.objects.filter(delegate__is_built_in=True)
    last_heartbeat_at = workers.aggregate(last=Max("last_heartbeat_at"))["last"]
    return last_heartbeat_at is not None and now - last_heartbeat_at > OUTAGE_THRESHOLD


# Values of an instance whose session is over.
NO_SESSION: dict[str, Any] = {
    "status": DelegateInstance.Status.GONE,
    "connection": DelegateInstance.Connection.NONE,
    "session_hash": "",
    "previous_session_hash": "",
    "session_expires_at": None,
    "running": 0,
}
PREFIX = "slp_ses_"
_SESSION = re.compile(r"slp_ses_([0-9]{1,18})_[A-Za-z0-9_-]{43}")
_REGISTER_HINT = "Register again."


def generate_session(instance_id: int) -> str:
    """Return a credential that names its instance, so that it is found without a search."""
    return f"{PREFIX}{instance_id}_{secrets.token_urlsafe(32)}"


def hash_secret(secret: str) -> str:
    """Return the stored hash of a secret of 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def get_session_instance(session: str) -> DelegateInstance:
    """Return the instance of a session with its delegate, token and configuration.

    Raises `SessionInvalid`, `TokenRevoked`, `ScopeArchived`, `DelegateRejected`.
    """
    extend_leases_after_start()
    match = _SESSION.fullmatch(session)
    rows = DelegateInstance.objects.select_related(
        "delegate__configuration", "delegate__scope__parent", "token"
    )
    # Not by `first`, which orders: a third of what Django computes for this query of each request.
    instance = next(iter(rows.filter(pk=int(match[1]))[:1]), None) if match else None
    if instance is None or not _is_current(instance, hash_secret(session), get_database_time()):
        raise SessionInvalid(f"This session is unknown or has expired. {_REGISTER_HINT}")
    if not is_trusted(instance.token):
        raise TokenRevoked("The token of this session was revoked. Use another token.")
    check_scope(instance.delegate.scope)
    if instance.delegate.admission == Delegate.Admission.REJECTED:
        raise DelegateRejected("This delegate was rejected. Ask someone who manages delegates.")
    return instance


def check_scope(scope: Scope) -> None:
    """Refuse agents of an archived scope. Raises `ScopeArchived`."""
    archived = [
        level.path for level in (scope, scope.parent) if level is not None and level.archived_at is not None
    ]
    if archived:
        raise ScopeArchived(f"{archived[0]} is archived. Its delegates wait until it is restored.")


def is_trusted(token: DelegateToken | None) -> bool:
    """Return whether sessions with this token stay valid; only revoked tokens can be deleted."""
    return token is not None and token.status == DelegateToken.Status.ACTIVE


def _is_current(instance: DelegateInstance, session_hash: str, now: datetime) -> bool:
    until = instance.session_expires_at
    if until is None or now >= until:
        return False
    # Both are always compared, so that the duration reveals nothing.
    is_new = hmac.compare_digest(session_hash, instance.session_hash)
    was = hmac.compare_digest(session_hash, instance.previous_session_hash)
    return is_new or (was and now < until - SESSION + ROTATION_GRACE)


@transaction.atomic
def replace_session(instance: DelegateInstance, now: datetime) -> str:
    """Create a new session for an instance; the previous one becomes invalid."""
    session = generate_session(instance.pk)
    instance.session_hash = hash_secret(session)
    instance.previous_session_hash = ""
    instance.session_expires_at = now + SESSION
    instance.save(update_fields=["session_hash", "previous_session_hash", "session_expires_at"])
    notices.notify_ended([instance.pk], "session_invalid")
    return session
