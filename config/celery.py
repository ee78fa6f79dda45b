"""Celery application of workers and beat."""

import gc
import os
from typing import Any

from celery import Celery, bootsteps, signals
from django.db import connections

from config import broker, task_headers, telemetry
from guards.heap import release_free_memory

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "config.settings")
# Checks import every view and form: 20 MiB and half a second of each worker. `migrate` has run them.
os.environ.setdefault("CELERY_SKIP_CHECKS", "1")

broker.register_transport()
task_headers.connect_signals()
telemetry.connect_worker_tracing()
app = Celery("slipway", task_cls="config.guarded_tasks:GuardedTask")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks()


# A connection anew for each task costs more than most tasks do.
CONNECTION_SECONDS = 60
FREE_MEMORY_SECONDS = 60.0


@signals.celeryd_after_setup.connect
def keep_connections(**_: Any) -> None:
    """Keep the database connection of a worker between tasks; each task first tests it."""
    for connection in connections.all():
        connection.settings_dict.update(CONN_MAX_AGE=CONNECTION_SECONDS, CONN_HEALTH_CHECKS=True)


@signals.celeryd_after_setup.connect
def freeze_loaded_modules(**_: Any) -> None:
    """Exclude loaded modules from garbage collection, so that forked children share their pages."""
    gc.collect()
    gc.freeze()


@signals.worker_init.connect
@signals.beat_init.connect
def refuse_unfinished_restore(**_: Any) -> None:
    """End the start on a database whose restore is unfinished."""
    from ops.backups import unfinished

    unfinished.refuse_unfinished_restore()


class LifeSigns(bootsteps.StartStopStep):
    """Step of the worker's main process that says every few seconds that it lives."""

    requires = ("celery.worker.components:Timer", "celery.worker.components:Pool")

    def start(self, worker: Any) -> None:
        """Write the first sign, and have the worker's loop write the next ones."""
        # Models, which need the apps that are loaded by now.
        from ops.models import ServerProcess
        from ops.processes import SIGN_INTERVAL_SECONDS, LifeSigns

        self.signs = LifeSigns(ServerProcess.Role.WORKER)
        self.signs.renew()
        self.timer = worker.timer.call_repeatedly(SIGN_INTERVAL_SECONDS, self.signs.renew)

    def stop(self, worker: Any) -> None:
        """Delete the row of this process."""
        self.timer.cancel()
        self.signs.end()


class EventQueues(bootsteps.StartStopStep):
    """Step of the worker's main process that reads the event queues that no other worker reads."""

    requires = ("celery.worker.components:Pool",)

    def start(self, worker: Any) -> None:
        """Start the threads, after the children were forked."""
        from delegates.event_queues.threads import QueueReaders

        self.readers = QueueReaders()
        self.readers.start()

    def stop(self, worker: Any) -> None:
        """End the threads."""
        self.readers.stop()


class FreeMemory(bootsteps.StartStopStep):
    """Step of the worker's main process that gives back what lost connections to the broker leave.

    A lost connection and its socket are kept by cycles of exceptions and frames. The main process creates so
    few objects that Python would collect those after hundreds of losses.
    """

    requires = ("celery.worker.components:Timer",)

    def start(self, worker: Any) -> None:
        """Have the worker's loop free memory every minute."""
        self.timer = worker.timer.call_repeatedly(FREE_MEMORY_SECONDS, release_free_memory)

    def stop(self, worker: Any) -> None:
        """Leave the rest to the end of the process."""
        self.timer.cancel()


class Metrics(bootsteps.Step):
    """Step of the worker's main process that serves the counters of its children to Prometheus."""

    requires = ("celery.worker.components:Pool",)

    def include(self, parent: Any) -> bool:
        """Start the server where a port is set; without one, nothing is imported for it."""
        from django.conf import settings

        if settings.WORKER_METRICS_PORT:
            from ops.metrics import serve_worker_metrics

            serve_worker_metrics(settings.WORKER_METRICS_PORT)
        return False


app.steps["worker"].add(LifeSigns)
app.steps["worker"].add(EventQueues)
app.steps["worker"].add(FreeMemory)
app.steps["worker"].add(Metrics)
