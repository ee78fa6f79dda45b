"""Routes of requests in logs and traces, instead of paths, which may contain the token of an invitation."""

from typing import Final

_NO_ROUTE: Final = "no route"


def format_route(pattern: str | None) -> str:
    """Return the route of a URL pattern, or the text for a request that matches none."""
    return _NO_ROUTE if pattern is None else f"/{pattern}"
