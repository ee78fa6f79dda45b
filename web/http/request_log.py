"""Log lines of requests, with routes instead of paths."""

import logging
import time
from typing import Final

from django.http import HttpRequest, HttpResponseBase

from guards.log_lines import format_route

PROBE_PATH: Final = "/readyz"
logger = logging.getLogger("slipway.requests")


def get_route(request: HttpRequest) -> str:
    """Return the pattern of a request's URL, without the values in it."""
    match = getattr(request, "resolver_match", None)
    return format_route(match.route if match else None)


def log_request(request: HttpRequest, response: HttpResponseBase, *, started: float) -> None:
    """Log one line for an answered request; `started` is monotonic."""
    fields = {
        "method": request.method,
        "route": get_route(request),
        "status_code": response.status_code,
        "duration_ms": round((time.monotonic() - started) * 1000),
    }
    logger.info("Request answered", extra=fields)


class RequestLogFilter(logging.Filter):
    """Filter of Django's lines about requests: routes replace paths, and failed probes are left out.

    The caller of a probe reads the answer; a line for each would hide others.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        """Return whether the line is written."""
        request = getattr(record, "request", None)
        if not isinstance(request, HttpRequest):
            return True
        if isinstance(record.args, tuple):
            record.args = tuple(get_route(request) if arg == request.path else arg for arg in record.args)
        return request.path != PROBE_PATH
