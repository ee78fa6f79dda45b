"""Deprecation of operations of the REST API: in their answers and in the OpenAPI document."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time
from functools import wraps
from typing import Any, Final, TypeVar

from django.utils.http import http_date
from drf_spectacular.utils import extend_schema

POLICY_URL: Final = "/docs/reference/api-deprecation/"
Handler = TypeVar("Handler", bound=Callable[..., Any])


def deprecated(*, since: date, until: date, replacement: str) -> Callable[[Handler], Handler]:
    """Mark a handler of a view as deprecated since a day, and removed after another one.

    Each answer has the headers `Deprecation` (RFC 9745), `Sunset` (RFC 8594) and `Link`. `replacement` names
    the other operation, such as `GET /api/v1/executions`. The decorator stands above `extend_schema`.
    """
    begin, end = (int(datetime.combine(day, time.min, UTC).timestamp()) for day in (since, until))
    headers = {
        "Deprecation": f"@{begin}",
        "Sunset": http_date(end),
        "Link": f'<{POLICY_URL}>; rel="deprecation"; type="text/html"',
    }

    def decorate(handler: Handler) -> Handler:
        @wraps(handler)
        def handle(*args: Any, **kwargs: Any) -> Any:
            response = handler(*args, **kwargs)
            for name, value in headers.items():
                response[name] = value
            return response

        text = f"Deprecated since {since}, removed after {until}. Use `{replacement}`."
        marked: Handler = extend_schema(deprecated=True, description=text)(handle)  # type: ignore[assignment]
        return marked

    return decorate
