"""Authorization of all open sockets of a process, repeated when access changes."""

import asyncio
import contextlib
import logging
import weakref
from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Protocol, Self

from channels.db import database_sync_to_async

from rbac.access_changes import ACCESS_GROUP, hash_session_key
from rbac.models import User
from web.http.sessions import get_session_users
from web.live.subscriptions import subscribe

CLOSE_NOT_SIGNED_IN = 4401
CLOSE_INTERNAL_ERROR = 1011
# Changes of access have messages; expired roles and lost messages are found within this time.
RECHECK_SECONDS = 10
logger = logging.getLogger(__name__)


class AuthorizedSocket(Protocol):
    """Socket of one user."""

    @classmethod
    def get_close_codes(cls, sockets: Sequence[tuple[Self, User]]) -> Sequence[int | None]:
        """Return the close codes of these sockets, or None, and store their permissions.

        The number of queries is constant.
        """


class SocketSession:
    """Session and user of one socket."""

    def __init__(self, watcher: AuthorizedSocket, session_key: str) -> None:
        self.socket = watcher
        self.session_key = session_key
        self.session_hash = hash_session_key(session_key)
        self.user_id: int | None = None
        # Set while nothing has changed since the last check: until then nothing is sent.
        self.authorized = asyncio.Event()
        # The code to close with.
        self.close_code: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    def is_affected(self, people: list[int], sessions: list[str]) -> bool:
        """Return whether a change is about this socket; one without names is about all."""
        if sessions:
            return self.session_hash in sessions
        return not people or self.user_id is None or self.user_id in people

    def close(self, code: int) -> None:
        """Close the socket unless it is closing already."""
        if not self.close_code.done():
            self.close_code.set_result(code)


class SocketAuthorizer:
    """Authorizer of all sockets of this process, repeated after changes and at intervals."""

    def __init__(self) -> None:
        self.sessions: set[SocketSession] = set()
        self.is_broken = False
        # Set once the subscription is active or has failed: earlier messages would be missed.
        self._ready = asyncio.Event()
        self._due: set[SocketSession] = set()
        self._check_requested = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start to listen."""
        hearing = subscribe(
            ACCESS_GROUP, about="Access changes", ready=self._on_subscribed, take=self._receive_change
        )
        self._tasks = [asyncio.create_task(job) for job in (hearing, self._check_due())]
        for job in self._tasks:
            job.add_done_callback(self._on_task_done)

    def stop(self) -> None:
        """Stop listening."""
        for job in self._tasks:
            job.cancel()

    def request_check(self, sockets: Iterable[SocketSession]) -> None:
        """Request a check of these sockets; a check in progress is repeated."""
        self._due.update(sockets)
        self._check_requested.set()

    async def _on_subscribed(self) -> None:
        if self._ready.is_set():
            # Messages during the outage are lost.
            self.request_check(self.sessions)
        self._ready.set()

    async def _receive_change(self, message: dict[str, Any]) -> None:
        concerned = [
            session
            for session in self.sessions
            if session.is_affected(message["people"], message["sessions"])
        ]
        for session in concerned:
            session.authorized.clear()
        self.request_check(concerned)

    async def _check_due(self) -> None:
        loop = asyncio.get_running_loop()
        await self._ready.wait()
        all_at = loop.time() + RECHECK_SECONDS
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._check_requested.wait(), max(0.001, all_at - loop.time()))
            self._check_requested.clear()
            due, self._due = self._due, set()
            if loop.time() >= all_at:
                due, all_at = set(self.sessions), loop.time() + RECHECK_SECONDS
            begun = loop.time()
            for session, code in (await database_sync_to_async(compute_close_codes)(list(due))).items():
                self._apply_close_code(session, code)
            # However often access changes, half of the time is left to others.
            await asyncio.sleep(loop.time() - begun)

    def _apply_close_code(self, session: SocketSession, code: int | None) -> None:
        if code is not None:
            self.sessions.discard(session)
            session.close(code)
        elif session not in self._due:
            session.authorized.set()

    def _on_task_done(self, job: "asyncio.Task[None]") -> None:
        """Close all sockets after a crashed job; they reconnect to a new authorizer."""
        if job.cancelled():
            return
        logger.error("The access of open sockets could not be checked", exc_info=job.exception())
        self.is_broken = True
        self.stop()
        for session in self.sessions:
            session.close(CLOSE_INTERNAL_ERROR)


def compute_close_codes(due: Sequence[SocketSession]) -> dict[SocketSession, int | None]:
    """Return a close code or None for each session; one query for each kind of socket."""
    people = get_session_users({session.session_key for session in due}) if due else {}
    close_codes: dict[SocketSession, int | None] = dict.fromkeys(due, CLOSE_NOT_SIGNED_IN)
    kinds: dict[type[AuthorizedSocket], list[tuple[SocketSession, User]]] = defaultdict(list)
    for session in due:
        if (person := people.get(session.session_key)) is not None:
            session.user_id = person.pk
            kinds[type(session.socket)].append((session, person))
    for kind, sockets in kinds.items():
        codes = kind.get_close_codes([(session.socket, person) for session, person in sockets])
        close_codes.update(zip((session for session, _ in sockets), codes, strict=True))
    return close_codes


_authorizers: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, SocketAuthorizer] = (
    weakref.WeakKeyDictionary()
)


@asynccontextmanager
async def authorize_socket(watcher: AuthorizedSocket, session_key: str) -> AsyncIterator[SocketSession]:
    """Authorize a socket for the block; the last socket of a process ends the authorizer."""
    loop = asyncio.get_running_loop()
    authorizer = _authorizers.get(loop)
    if authorizer is None or authorizer.is_broken:
        authorizer = _authorizers[loop] = SocketAuthorizer()
        authorizer.start()
    session = SocketSession(watcher, session_key)
    authorizer.sessions.add(session)
    authorizer.request_check([session])
    try:
        yield session
    finally:
        authorizer.sessions.discard(session)
        if not authorizer.sessions:
            authorizer.stop()
            if _authorizers.get(loop) is authorizer:
                del _authorizers[loop]
