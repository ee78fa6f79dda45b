"""Figures for Prometheus: the state of the installation, and what its processes count."""

from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from math import inf

import redis
from django.db import DatabaseError, connection
from django.db.models import Count, Min, Q
from django.http import HttpRequest, HttpResponse, HttpResponseNotAllowed
from django.http.response import HttpResponseBase
from django.utils.cache import add_never_cache_headers
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    REGISTRY,
    CollectorRegistry,
    generate_latest,
    start_http_server,
)
from prometheus_client.core import GaugeMetricFamily, Metric
from prometheus_client.multiprocess import MultiProcessCollector
from prometheus_client.registry import Collector

from delegates.connectivity import Connectivity, build_connectivity_case
from delegates.models import Delegate
from deployments.models import Execution
from ops.background import read_dispatcher_silence, read_queue_state
from ops.health import may_read_internals, refuse_caller
from ops.models import ServerProcess
from ops.processes import list_processes
from steps.states import TERMINAL_STATUSES, Status
from web.clock import get_database_time


class MetricsMiddleware:
    """Answer `/metrics` to who may read `/readyz`, for any `Host`: Prometheus uses the address of a task."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponseBase]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponseBase:
        if request.path != "/metrics":
            return self.get_response(request)
        if request.method not in ("GET", "HEAD"):
            return HttpResponseNotAllowed(["GET", "HEAD"])
        response = report_metrics() if may_read_internals(request) else refuse_caller()
        add_never_cache_headers(response)
        response.headers["X-Content-Type-Options"] = "nosniff"
        return response


class InstallationCollector(Collector):
    """Figures that every web process answers alike, without those of a part that does not answer."""

    def collect(self) -> Iterator[Metric]:
        up = GaugeMetricFamily("slipway_up", "Whether a part answers: database or broker.", labels=["part"])
        for part, read in (("database", _read_database), ("broker", _read_broker)):
            try:
                metrics = list(read())
            except (DatabaseError, redis.RedisError, OSError):
                up.add_metric([part], 0)
                continue
            up.add_metric([part], 1)
            yield from metrics
        yield up


def report_metrics() -> HttpResponse:
    """Return the figures of this web process and of the installation."""
    registry = CollectorRegistry()
    registry.register(InstallationCollector())
    body = generate_latest(REGISTRY) + generate_latest(registry)
    return HttpResponse(body, content_type=CONTENT_TYPE_LATEST)


def serve_worker_metrics(port: int) -> None:
    """Serve the counters of all processes of this worker on `port`.

    Raises `OSError` for a used port, `ValueError` without a folder for the counters of its children.
    """
    registry = CollectorRegistry()
    MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    start_http_server(port, registry=registry)


def _read_database() -> Iterator[Metric]:
    now = get_database_time()
    yield _count(
        "slipway_executions",
        "Executions by status.",
        "status",
        Status.values,
        Execution.objects.values_list("status").annotate(Count("pk")).order_by(),
    )
    oldest = Execution.objects.filter(~Q(status__in=TERMINAL_STATUSES), due_at__lt=now).aggregate(
        Min("due_at")
    )
    delay = (now - oldest["due_at__min"]).total_seconds() if oldest["due_at__min"] else 0.0
    yield _gauge(
        "slipway_reconcile_delay_seconds", "Time since the oldest due reconcile pass was due.", delay
    )
    silence = read_dispatcher_silence(now)
    # Without a value no alert would fire, after a restore too, which forgets the last run.
    age = inf if silence is None else silence.total_seconds()
    yield _gauge("slipway_dispatcher_age_seconds", "Time since the dispatcher ran last; +Inf: never.", age)
    yield _count(
        "slipway_delegates",
        "Delegates by connectivity.",
        "status",
        [str(value) for value in Connectivity],
        Delegate.objects.annotate(state=build_connectivity_case(now))
        .values_list("state")
        .annotate(Count("pk"))
        .order_by(),
    )
    yield _count_processes()
    yield from _read_pool()


def _count_processes() -> GaugeMetricFamily:
    metric = GaugeMetricFamily(
        "slipway_processes", "Web and worker processes by sign of life.", labels=["role", "status"]
    )
    states = list_processes(get_database_time())
    for role in ServerProcess.Role:
        silences = [state.is_silent for state in states if state.process.role == role]
        metric.add_metric([role.label, "alive"], silences.count(False))
        metric.add_metric([role.label, "silent"], silences.count(True))
    return metric


def _read_pool() -> Iterator[Metric]:
    """Yield the connections of this process's pool, which only PostgreSQL has."""
    pool = getattr(connection, "pool", None)
    if pool is None:
        return
    stats = pool.get_stats()
    metric = GaugeMetricFamily(
        "slipway_database_pool", "Database connections of this web process.", labels=["state"]
    )
    metric.add_metric(["open"], stats.get("pool_size", 0))
    metric.add_metric(["free"], stats.get("pool_available", 0))
    metric.add_metric(["awaited"], stats.get("requests_waiting", 0))
    yield metric


def _read_broker() -> Iterator[Metric]:
    queue = read_queue_state(datetime.now(UTC))
    yield _gauge("slipway_queue_messages", "Celery messages that no worker has taken.", queue.depth)
    wait = queue.oldest_wait.total_seconds()
    yield _gauge("slipway_queue_wait_seconds", "Time that the oldest of these messages waits.", wait)


def _gauge(name: str, documentation: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, documentation, value=value)


def _count(
    name: str, documentation: str, label: str, values: Iterable[str], rows: Iterable[tuple[str, int]]
) -> GaugeMetricFamily:
    """Return a gauge with every value, those without rows as 0: alerts need them all."""
    metric = GaugeMetricFamily(name, documentation, labels=[label])
    counts = dict(rows)
    for value in values:
        metric.add_metric([value.lower()], counts.get(value, 0))
    return metric
