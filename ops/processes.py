"""Signs of life of web and worker processes."""

import asyncio
import contextlib
import logging
import os
import signal
import socket
from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection

from ops.backups.unfinished import (
    UnfinishedRestoreError,
    find_unfinished_restore,
    refuse_unfinished_restore,
)
from ops.models import ServerProcess
from web.clock import get_database_time

SIGN_INTERVAL_SECONDS: Final = 10.0
# Three signs may be late or lost.
SILENT_AFTER: Final = timedelta(seconds=40)
# A process that was killed is no longer missed.
FORGOTTEN_AFTER: Final = timedelta(minutes=10)

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class ProcessState:
    """A process as of now."""

    process: ServerProcess
    silence: timedelta

    @property
    def is_silent(self) -> bool:
        return self.silence > SILENT_AFTER


def list_processes(now: datetime) -> list[ProcessState]:
    """Return the processes that gave a sign of life in the last ten minutes, by role and host."""
    recent = ServerProcess.objects.filter(seen_at__gt=now - FORGOTTEN_AFTER)
    return [ProcessState(row, now - row.seen_at) for row in recent.order_by("role", "hostname", "pid")]


class LifeSigns:
    """The row of this process: created at its start, renewed with `renew`, deleted at its end.

    Connections are closed after each use: a worker's main process forks, and a web process has other uses for
    the connections of its pool.
    """

    def __init__(self, role: ServerProcess.Role) -> None:
        self.role = role
        self.row: ServerProcess | None = None

    def renew(self) -> None:
        """Write that this process lives; without a database, only log it.

        Ends the process while a restore of its database is unfinished, which its start may have missed.
        """
        try:
            if reason := find_unfinished_restore():
                logger.critical("This process ends. %s", reason)
                os.kill(os.getpid(), signal.SIGTERM)
                return
            now = get_database_time()
            if self.row is None or not ServerProcess.objects.filter(pk=self.row.pk).update(seen_at=now):
                self.row = self._create(now)
        except (DatabaseError, InterfaceError) as exc:
            logger.warning("The sign of life of this process was not written: %s", exc)
        finally:
            _close_connection()

    def end(self) -> None:
        """Delete the row of a process that ends in order."""
        with contextlib.suppress(DatabaseError, InterfaceError):
            if self.row is not None:
                ServerProcess.objects.filter(pk=self.row.pk).delete()
        _close_connection()

    def _create(self, now: datetime) -> ServerProcess:
        hostname, pid = socket.gethostname(), os.getpid()
        ServerProcess.objects.filter(seen_at__lt=now - FORGOTTEN_AFTER).delete()
        # Processes of this host that were killed: their replacement, which is this one, is here.
        here = ServerProcess.objects.filter(role=self.role, hostname=hostname)
        gone = [row.pk for row in here if row.pid == pid or not _is_running(row.pid)]
        ServerProcess.objects.filter(pk__in=gone).delete()
        return ServerProcess.objects.create(
            role=self.role,
            hostname=hostname,
            pid=pid,
            version=settings.SLIPWAY_VERSION,
            started_at=now,
            seen_at=now,
        )


def _close_connection() -> None:
    if not connection.in_atomic_block:
        connection.close()


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


Message = MutableMapping[str, Any]


class WebLifeSigns:
    """ASGI application for the lifespan of a web process: signs of life from its event loop.

    An event loop that hangs gives none.
    """

    def __init__(self) -> None:
        self.signs = LifeSigns(ServerProcess.Role.WEB)

    async def __call__(
        self,
        scope: Message,
        receive: Callable[[], Awaitable[Message]],
        send: Callable[[Message], Awaitable[None]],
    ) -> None:
        """Renew the signs from startup to shutdown (https://asgi.readthedocs.io/en/latest/specs/lifespan.html).

        On a database whose restore is unfinished, the startup fails.
        """
        await receive()
        try:
            await sync_to_async(refuse_unfinished_restore)()
        except UnfinishedRestoreError as exc:
            await send({"type": "lifespan.startup.failed", "message": str(exc)})
            return
        renewing = asyncio.create_task(self._renew_forever())
        await send({"type": "lifespan.startup.complete"})
        await receive()
        renewing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await renewing
        await sync_to_async(self.signs.end)()
        await send({"type": "lifespan.shutdown.complete"})

    async def _renew_forever(self) -> None:
        while True:
            await sync_to_async(self.signs.renew)()
            await asyncio.sleep(SIGN_INTERVAL_SECONDS)
