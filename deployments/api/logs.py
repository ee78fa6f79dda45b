"""Routes of the log of an execution: in pages, as a text, searched."""

import uuid
import zlib
from collections.abc import Iterator
from typing import Any

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import (
    OpenApiExample,
    OpenApiParameter,
    PolymorphicProxySerializer,
    extend_schema,
)
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments import log
from deployments.api.executions import ExecutionRoute
from deployments.models import Execution
from web.api.parameters import parse_boolean, parse_number
from web.http.problems import BadInput
from web.http.streaming import stream_response

LEVELS = ("info", "warning", "error", "success", "event", "command")
ORIGINS = tuple(origin.value for origin in log.LineOrigin)
DOWNLOADS = ("1", "gz", "raw")
NO_DOWNLOAD = ("0", "false")
BLOCKS_BYTES = 256 * 1024
LONGEST_QUERY = 512
GZIP = 31
AFTER = OpenApiParameter("after", OpenApiTypes.INT, description="Only lines after this number.")
BLOCKS = OpenApiParameter(
    "blocks",
    OpenApiTypes.BOOL,
    description="`blocks` returns the lines in columns, the format of the log page.",
)
DOWNLOAD = OpenApiParameter(
    "download",
    OpenApiTypes.STR,
    enum=(*DOWNLOADS, *NO_DOWNLOAD),
    description=(
        "The whole log as plain text: as a file, as a compressed file, or for display in the browser."
    ),
)
CONDITIONS = [
    OpenApiParameter("q", OpenApiTypes.STR, description="Literal text in the line."),
    OpenApiParameter("case", OpenApiTypes.BOOL, description="Match upper and lower case exactly."),
    OpenApiParameter("level", OpenApiTypes.STR, description=f"Some of {', '.join(LEVELS)}, with commas."),
    OpenApiParameter("origin", OpenApiTypes.STR, enum=ORIGINS, description="Source of the line."),
    OpenApiParameter("step", OpenApiTypes.STR, description="Step identifier."),
]


class LogLineDocument(serializers.Serializer[Any]):
    """Log line."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    step = serializers.CharField()
    unit = serializers.CharField()
    level = serializers.ChoiceField(choices=LEVELS)
    origin = serializers.ChoiceField(choices=ORIGINS)
    text = serializers.CharField()


class LogPageDocument(serializers.Serializer[Any]):
    """Up to 1000 lines; `end` means that no more lines follow."""

    lines = LogLineDocument(many=True)
    end = serializers.BooleanField()


class LogBlocksDocument(serializers.Serializer[Any]):
    """Blocks of lines in columns, as stored; `end` means that no more lines follow."""

    blocks = serializers.ListField(child=serializers.DictField())
    end = serializers.BooleanField()


class LogMatches(serializers.Serializer[Any]):
    """Line numbers; `next` is the `after` of the next page, null at the end of the log."""

    numbers = serializers.ListField(child=serializers.IntegerField())
    next = serializers.IntegerField(allow_null=True)


LOG_ANSWERS = {
    (200, "application/json"): PolymorphicProxySerializer(
        component_name="LogAnswer",
        serializers=[LogPageDocument, LogBlocksDocument],
        resource_type_field_name=None,
    ),
    (200, "text/plain"): OpenApiTypes.STR,
    (200, "application/gzip"): OpenApiTypes.BINARY,
}


LOG_EXAMPLE = OpenApiExample(
    "End of a log",
    {
        "lines": [
            {
                "number": 41,
                "at": "2030-01-31T12:00:00Z",
                "step": "deploy",
                "unit": "Deploy",
                "level": "success",
                "origin": "slipway",
                "text": "3 of 3 tasks run the new version",
            }
        ],
        "end": True,
    },
    response_only=True,
    media_type="application/json",
)


class ExecutionLog(ExecutionRoute):
    """Log of an execution."""

    @extend_schema(parameters=[AFTER, BLOCKS, DOWNLOAD], responses=LOG_ANSWERS, examples=[LOG_EXAMPLE])
    def get(self, request: Request, pk: uuid.UUID) -> Response | HttpResponse | StreamingHttpResponse:
        execution = self.execution(pk)
        after = parse_number(request, "after") or 0
        wants_blocks = self.is_flag_set("blocks")
        if how := _parse_download(request):
            return _render_text(execution, how, request._request)
        if wants_blocks:
            return _blocks(execution, after)
        # The state was read before the lines, so an ended execution has written its last line.
        lines = log.read_lines(execution.pk, after=after)
        last = lines[-1]["number"] if lines else after
        is_over = execution.is_over and last >= execution.next_line_number - 1
        return Response({"lines": lines, "end": is_over})


class SearchLog(ExecutionRoute):
    """Log lines that match a text or a filter."""

    @extend_schema(parameters=[AFTER, *CONDITIONS], responses=LogMatches)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        execution = self.execution(pk)
        after = parse_number(request, "after") or 0
        matches = log.search_lines(execution.pk, _parse_filter(request), after=after)
        return Response({"numbers": matches.numbers, "next": matches.next})


def _parse_download(request: Request) -> str:
    """Return the requested format of the download, or an empty text."""
    how = request.GET.get("download", "")
    if how in ("", *NO_DOWNLOAD):
        return ""
    if how not in DOWNLOADS:
        raise _build_error("download", f"use one of {', '.join(DOWNLOADS)}")
    return how


def _parse_filter(request: Request) -> log.LineFilter:
    text = request.GET.get("q", "")
    if len(text) > LONGEST_QUERY:
        raise _build_error("q", f"must have at most {LONGEST_QUERY} characters")
    levels = frozenset(filter(None, request.GET.get("level", "").split(",")))
    if unknown := levels - set(LEVELS):
        raise _build_error(
            "level", f"does not know {', '.join(sorted(unknown))}; there are {', '.join(LEVELS)}"
        )
    origin = request.GET.get("origin", "")
    if origin and origin not in ORIGINS:
        raise _build_error("origin", f"must be one of {', '.join(ORIGINS)}")
    is_exact = parse_boolean(request.GET.get("case", ""), "case")
    return log.LineFilter(text, is_exact, levels, origin, request.GET.get("step", ""))


def _build_error(name: str, message: str) -> BadInput:
    return BadInput("The input is not valid.", errors=[{"path": name, "message": message}])


def _blocks(execution: Execution, after: int) -> HttpResponse:
    """Return the stored blocks without decoding them."""
    blocks = log.list_blocks(execution.pk, after, most_bytes=BLOCKS_BYTES)
    last = blocks[-1].last if blocks else after
    end = "true" if execution.is_over and last >= execution.next_line_number - 1 else "false"
    bodies = ",".join(block.body for block in blocks)
    return HttpResponse(f'{{"blocks":[{bodies}],"end":{end}}}', content_type="application/json")


def _render_text(execution: Execution, how: str, request: HttpRequest) -> StreamingHttpResponse:
    name = f"{execution.pipeline.identifier}-{execution.number}.log{'.gz' if how == 'gz' else ''}"
    response = stream_response(
        request,
        _pages(execution, compressed=how == "gz"),
        # Browsers must not interpret container output as a page.
        content_type="application/gzip" if how == "gz" else "text/plain; charset=utf-8",
        headers={
            "Content-Disposition": f'{"inline" if how == "raw" else "attachment"}; filename="{name}"',
        },
    )
    if how == "gz":
        # Prevents a second compression by proxies.
        response["Content-Encoding"] = "identity"
    return response


def _pages(execution: Execution, *, compressed: bool) -> Iterator[bytes]:
    """Return the log as text in chunks of about 256 KiB."""
    packer = zlib.compressobj(wbits=GZIP) if compressed else None
    after = 0
    while blocks := log.list_blocks(execution.pk, after, most_bytes=BLOCKS_BYTES):
        after = blocks[-1].last
        lines = (line for block in blocks for line in log.list_block_lines(block))
        data = "".join(f"{line['at']} {line['text']}\n" for line in lines).encode("utf-8", "replace")
        yield packer.compress(data) if packer else data
    if packer:
        yield packer.flush()
