"""Operations on delegate tokens: create, rename, reveal, revoke, delete."""

import hashlib
import secrets
from datetime import datetime

from django.db import IntegrityError, transaction
from django.utils import timezone

from connectors.operations.identifiers import validate_name
from delegates.live import publish_delegates_changed
from delegates.models import DelegateEvent, DelegateInstance, DelegateToken
from delegates.protocol import leases, notices
from delegates.protocol.events import get_instance_label, record_event
from rbac.audit import record_audit_entry
from rbac.encryption import DecryptionFailed
from rbac.models import Scope, User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict, ServiceUnavailable


def end_token_sessions(token: DelegateToken) -> list[DelegateInstance]:
    """End the sessions of a revoked token, and return their instances.

    Call it in the transaction that revokes. Sockets close (4401) after the commit, and the agents lose their
    tasks.
    """
    now = get_database_time()
    alive = DelegateInstance.objects.filter(token=token).exclude(status=DelegateInstance.Status.GONE)
    with_session = alive.exclude(session_hash="").select_related("delegate")
    ended = list(with_session.order_by("delegate__name", "pk"))
    for instance in ended:
        text = f"The session of {get_instance_label(instance)} ended: the token {token.name} was revoked."
        record_event(instance, DelegateEvent.Kind.SESSION_ENDED, text, at=now)
    ids = [ended_instance.pk for ended_instance in ended]
    DelegateInstance.objects.filter(pk__in=ids).update(
        status=DelegateInstance.Status.GONE, connection=DelegateInstance.Connection.NONE
    )
    leases.end_leases(ended, now=now)
    notices.notify_ended(ids, "token_revoked")
    publish_delegates_changed(*{ended_instance.delegate_id for ended_instance in ended})
    return ended


EDIT = "core_delegate_edit"
DELETE = "core_delegate_delete"
RANDOM_BYTES = 32
PREFIX_CHARACTERS = 12


def create_token(
    *, actor: User, scope: Scope, name: str, expires_at: datetime | None = None
) -> DelegateToken:
    """Create a token for the delegates of a scope; agents present its `value`.

    Raises `BadInput`, or `Conflict` if the scope has a token of that name.
    """
    require(actor, EDIT, scope)
    if expires_at is not None and expires_at <= timezone.now():
        message = "The expiry must be in the future; leave it empty for no expiry."
        raise BadInput(message, errors=[{"path": "expires_at", "message": message}])
    value = DelegateToken.PREFIX + secrets.token_urlsafe(RANDOM_BYTES)
    token = DelegateToken(
        scope=scope,
        name=validate_name(name),
        value=value,
        token_hash=hash_token(value),
        prefix=value[:PREFIX_CHARACTERS],
        created_by=actor,
        expires_at=expires_at,
    )
    try:
        with transaction.atomic():
            token.save()
            record_audit_entry(
                actor=actor, action="delegatetoken.create", thing=token, after=_build_audit_values(token)
            )
    except IntegrityError as exc:
        raise _build_name_conflict(token.name) from exc
    return token


def rename_token(*, actor: User, token: DelegateToken, name: str) -> DelegateToken:
    """Call a token something else. Raises `BadInput`, or `Conflict` if the name is taken."""
    require(actor, EDIT, token)
    before, token.name = _build_audit_values(token), validate_name(name)
    try:
        with transaction.atomic():
            token.save(update_fields=["name"])
            record_audit_entry(
                actor=actor,
                action="delegatetoken.update",
                thing=token,
                before=before,
                after=_build_audit_values(token),
            )
    except IntegrityError as exc:
        raise _build_name_conflict(token.name) from exc
    return token


def reveal_token(*, actor: User, token: DelegateToken, shown_for: str = "") -> str:
    """Return the value of a token, and record the reader and the reason in the audit trail.

    Raises `Conflict` if the token is revoked, `ServiceUnavailable` if its encryption key is missing.
    """
    require(actor, EDIT, token)
    if token.status != DelegateToken.Status.ACTIVE:
        raise Conflict(f"The token {token.name} is revoked and cannot be used. Create another token.")
    try:
        value = str(token.value)
    except DecryptionFailed as exc:
        raise ServiceUnavailable(str(exc)) from exc
    after = {"shown_for": shown_for} if shown_for else None
    record_audit_entry(actor=actor, action="delegatetoken.reveal", thing=token, after=after)
    return value


def revoke_token(*, actor: User, token: DelegateToken) -> list[DelegateInstance]:
    """Revoke a token, end all its sessions, and return their instances.

    Revoking it again changes nothing.
    """
    require(actor, EDIT, token)
    now = timezone.now()
    with transaction.atomic():
        revoked = {"status": DelegateToken.Status.REVOKED, "revoked_at": now, "revoked_by": actor}
        active = DelegateToken.objects.filter(pk=token.pk, status=DelegateToken.Status.ACTIVE)
        if not active.update(**revoked):
            return []
        ended = end_token_sessions(token)
        after = {"sessions_ended": [str(instance) for instance in ended]}
        record_audit_entry(
            actor=actor,
            action="delegatetoken.revoke",
            thing=token,
            before=_build_audit_values(token),
            after=after,
        )
    token.refresh_from_db(fields=list(revoked))
    return ended


def delete_token(*, actor: User, token: DelegateToken) -> None:
    """Delete a revoked token. Raises `Conflict` for one that agents may still use."""
    require(actor, DELETE, token)
    with transaction.atomic():
        record_audit_entry(
            actor=actor, action="delegatetoken.delete", thing=token, before=_build_audit_values(token)
        )
        deleted_count, _ = DelegateToken.objects.filter(
            pk=token.pk, status=DelegateToken.Status.REVOKED
        ).delete()
        if not deleted_count:
            raise Conflict(f"The token {token.name} is active. Revoke it first, then delete it.")


def hash_token(value: str) -> str:
    """Return the hash that identifies a token."""
    return hashlib.sha256(value.encode()).hexdigest()


def _build_name_conflict(name: str) -> Conflict:
    return Conflict(f"A token {name} already exists in this scope.")


def _build_audit_values(token: DelegateToken) -> dict[str, str | None]:
    return {
        "name": token.name,
        "prefix": token.prefix,
        "status": token.status,
        "expires_at": token.expires_at.isoformat() if token.expires_at else None,
    }
