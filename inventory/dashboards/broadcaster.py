"""Broadcaster that polls watched services once per process for all viewers."""

import asyncio
import logging
import time
import weakref
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager
from typing import Any

from channels.db import database_sync_to_async
from django.db.models import Count, Max

from deployments.models import StageExecution
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.sync.watched_services import RECORD_INTERVAL, record_watched_services
from steps.states import TERMINAL_STATUSES
from web.clock import get_database_time

SCAN_INTERVAL_SECONDS = 2
# A look at services with many tasks takes longer: the next one waits this many times as long.
SCAN_REST_FACTOR = 20
logger = logging.getLogger(__name__)

ServiceFingerprints = dict[int, int]


def read_service_fingerprints(services: Collection[int]) -> ServiceFingerprints:
    """One number for how each of these services looks; another once its dashboard does; 3 queries."""
    found: defaultdict[int, list[Any]] = defaultdict(list)
    seen = EcsServiceRecord.objects.filter(service__in=services, gone_at=None).order_by("pk")
    columns = (
        "service_id",
        "pk",
        "desired",
        "running",
        "pending",
        "task_definition",
        "targets_read_at",
        "usage_read_at",
    )
    tasks = ServiceInstance.objects.filter(ecs_service__service__in=services, stopped_at=None)
    kinds = ("ecs_service__service_id", "last_status", "health", "task_definition")
    counted = tasks.values_list(*kinds).annotate(count=Count("pk"), newest=Max("pk")).order_by(*kinds)
    stages = (
        StageExecution.objects.filter(service__in=services)
        .exclude(status__in=TERMINAL_STATUSES)
        .order_by("pk")
    )
    for rows in (
        seen.values_list(*columns),
        counted,
        stages.values_list("service_id", "pk", "status", "counts"),
    ):
        for service, *facts in rows:
            found[service].append(str(facts))
    return {pk: hash(tuple(found[pk])) for pk in services}


class ServiceBroadcaster:
    """Looks at services that are watched, every two seconds or as often as takes a twentieth of a core."""

    def __init__(self) -> None:
        self.is_broken = False
        self.news = asyncio.Event()
        self.watched: Counter[int] = Counter()
        # How often each service was found changed.
        self.changes: Counter[int] = Counter()
        self._looks: ServiceFingerprints = {}
        self._noted = time.monotonic()
        self._job: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._job = asyncio.create_task(self._keep())
        self._job.add_done_callback(self._job_ended)

    def stop(self) -> None:
        """Look no more."""
        if self._job is not None:
            self._job.cancel()

    def _job_ended(self, job: asyncio.Task[None]) -> None:
        """A job that broke lets the viewers go: they come back to a new hub, and would else wait for ever."""
        if job.cancelled():
            return
        logger.error("Watching services broke off", exc_info=job.exception())
        self.is_broken = True
        self._wake()

    async def _keep(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            begun = loop.time()
            self._compare(await self._read(frozenset(self.watched)))
            took = loop.time() - begun
            await asyncio.sleep(max(SCAN_INTERVAL_SECONDS, SCAN_REST_FACTOR * took))

    def _compare(self, found: ServiceFingerprints) -> None:
        changed = [pk for pk, looks in found.items() if self._looks.get(pk, looks) != looks]
        self._looks = found
        for pk in changed:
            self.changes[pk] += 1
        if changed:
            self._wake()

    def _wake(self) -> None:
        self.news.set()
        self.news = asyncio.Event()

    @database_sync_to_async
    def _read(self, services: Collection[int]) -> ServiceFingerprints:
        if time.monotonic() > self._noted + RECORD_INTERVAL.total_seconds():
            self._noted = time.monotonic()
            record_watched_services(services, get_database_time())
        return read_service_fingerprints(services)


_broadcasters: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, ServiceBroadcaster] = (
    weakref.WeakKeyDictionary()
)


@asynccontextmanager
async def open_service_broadcaster(service: int) -> AsyncIterator[ServiceBroadcaster]:
    """The hub of this process, which looks at this service too; the last viewer ends it."""
    loop = asyncio.get_running_loop()
    found = _broadcasters.get(loop)
    if found is None or found.is_broken:
        found = _broadcasters[loop] = ServiceBroadcaster()
        found.watched[service] += 1
        found.start()
    else:
        found.watched[service] += 1
    try:
        yield found
    finally:
        found.watched[service] -= 1
        # Counters keep what they have counted down to nothing.
        found.watched += Counter()
        if not found.watched:
            found.stop()
            if _broadcasters.get(loop) is found:
                del _broadcasters[loop]
