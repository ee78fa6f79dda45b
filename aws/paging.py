"""Pagination and batching of AWS calls."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from aws.caller import Caller
from aws.errors import Unanswered

# Far above the size of any account. A response that repeats its token must not block a worker for ever.
MAX_PAGES = 200


def paginate(
    caller: Caller,
    service: str,
    operation: str,
    params: Mapping[str, Any],
    *,
    result_key: str,
    cursor_key: str,
    response_cursor_key: str = "",
) -> Iterator[Any]:
    """Yield the items under `result_key` on every page.

    `cursor_key` names the page token in request and response; `response_cursor_key` is set where the
    response uses another name.
    """
    request = dict(params)
    for _ in range(MAX_PAGES):
        response = caller.call(service, operation, request)
        yield from response.get(result_key) or ()
        token = response.get(response_cursor_key or cursor_key)
        if not token or token == request.get(cursor_key):
            return
        request[cursor_key] = token
    raise Unanswered("TooManyPages", f"more than {MAX_PAGES} pages were returned", service, operation)


T = TypeVar("T")


def split_batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Yield the items in lists of at most `size`, the limit of one AWS call."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def require_member(response: Mapping[str, Any], member: str, service: str, operation: str) -> Any:
    """Return a required member of a response.

    Raises `Unanswered` if it is missing: a truncated response does not show whether the call took effect.
    """
    if not response.get(member):
        raise Unanswered("UnreadableAnswer", f"the answer holds no {member}", service, operation)
    return response[member]
