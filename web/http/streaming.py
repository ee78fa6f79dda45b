"""Streaming responses that are never in memory as a whole."""

from collections.abc import AsyncIterator, Iterator

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpRequest, StreamingHttpResponse


def stream_response(
    request: HttpRequest, pieces: Iterator[bytes], *, content_type: str, headers: dict[str, str]
) -> StreamingHttpResponse:
    """Stream `pieces` with backpressure and a fixed content type."""
    return StreamingHttpResponse(
        _iterate_async(pieces) if isinstance(request, ASGIRequest) else pieces,
        content_type=content_type,
        headers={**headers, "X-Content-Type-Options": "nosniff"},
    )


async def _iterate_async(pieces: Iterator[bytes]) -> AsyncIterator[bytes]:
    read = sync_to_async(lambda: next(pieces, None))
    while (piece := await read()) is not None:
        yield piece
