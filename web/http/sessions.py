"""Sessions in the database under hashed keys, and the users signed in with them."""

from collections.abc import Collection, Mapping
from typing import Any, Final, cast

from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY, load_backend
from django.contrib.sessions.backends import db
from django.contrib.sessions.backends.base import UpdateError
from django.contrib.sessions.base_session import AbstractBaseSession
from django.contrib.sessions.models import Session
from django.db import OperationalError
from django.db.models import QuerySet
from django.utils import timezone
from django.utils.crypto import constant_time_compare

from rbac.access_changes import hash_session_key, publish_session_end
from rbac.models import User
from web.http.outages import is_outage, optional_write

# The scope that was shown last, and when the person was here last.
SCOPE_KEY, SEEN_AT_KEY = "scope", "seen_at"
OPTIONAL_KEYS: Final = frozenset((SCOPE_KEY, SEEN_AT_KEY, "_session_expiry"))


class SessionStore(db.SessionStore):
    """Session store with hashed keys: the database cannot be used to sign in.

    The end of a session also closes its sockets.
    """

    _loaded: Session | None = None

    def exists(self, session_key: str) -> bool:
        return bool(super().exists(hash_session_key(session_key)))

    def create_model_instance(self, data: dict[str, Any]) -> AbstractBaseSession:
        row = super().create_model_instance(data)
        row.session_key = hash_session_key(row.session_key)
        return row

    def save(self, must_create: bool = False) -> None:
        """Save the session; a request that only notes its place and time does not fail or wait for that."""
        if must_create or not self._has_only_optional_changes():
            self._save(must_create)
            return
        with optional_write("the place and time of a session"):
            self._save(must_create)

    def _save(self, must_create: bool) -> None:
        try:
            super().save(must_create)
        except UpdateError as error:
            # Django takes every refusal of the database for a session that was deleted meanwhile.
            if is_outage(error.__context__):
                raise cast(OperationalError, error.__context__) from None
            raise

    def _has_only_optional_changes(self) -> bool:
        if self._loaded is None or self.session_key is None:
            return False
        before, now = self.decode(self._loaded.session_data), dict(self.items())
        changed = {name for name in before.keys() | now.keys() if before.get(name) != now.get(name)}
        return self._loaded.session_key == hash_session_key(self.session_key) and changed <= OPTIONAL_KEYS

    def delete(self, session_key: str | None = None) -> None:
        if key := session_key or self.session_key:
            end_session(hash_session_key(key))

    def _get_session_from_db(self) -> Session | None:
        row = _list_open_sessions([hash_session_key(self.session_key or "")]).first()
        if row is None:
            self._session_key = None
        self._loaded = row
        return row

    # Django's own would look up the plain key.
    async def aload(self) -> dict[str, Any]:
        return await sync_to_async(self.load)()

    async def asave(self, must_create: bool = False) -> None:
        await sync_to_async(self.save)(must_create)

    async def aexists(self, session_key: str) -> bool:
        return await sync_to_async(self.exists)(session_key)

    async def adelete(self, session_key: str | None = None) -> None:
        await sync_to_async(self.delete)(session_key)


def end_session(key_hash: str) -> None:
    """Delete a session and have the sockets closed that were opened with it."""
    Session.objects.filter(session_key=key_hash).delete()
    publish_session_end(key_hash)


def _list_open_sessions(key_hashes: Collection[str]) -> QuerySet[Session]:
    return Session.objects.filter(session_key__in=key_hashes, expire_date__gt=timezone.now())


def get_session_users(session_keys: Collection[str]) -> dict[str, User]:
    """Return the current users of these sessions, in two queries.

    Ended sessions, deactivated users and changed passwords are left out.
    """
    store = SessionStore()
    keys = {hash_session_key(key): key for key in session_keys}
    sessions = {keys[row.session_key]: store.decode(row.session_data) for row in _list_open_sessions(keys)}
    users = User.objects.in_bulk(
        {int(session[SESSION_KEY]) for session in sessions.values() if SESSION_KEY in session}
    )
    users_by_key = {key: users.get(int(session.get(SESSION_KEY, 0))) for key, session in sessions.items()}
    return {
        key: user
        for key, user in users_by_key.items()
        if user is not None and _is_valid_for(user, sessions[key])
    }


def _is_valid_for(user: User, session: Mapping[str, Any]) -> bool:
    path, seal = session.get(BACKEND_SESSION_KEY), session.get(HASH_SESSION_KEY)
    if path not in settings.AUTHENTICATION_BACKENDS or not seal:
        return False
    if not load_backend(path).user_can_authenticate(user):  # type: ignore[attr-defined]
        return False
    seals = (user.get_session_auth_hash(), *user.get_session_auth_fallback_hash())
    return any(constant_time_compare(seal, candidate) for candidate in seals)
