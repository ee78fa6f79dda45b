"""Sessions in the database that tell open connections of their end, and whose they are."""

from collections.abc import Collection, Mapping
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.sessions.backends import db
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from rbac.changes import session_ended
from rbac.models import User


class SessionStore(db.SessionStore):
    """A session; who signs out, or is signed out, loses the sockets that were opened with it too."""

    def delete(self, session_key: Any = None) -> None:
        key = session_key or self.session_key
        super().delete(session_key)
        if key:
            session_ended(key)


def people_of(session_keys: Collection[str]) -> dict[str, User]:
    """Return whose sessions these are, read afresh; two queries however many.

    Left out are those that ended, whose person was switched off, and whose password is another one now.
    """
    store = SessionStore()
    rows = store.model.objects.filter(session_key__in=list(session_keys), expire_date__gt=timezone.now())
    sessions = {row.session_key: store.decode(row.session_data) for row in rows}
    users = User.objects.in_bulk({int(one[SESSION_KEY]) for one in sessions.values() if SESSION_KEY in one})
    found = {key: users.get(int(one.get(SESSION_KEY, 0))) for key, one in sessions.items()}
    return {key: user for key, user in found.items() if user is not None and _is_open_to(user, sessions[key])}


def _is_open_to(user: User, session: Mapping[str, Any]) -> bool:
    path, seal = session.get(BACKEND_SESSION_KEY), session.get(HASH_SESSION_KEY)
    if path not in settings.AUTHENTICATION_BACKENDS or not seal:
        return False
    if not load_backend(path).user_can_authenticate(user):  # type: ignore[attr-defined]
        return False
    seals = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(seal, one) for one in seals)
