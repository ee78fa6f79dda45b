"""API keys: looked up by their token, noted as used."""

from datetime import timedelta

from django.db.models import Q
from django.utils import timezone

from rbac.models import ApiKey
from rbac.models.api_key import hash_of

# A row written at each request would make every read a write.
USE_IS_NOTED_EVERY = timedelta(minutes=1)


def key_of_token(token: str) -> ApiKey | None:
    """Return the key of `token` with its user, or None where either of them no longer counts.

    After a rotation the token before it opens too, until its grace ends.
    """
    now, hashed = timezone.now(), hash_of(token)
    current = Q(expires_at__isnull=True) | Q(expires_at__gt=now)
    opens = Q(hash=hashed) | Q(previous_hash=hashed, previous_until__gt=now)
    keys = ApiKey.objects.select_related("user", "scope")
    return keys.filter(opens, current, revoked_at=None, user__is_active=True).first()


def note_use(key: ApiKey) -> None:
    """Remember that `key` was used just now, once a minute at most."""
    now = timezone.now()
    if key.last_used_at is None or key.last_used_at < now - USE_IS_NOTED_EVERY:
        ApiKey.objects.filter(pk=key.pk).update(last_used_at=now)
