"""Traces of web, worker and beat, where the standard variables of OpenTelemetry ask for them."""

from typing import Any, Final

from celery import signals
from django.conf import settings

from guards.tracing import is_tracing_configured, start_tracing, stop_tracing

# Sent by the beat every few seconds: a trace for each would hide those of people's requests.
_PERIODIC_TASKS: Final = (
    "ops.tasks.tick",
    "ops.tasks.prune",
    "inventory.tasks.tick",
    "deployments.tasks.show_hidden_log_lines",
)
_LAST_BEFORE_TRACING: Final = "ops.metrics.MetricsMiddleware"


def start_web_tracing() -> None:
    """Trace requests of this web process, the messages that they send, and calls to AWS.

    Call it before Django loads its middleware.
    """
    if _start("slipway-web"):
        from opentelemetry.instrumentation.django import DjangoInstrumentor

        # Probes and metrics are answered before: for any host, and without traces.
        position = settings.MIDDLEWARE.index(_LAST_BEFORE_TRACING) + 1
        DjangoInstrumentor().instrument(middleware_position=position)


def connect_worker_tracing() -> None:
    """Trace Celery tasks in each child process of a worker, once it is forked."""
    if is_tracing_configured():
        signals.worker_process_init.connect(_start_worker_tracing)
        signals.worker_process_shutdown.connect(_stop_worker_tracing)


def _start_worker_tracing(**_: Any) -> None:
    _start("slipway-worker")


def _stop_worker_tracing(**_: Any) -> None:
    stop_tracing()


def _start(service: str) -> bool:
    if not start_tracing(service, secrets=settings.ENV.secrets, quiet_roots=_PERIODIC_TASKS):
        return False
    from opentelemetry.instrumentation.celery import CeleryInstrumentor

    CeleryInstrumentor().instrument()
    return True
