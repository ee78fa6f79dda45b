"""API keys: made, looked up, noted as used, revoked."""

import secrets
from datetime import datetime, timedelta

from django.core.exceptions import ValidationError
from django.db import IntegrityError, transaction
from django.db.models import Q
from django.utils import timezone

from rbac import audit
from rbac.models import ApiKey, User
from rbac.models.api_key import hash_of
from rbac.models.named import check_name

SHOWN = 12
SHORTEST_TOKEN = 16
# A row written at each request would make every read a write.
USE_IS_NOTED_EVERY = timedelta(minutes=1)


def create_api_key(
    *, actor: User | None, user: User, name: str, expires_at: datetime | None = None, token: str = ""
) -> tuple[ApiKey, str]:
    """Give `user` a new key and return it with its token, which is shown this once.

    `token` is for an installation that brings its own.
    Raises `ValidationError` where the name is taken or misleads.
    """
    if token and len(token) < SHORTEST_TOKEN:
        raise ValidationError({"token": f"An API key has {SHORTEST_TOKEN} characters at least."})
    check_name(name)
    token = token or ApiKey.PREFIX + secrets.token_urlsafe(32)
    try:
        with transaction.atomic():
            key = ApiKey.objects.create(
                user=user, name=name, prefix=token[:SHOWN], hash=hash_of(token), expires_at=expires_at
            )
            audit.record(actor=actor, action="apikey.create", thing=key, after={"user": user.username})
    except IntegrityError as exc:
        raise ValidationError({"name": "This user has an API key of that name already."}) from exc
    return key, token


def revoke_api_key(*, actor: User | None, key: ApiKey) -> None:
    """Make `key` useless at once; revoking it again changes nothing."""
    with transaction.atomic():
        changed = ApiKey.objects.filter(pk=key.pk, revoked_at=None).update(revoked_at=timezone.now())
        if changed:
            audit.record(actor=actor, action="apikey.revoke", thing=key)


def key_of_token(token: str) -> ApiKey | None:
    """Return the key of `token` with its user, or None where either of them no longer counts."""
    current = Q(expires_at__isnull=True) | Q(expires_at__gt=timezone.now())
    keys = ApiKey.objects.select_related("user").filter(current, revoked_at=None, user__is_active=True)
    return keys.filter(hash=hash_of(token)).first()


def note_use(key: ApiKey) -> None:
    """Remember that `key` was used just now, once a minute at most."""
    now = timezone.now()
    if key.last_used_at is None or key.last_used_at < now - USE_IS_NOTED_EVERY:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
