"""Traces of OpenTelemetry, behind its standard variables; nothing of it is imported without them.

Work that moves to another process takes its context along: the ids of its log lines, and its trace.
"""

import logging
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from guards.log_lines import bind_log_fields, get_propagated_fields, parse_propagated_fields

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
_TRACE_HEADERS: Final = ("traceparent", "tracestate")
MAX_HEADER_CHARACTERS: Final = 512
NOT_INSTALLED: Final = (
    "OTEL_* asks for traces, and OpenTelemetry is not installed: install slipway[otel] (%s)"
)
logger = logging.getLogger(__name__)
# Set once by `start_tracing`.
_providers: list["TracerProvider"] = []


def is_tracing_configured(environ: Mapping[str, str] = os.environ) -> bool:
    """Return whether the standard variables name a collector, and neither disables traces."""
    is_disabled = environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    has_exporter = environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() != "none"
    return has_exporter and not is_disabled and any(environ.get(name, "").strip() for name in _ENDPOINTS)


def start_tracing(service: str, *, secrets: Sequence[str] = (), quiet_roots: Sequence[str] = ()) -> bool:
    """Send spans of this process to the collector; return whether tracing is configured and installed.

    `service` is the name of the service unless `OTEL_SERVICE_NAME` has one. Known secrets are redacted. No
    trace begins with a span whose name ends with one of `quiet_roots`. Call it after a fork, not before.
    """
    if not is_tracing_configured() or _providers:
        return bool(_providers)
    try:
        from guards.span_export import build_provider
    except ImportError as missing:
        logger.error(NOT_INSTALLED, missing)
        return False
    _providers.append(build_provider(service, secrets=secrets, quiet_roots=quiet_roots))
    return True


def stop_tracing() -> None:
    """Send the spans that wait, at the end of a process that ends without Python's exit handlers."""
    for provider in _providers:
        provider.shutdown()


def capture_trace_context() -> dict[str, str]:
    """Return the context of the current work, as JSON that goes with it to another process."""
    context = get_propagated_fields()
    if _providers:
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        # Without the baggage that a client may have sent.
        TraceContextTextMapPropagator().inject(context)
    return context


@contextmanager
def resume_trace_context(context: object, name: str, **fields: object) -> Iterator[None]:
    """Run a block of work under the context that came with it: its ids and `fields`, in a span `name`."""
    sent = parse_propagated_fields(context)
    with bind_log_fields(**{**sent, **fields}):
        if not _providers:
            yield
            return
        from opentelemetry import propagate
        from opentelemetry.context import Context

        # Without a trace of its own the work begins one: the current span may be periodic, and not sampled.
        parent = propagate.extract(_parse_trace_headers(context), Context())
        attributes = {f"slipway.{key}": str(value) for key, value in {**sent, **fields}.items() if value}
        tracer = _providers[0].get_tracer("slipway")
        # Texts of exceptions may hold what only the masks of the task know.
        with tracer.start_as_current_span(
            name,
            context=parent,
            attributes=attributes,
            record_exception=False,
            set_status_on_exception=False,
        ):
            yield


def _parse_trace_headers(context: object) -> dict[str, str]:
    if not isinstance(context, Mapping):
        return {}
    values = {name: value for name in _TRACE_HEADERS if isinstance(value := context.get(name), str)}
    return {name: value for name, value in values.items() if len(value) <= MAX_HEADER_CHARACTERS}
