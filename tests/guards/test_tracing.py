"""Traces: only where they are configured, without secrets and paths, and never in the way of work."""

import subprocess
import sys
from collections.abc import Iterator

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_ON
from opentelemetry.trace import Link, Status, StatusCode

from guards import tracing
from guards.log_lines import bind_log_fields, get_propagated_fields
from guards.span_export import MaskingExporter, QuietRootSampler
from tests.fixtures.processes import ROOT

SECRET = "tok-9f8e7d6c5b4a"
# The client of Valkey imports the metrics of OpenTelemetry by itself, where they are installed.
NOT_IMPORTED = (
    "opentelemetry.exporter",
    "opentelemetry.instrumentation",
    "opentelemetry.sdk.trace",
    "guards.span_export",
    "sentry_sdk",
)
PROGRAMS = {
    "web": "import config.asgi",
    "worker": "import config.celery, celery.bin.worker; config.celery.app.loader.import_default_modules()",
    "agent": "import delegates.agent.__main__; from guards import tracing; tracing.start_tracing('x')",
}


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter) -> Iterator[TracerProvider]:
    """The tracing of this process, without a collector."""
    provider = TracerProvider(sampler=QuietRootSampler(ALWAYS_ON, ["tasks.tick"]))
    provider.add_span_processor(SimpleSpanProcessor(MaskingExporter(exporter, [SECRET, ""])))
    tracing._providers.append(provider)
    yield provider
    tracing._providers.clear()


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318"}, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://collector:4318/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_SDK_DISABLED": "true"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://collector:4318", "OTEL_TRACES_EXPORTER": "none"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
    ],
)
def test_the_standard_variables_decide(environ: dict[str, str], expected: bool) -> None:
    assert tracing.is_tracing_configured(environ) is expected


@pytest.mark.parametrize("program", PROGRAMS)
def test_without_configuration_nothing_is_imported_and_the_context_is_handed_over(
    program: str, child_environment: dict[str, str]
) -> None:
    code = f"""
{PROGRAMS[program]}
import sys
from guards.log_lines import bind_log_fields
from guards.tracing import capture_trace_context, resume_trace_context
with bind_log_fields(request_id="r-1"):
    context = capture_trace_context()
assert context == {{"request_id": "r-1"}}, context
with resume_trace_context(context, "work"):
    assert capture_trace_context() == context
print(sorted(name for name in sys.modules if name.startswith({NOT_IMPORTED})))
"""
    done = subprocess.run(
        [sys.executable, "-c", code], env=child_environment, cwd=ROOT, check=True, stdout=subprocess.PIPE
    )
    assert done.stdout.decode().splitlines()[-1] == "[]"


def test_work_goes_on_in_the_trace_and_under_the_ids_of_its_context(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with provider.get_tracer("test").start_as_current_span("request"), bind_log_fields(request_id="r-1"):
        context = tracing.capture_trace_context()
    with tracing.resume_trace_context(context, "reconcile", execution="e-1"):
        assert get_propagated_fields() == {"request_id": "r-1", "execution": "e-1"}

    request, work = exporter.get_finished_spans()
    assert (work.parent.trace_id, work.parent.span_id) == (request.context.trace_id, request.context.span_id)
    assert work.attributes == {"slipway.request_id": "r-1", "slipway.execution": "e-1"}


@pytest.mark.parametrize(
    "context", [None, {}, "text", {"traceparent": "x" * 600}, {"traceparent": 7}, {"traceparent": "00-zz-1"}]
)
def test_work_without_a_valid_trace_begins_one(
    provider: TracerProvider, exporter: InMemorySpanExporter, context: object
) -> None:
    periodic = provider.get_tracer("test").start_as_current_span("run/tasks.tick")
    with periodic, tracing.resume_trace_context(context, "work"):
        pass

    (span,) = exporter.get_finished_spans()
    assert (span.name, span.parent) == ("work", None)


def test_a_path_is_replaced_by_its_route_and_secrets_are_redacted(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("GET join/<str:token>/") as span:
        span.set_attributes({"http.target": f"/join/{SECRET}/?a=b", "http.route": "join/<str:token>/"})
        span.set_attribute("http.status_code", 200)
        span.record_exception(ValueError(f"refused {SECRET}"))
        span.set_status(Status(StatusCode.ERROR, f"refused {SECRET}"))
    with tracer.start_as_current_span("GET") as span:
        span.set_attribute("http.url", "http://testserver/join/other")

    first, second = exporter.get_finished_spans()
    assert first.attributes == {
        "http.target": "/join/<str:token>/",
        "http.route": "join/<str:token>/",
        "http.status_code": 200,
    }
    assert first.status.description == "refused •••"
    assert SECRET not in first.to_json()
    assert second.attributes == {"http.url": "no route"}


def test_lists_links_and_events_are_redacted_like_attributes(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    tracer = provider.get_tracer("test")
    with tracer.start_as_current_span("earlier") as earlier:
        link = Link(earlier.get_span_context(), {"note": SECRET, "url.full": f"https://a/join/{SECRET}"})
    with tracer.start_as_current_span("work", links=[link], attributes={"args": ["-p", SECRET]}) as span:
        span.add_event(f"refused {SECRET}", {"args": [SECRET, "x"], "url.path": "/join/other", "count": 2})

    work = exporter.get_finished_spans()[1]
    assert SECRET not in work.to_json()
    assert list(work.attributes["args"]) == ["-p", "•••"]
    assert (work.links[0].context, work.links[0].attributes) == (
        earlier.get_span_context(),
        {"note": "•••", "url.full": "no route"},
    )
    (event,) = work.events
    assert event.name == "refused •••"
    assert {**event.attributes} == {"args": ["•••", "x"], "url.path": "no route", "count": 2}
