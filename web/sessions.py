"""Sessions in the database that tell open connections of their end."""

from typing import Any

from django.contrib.sessions.backends import db

from rbac.changes import session_ended


class SessionStore(db.SessionStore):
    """A session; who signs out, or is signed out, loses the sockets that were opened with it too."""

    def delete(self, session_key: Any = None) -> None:
        key = session_key or self.session_key
        super().delete(session_key)
        if key:
            session_ended(key)
