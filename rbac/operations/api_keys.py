"""API keys: create, rotate, revoke, look up by token."""

import secrets
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from guards.limits import KEY_GRACE_SECONDS
from rbac import audit
from rbac.models import ApiKey, Scope, ServiceAccount, User
from rbac.models.api_keys import hash_token
from rbac.models.roles import validate_permission
from rbac.models.scopes import validate_name
from rbac.operations.escalation_checks import (
    list_user_assignments,
    refuse_role_escalation,
    require_permission,
)
from rbac.policy import Forbidden, can

VISIBLE_CHARACTERS = 12
MIN_TOKEN_CHARACTERS = 16
MANAGE_API_KEYS = "core_serviceaccount_manageapikey"


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
    """Create an API key of `user`, and return it with its token, which is shown once.

    The key has the permissions of its user, optionally limited to `scope` and `permissions`. Users create
    their own keys. Keys of a service account need permission to manage them, and all of its permissions.
    `token` is for an installation that supplies its own. Raises `ValidationError` for a used or misleading
    name, `Forbidden`, `NotVisible`.
    """
    _require_create(actor, user)
    if actor is not None and actor.kind == User.Kind.SERVICE_ACCOUNT:
        # A program may rotate its key; a second key would survive the revocation of the first.
        require_permission(actor, MANAGE_API_KEYS, actor.service_account.scope)
    if token and len(token) < MIN_TOKEN_CHARACTERS:
        raise ValidationError({"token": f"An API key must have at least {MIN_TOKEN_CHARACTERS} characters."})
    validate_name(name)
    permission_list = _validate_permissions(permissions)
    token = token or _generate_token()
    key = ApiKey(
        user=user,
        name=name,
        expires_at=expires_at,
        scope=scope,
        permissions=permission_list,
        created_by=actor,
    )
    key.prefix, key.hash = token[:VISIBLE_CHARACTERS], hash_token(token)
    try:
        with transaction.atomic():
            key.save()
            audit.record_audit_entry(
                actor=actor, action="apikey.create", thing=key, after=_build_audit_values(key)
            )
    except IntegrityError as exc:
        raise ValidationError(
            {"name": ("This user already has an API key with this name. Choose another name.")}
        ) from exc
    return key, token


@transaction.atomic
def rotate_api_key(*, actor: User | None, key: ApiKey, grace_seconds: int = 0) -> str:
    """Replace the token of `key` and return it; the old token works for `grace_seconds`.

    Raises `ValidationError` for a revoked or expired key, or after a concurrent rotation.
    """
    _require_create(actor, key.user)
    if not 0 <= grace_seconds <= KEY_GRACE_SECONDS:
        raise ValidationError({"grace_seconds": f"Enter a number from 0 to {KEY_GRACE_SECONDS}."})
    now, token = timezone.now(), _generate_token()
    if key.expires_at is not None and key.expires_at <= now:
        raise ValidationError("This API key has expired. Create a new one.", code="state")
    previous = {
        "previous_hash": key.hash if grace_seconds else "",
        "previous_until": now + timedelta(seconds=grace_seconds) if grace_seconds else None,
    }
    changed = ApiKey.objects.filter(pk=key.pk, hash=key.hash, revoked_at=None).update(
        hash=hash_token(token), prefix=token[:VISIBLE_CHARACTERS], rotated_at=now, **previous
    )
    if not changed:
        raise ValidationError(
            "This API key was revoked or rotated in the meantime. Reload the page.", code="state"
        )
    before = {"prefix": key.prefix}
    key.refresh_from_db()
    after = {"prefix": key.prefix, "grace_seconds": grace_seconds}
    audit.record_audit_entry(actor=actor, action="apikey.rotate", thing=key, before=before, after=after)
    return token


@transaction.atomic
def revoke_api_key(*, actor: User | None, key: ApiKey, used_key: ApiKey | None = None) -> None:
    """Revoke `key` at once; revoking it again changes nothing.

    Users revoke their own keys, keys of service accounts that they manage, and all keys if they manage users.
    `used_key` is the key of the request, if any: each key may revoke itself, whatever its limits.
    """
    if used_key is None or used_key.pk != key.pk:
        _require_revoke(actor, key.user)
    changed = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
    if changed:
        audit.record_audit_entry(
            actor=actor, action="apikey.revoke", thing=key, before=_build_audit_values(key)
        )


def _require_create(actor: User | None, user: User) -> None:
    if actor is None:
        return
    if actor.key_limits is not None:
        # It could make itself another one that is good for more, or for longer.
        sentence = (
            "An API key with limited permissions or an expiry cannot create API keys. Use a key without "
            "limits, or sign in."
        )
        raise ValidationError(sentence)
    if user.pk == actor.pk:
        return
    if user.kind != User.Kind.SERVICE_ACCOUNT:
        raise ValidationError(
            {"user": ("You can only create API keys for yourself and for service accounts.")}
        )
    require_permission(actor, MANAGE_API_KEYS, user.service_account.scope)
    refuse_role_escalation(actor, list_user_assignments(user))


def _require_revoke(actor: User | None, user: User) -> None:
    if actor is None or (user.pk == actor.pk and actor.key_limits is None):
        return
    # The keys of a deleted service account stay, for the trail.
    account: ServiceAccount | None = getattr(user, "service_account", None)
    if account is not None:
        require_permission(actor, MANAGE_API_KEYS, account.scope)
    elif not can(actor, "core_user_manage", Scope.objects.account()):
        raise Forbidden("core_user_manage")


def _validate_permissions(permissions: Iterable[str]) -> list[str]:
    identifiers = sorted(set(permissions))
    for permission in identifiers:
        try:
            validate_permission(permission)
        except ValidationError as exc:
            raise ValidationError({"permissions": exc.messages}) from exc
    return identifiers


def _generate_token() -> str:
    return ApiKey.PREFIX + secrets.token_urlsafe(32)


def _build_audit_values(key: ApiKey) -> dict[str, Any]:
    return {
        "user": key.user.username,
        "prefix": key.prefix,
        "scope": key.scope.path if key.scope else None,
        "permissions": key.permissions,
        "expires_at": key.expires_at.isoformat() if key.expires_at else None,
    }


# A row written at each request would make every read a write.
USE_RECORD_INTERVAL = timedelta(minutes=1)


def get_api_key_by_token(token: str) -> ApiKey | None:
    """Return the key of `token` with its user, or None if either is inactive.

    After a rotation the previous token works until the grace period ends.
    """
    now, hashed = timezone.now(), hash_token(token)
    current = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    opens = Q(hash=hashed) | Q(previous_hash=hashed, previous_until__gt=now)
    keys = ApiKey.objects.select_related("user", "scope")
    return keys.filter(opens, current, revoked_at=None, user__is_active=True).first()


def record_api_key_use(key: ApiKey) -> None:
    """Record the use of `key`, once a minute at most."""
    now = timezone.now()
    if key.last_used_at is None or key.last_used_at < now - USE_RECORD_INTERVAL:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
