"""Sessions: what an agent shows with each call, given by registering and renewed by heartbeats."""

import hashlib
import hmac
import re
import secrets
from datetime import datetime

from django.db import transaction

from delegates.models import Delegate, DelegateInstance, DelegateToken
from delegates.protocol import notices, outage
from delegates.protocol.problems import DelegateRejected, ScopeArchived, SessionInvalid, TokenRevoked
from delegates.protocol.terms import ROTATION_GRACE, SESSION
from rbac.models import Scope
from web.clock import database_now

PREFIX = "slp_ses_"
_SESSION = re.compile(r"slp_ses_([0-9]{1,18})_[A-Za-z0-9_-]{43}")
_REGISTER = "Register again."


def new_session(instance_id: int) -> str:
    """A credential that names its instance, so that it is found without a search."""
    return f"{PREFIX}{instance_id}_{secrets.token_urlsafe(32)}"


def hash_of(secret: str) -> str:
    """What is kept of a secret of 256 random bits."""
    return hashlib.sha256(secret.encode()).hexdigest()


def instance_of(session: str) -> DelegateInstance:
    """The instance whose session this is, with its delegate, token and configuration.

    Raises `SessionInvalid`, `TokenRevoked`, `ScopeArchived`, `DelegateRejected`.
    """
    outage.forgive_once()
    named = _SESSION.fullmatch(session)
    rows = DelegateInstance.objects.select_related(
        "delegate__configuration", "delegate__scope__parent", "token"
    )
    found = rows.filter(pk=int(named[1])).first() if named else None
    if found is None or not _is_current(found, hash_of(session), database_now()):
        raise SessionInvalid(f"This session is not, or no longer, one of this Slipway. {_REGISTER}")
    if not is_trusted(found.token):
        raise TokenRevoked("The token that this session began with was revoked. Use another token.")
    check_scope(found.delegate.scope)
    if found.delegate.admission == Delegate.Admission.REJECTED:
        raise DelegateRejected("Somebody rejected this delegate. Ask who looks after delegates here.")
    return found


def check_scope(scope: Scope) -> None:
    """Refuse the agents of what is archived. Raises `ScopeArchived`."""
    archived = [one.path for one in (scope, scope.parent) if one is not None and one.archived_at is not None]
    if archived:
        raise ScopeArchived(f"{archived[0]} is archived. Its delegates wait until somebody brings it back.")


def is_trusted(token: DelegateToken | None) -> bool:
    """Whether sessions that began with this token go on; only revoked ones can be deleted."""
    return token is not None and token.status == DelegateToken.Status.ACTIVE


def _is_current(instance: DelegateInstance, shown: str, now: datetime) -> bool:
    until = instance.session_expires_at
    if until is None or now >= until:
        return False
    # Both are compared, always: how long that takes says nothing.
    is_new = hmac.compare_digest(shown, instance.session_hash)
    was = hmac.compare_digest(shown, instance.previous_session_hash)
    return is_new or (was and now < until - SESSION + ROTATION_GRACE)


@transaction.atomic
def replace_session(instance: DelegateInstance, now: datetime) -> str:
    """Give an instance a new session; the one before is refused from now on."""
    session = new_session(instance.pk)
    instance.session_hash = hash_of(session)
    instance.previous_session_hash = ""
    instance.session_expires_at = now + SESSION
    instance.save(update_fields=["session_hash", "previous_session_hash", "session_expires_at"])
    notices.notify_ended([instance.pk], "session_invalid")
    return session
