"""Making API keys, giving them new tokens, and revoking them."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.utils import timezone

from guards.limits import KEY_GRACE_SECONDS
from rbac import audit
from rbac.models import ApiKey, Scope, User
from rbac.models.api_key import hash_of
from rbac.models.named import check_name
from rbac.models.role import known_permission
from rbac.operations.asking import refuse_more_than_own_roles, require_of, roles_of
from rbac.policy import Forbidden, can

SHOWN = 12
SHORTEST_TOKEN = 16
MANAGE = "core_serviceaccount_manageapikey"


def create_api_key(
    *,
    actor: User | None,
    user: User,
    name: str,
    expires_at: datetime | None = None,
    scope: Scope | None = None,
    permissions: Iterable[str] = (),
    token: str = "",
) -> tuple[ApiKey, str]:
    """Give `user` a new key and return it with its token, which is shown this once.

    The key is good for what its user may, or for less: at or below `scope`, with `permissions`. People make
    their own keys; those of a service account makes who may manage them and has every permission that it has.
    `token` is for an installation that brings its own.
    Raises `ValidationError` where the name is taken or misleads, `Forbidden`, `NotVisible`.
    """
    _require_making(actor, user)
    if actor is not None and actor.kind == User.Kind.SERVICE_ACCOUNT:
        # A program may rotate what it has; another key would outlive the one that was found out.
        require_of(actor, MANAGE, actor.service_account.scope)
    if token and len(token) < SHORTEST_TOKEN:
        raise ValidationError({"token": f"An API key has {SHORTEST_TOKEN} characters at least."})
    check_name(name)
    wanted = _known(permissions)
    token = token or _new_token()
    key = ApiKey(
        user=user, name=name, expires_at=expires_at, scope=scope, permissions=wanted, created_by=actor
    )
    key.prefix, key.hash = token[:SHOWN], hash_of(token)
    try:
        with transaction.atomic():
            key.save()
            audit.record(actor=actor, action="apikey.create", thing=key, after=_record(key))
    except IntegrityError as exc:
        raise ValidationError({"name": "This user has an API key of that name already."}) from exc
    return key, token


@transaction.atomic
def rotate_api_key(*, actor: User | None, key: ApiKey, grace_seconds: int = 0) -> str:
    """Give `key` a new token and return it; the old one opens for `grace_seconds` more.

    Raises `ValidationError` where the key is revoked or expired, or was rotated meanwhile.
    """
    _require_making(actor, key.user)
    if not 0 <= grace_seconds <= KEY_GRACE_SECONDS:
        raise ValidationError({"grace_seconds": f"Between 0 and {KEY_GRACE_SECONDS}."})
    now, token = timezone.now(), _new_token()
    if key.expires_at is not None and key.expires_at <= now:
        raise ValidationError("This API key has expired. Create a new one.", code="state")
    previous = {
        "previous_hash": key.hash if grace_seconds else "",
        "previous_until": now + timedelta(seconds=grace_seconds) if grace_seconds else None,
    }
    changed = ApiKey.objects.filter(pk=key.pk, hash=key.hash, revoked_at=None).update(
        hash=hash_of(token), prefix=token[:SHOWN], rotated_at=now, **previous
    )
    if not changed:
        raise ValidationError("This API key was revoked or rotated meanwhile. Load it again.", code="state")
    before = {"prefix": key.prefix}
    key.refresh_from_db()
    after = {"prefix": key.prefix, "grace_seconds": grace_seconds}
    audit.record(actor=actor, action="apikey.rotate", thing=key, before=before, after=after)
    return token


@transaction.atomic
def revoke_api_key(*, actor: User | None, key: ApiKey) -> None:
    """Make `key` useless at once; revoking it again changes nothing.

    One's own, those of service accounts whose keys one manages, and anybody's for who manages people.
    """
    _require_ending(actor, key.user)
    changed = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
    if changed:
        audit.record(actor=actor, action="apikey.revoke", thing=key, before=_record(key))


def _require_making(actor: User | None, user: User) -> None:
    if actor is None:
        return
    if actor.key_limits is not None:
        # It could make itself another one that is good for more, or for longer.
        sentence = "An API key that is narrowed or expires makes no keys. Use one without limits, or sign in."
        raise ValidationError(sentence)
    if user.pk == actor.pk:
        return
    if user.kind != User.Kind.SERVICE_ACCOUNT:
        raise ValidationError({"user": "People make their own API keys."})
    require_of(actor, MANAGE, user.service_account.scope)
    refuse_more_than_own_roles(actor, roles_of(user))


def _require_ending(actor: User | None, user: User) -> None:
    if actor is None or (user.pk == actor.pk and actor.key_limits is None):
        return
    if user.kind == User.Kind.SERVICE_ACCOUNT:
        require_of(actor, MANAGE, user.service_account.scope)
    elif not can(actor, "core_user_manage", Scope.objects.account()):
        raise Forbidden("core_user_manage")


def _known(permissions: Iterable[str]) -> list[str]:
    wanted = sorted(set(permissions))
    for permission in wanted:
        try:
            known_permission(permission)
        except ValidationError as exc:
            raise ValidationError({"permissions": exc.messages}) from exc
    return wanted


def _new_token() -> str:
    return ApiKey.PREFIX + secrets.token_urlsafe(32)


def _record(key: ApiKey) -> dict[str, Any]:
    return {
        "user": key.user.username,
        "prefix": key.prefix,
        "scope": key.scope.path if key.scope else None,
        "permissions": key.permissions,
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
    }
