"""Writer of the audit trail, and the request that audit entries belong to."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from django.contrib.auth.models import AnonymousUser
from django.db.models import Model

from rbac import access_changes
from rbac.models import ApiKey, AuditEntry, Scope, ServiceAccount, User
from rbac.models.users import SYSTEM_USERNAME


@dataclass(frozen=True)
class RequestInfo:
    """Audited data of the request that caused an entry."""

    request_id: str = ""
    address: str = ""
    source: str = ""
    api_key_prefix: str = ""


NO_REQUEST = RequestInfo()
current_request: ContextVar[RequestInfo] = ContextVar("current_request")


@contextmanager
def outside_request() -> Iterator[None]:
    """Record entries without the address and id of the request: somebody else than their actor sent it."""
    reset = current_request.set(NO_REQUEST)
    try:
        yield
    finally:
        current_request.reset(reset)


def record_audit_entry(
    *,
    actor: User | AnonymousUser | None,
    action: str,
    thing: Model,
    before: Mapping[str, Any] | None = None,
    after: Mapping[str, Any] | None = None,
    source: str = "",
) -> AuditEntry:
    """Record in the audit trail that `actor` performed `action` ("connector.update") on `thing`.

    Call it in the transaction of the change. `before` and `after` must be JSON without secret values. `actor`
    is None for Slipway itself. Changes that may remove access are also published to open sockets.
    """
    mark = current_request.get(NO_REQUEST)
    access_changes.publish_audited_change(action, thing)
    return AuditEntry.objects.create(
        actor=actor if isinstance(actor, User) else None,
        actor_name=actor.get_username() if isinstance(actor, User) else SYSTEM_USERNAME,
        api_key_prefix=mark.api_key_prefix,
        action=action,
        thing_type=thing._meta.label_lower,
        thing_id=str(thing.pk),
        thing_name=str(thing)[:400],
        scope=_get_scope(thing),
        before=before,
        after=after,
        source=source or mark.source or "internal",
        request_id=mark.request_id,
        address=mark.address,
    )


def _get_scope(thing: Model) -> Scope | None:
    if isinstance(thing, ApiKey):
        return _get_key_scope(thing)
    scope = getattr(thing, "scope", None)
    return scope if isinstance(scope, Scope) else None


def _get_key_scope(key: ApiKey) -> Scope | None:
    """Return the scope of a key's service account, or the narrower one that limits the key."""
    accounts = ServiceAccount.objects.filter(user=key.user_id).select_related("scope")
    account = accounts.first() if key.user.kind == User.Kind.SERVICE_ACCOUNT else None
    if account is None or (key.scope is not None and account.scope.path in key.scope.ancestor_paths()):
        return key.scope
    return account.scope
