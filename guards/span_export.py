"""Export of spans with OpenTelemetry: masked, and without traces that only periodic work would begin."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.botocore import BotocoreInstrumentor
from opentelemetry.sdk.resources import SERVICE_NAME, OTELResourceDetector, Resource
from opentelemetry.sdk.trace import Event, ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.sdk.trace.sampling import Decision, Sampler, SamplingResult
from opentelemetry.trace import Link, Status

from guards.log_lines import format_route
from guards.masks import SecretMask

# Attributes with the path or query of a request, which may contain the token of an invitation.
_PATH_ATTRIBUTES: Final = ("http.target", "http.url", "url.full", "url.path", "url.query")
_ROUTE: Final = "http.route"


def build_provider(service: str, *, secrets: Sequence[str], quiet_roots: Sequence[str]) -> TracerProvider:
    """Return the provider of this process, whose spans go to the collector of the standard variables.

    Calls to AWS are traced from now on.
    """
    resource = Resource.create({SERVICE_NAME: service}).merge(OTELResourceDetector().detect())
    provider = TracerProvider(resource=resource)
    # The provider has read the sampler of OTEL_TRACES_SAMPLER.
    provider.sampler = QuietRootSampler(provider.sampler, quiet_roots)
    provider.add_span_processor(BatchSpanProcessor(MaskingExporter(OTLPSpanExporter(), secrets)))
    trace.set_tracer_provider(provider)
    BotocoreInstrumentor().instrument()  # type: ignore[no-untyped-call]
    return provider


class QuietRootSampler(Sampler):
    """Sampler that drops traces which begin with periodic work, and leaves all others to another sampler."""

    def __init__(self, sampler: Sampler, quiet_roots: Sequence[str]) -> None:
        self._sampler, self._quiet_roots = sampler, tuple(quiet_roots)

    def should_sample(
        self, parent_context: Context | None, trace_id: int, name: str, *more: Any, **options: Any
    ) -> SamplingResult:
        """Return the decision on a span."""
        is_root = not trace.get_current_span(parent_context).get_span_context().is_valid
        if is_root and self._quiet_roots and name.endswith(self._quiet_roots):
            return SamplingResult(Decision.DROP)
        return self._sampler.should_sample(parent_context, trace_id, name, *more, **options)

    def get_description(self) -> str:
        """Return the description of the other sampler."""
        return self._sampler.get_description()


class MaskingExporter(SpanExporter):
    """Exporter that redacts known secrets in spans, and replaces paths of requests by their routes."""

    def __init__(self, exporter: SpanExporter, secrets: Sequence[str]) -> None:
        self._exporter = exporter
        self._mask = SecretMask(secrets)

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Export masked copies."""
        return self._exporter.export([self._copy(span) for span in spans])

    def shutdown(self) -> None:
        """Close the exporter."""
        self._exporter.shutdown()

    def force_flush(self, timeout_millis: int = 30_000) -> bool:
        """Send what waits."""
        return self._exporter.force_flush(timeout_millis)

    def _copy(self, span: ReadableSpan) -> ReadableSpan:
        description = span.status.description
        return ReadableSpan(
            name=self._mask.mask_text(span.name),
            context=span.context,
            parent=span.parent,
            resource=span.resource,
            attributes=self._redact(span.attributes),
            events=[
                Event(self._mask.mask_text(event.name), self._redact(event.attributes), event.timestamp)
                for event in span.events
            ],
            links=[Link(link.context, self._redact(link.attributes)) for link in span.links],
            kind=span.kind,
            status=Status(span.status.status_code, description and self._mask.mask_text(description)),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=span.instrumentation_scope,
        )

    def _redact(self, attributes: Mapping[str, Any] | None) -> dict[str, Any]:
        masked: dict[str, Any] = self._mask.mask_json(_replace_paths(attributes or {}))
        return masked


def _replace_paths(attributes: Mapping[str, Any]) -> dict[str, Any]:
    route = format_route(attributes.get(_ROUTE))
    return {name: route if name in _PATH_ATTRIBUTES else value for name, value in attributes.items()}
