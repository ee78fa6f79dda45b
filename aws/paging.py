"""Pagination and batching of AWS calls."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeVar

from aws.caller import Caller
from aws.errors import Unanswered

# Far above any account's lists; an AWS that repeats itself must not keep a worker for ever.
MOST_PAGES = 200


def paginate(
    caller: Caller,
    service: str,
    operation: str,
    params: Mapping[str, Any],
    *,
    member: str,
    page: str,
    following: str = "",
) -> Iterator[Any]:
    """Yield what `member` lists on every page; `page` is the page token's name in question and answer.

    Where the answer calls it otherwise, `following` is its name there.
    """
    asked = dict(params)
    for _ in range(MOST_PAGES):
        answer = caller.call(service, operation, asked)
        yield from answer.get(member) or ()
        token = answer.get(following or page)
        if not token or token == asked.get(page):
            return
        asked[page] = token
    raise Unanswered("TooManyPages", f"more than {MOST_PAGES} pages came back", service, operation)


T = TypeVar("T")


def split_batches(items: Sequence[T], size: int) -> Iterator[list[T]]:
    """Cut a list to what AWS takes in one call."""
    for start in range(0, len(items), size):
        yield list(items[start : start + size])


def require_member(answer: Mapping[str, Any], member: str, service: str, operation: str) -> Any:
    """The part of an answer that it cannot do without.

    Raises `Unanswered` where it is missing: an answer cut short may still have had its effect.
    """
    if not answer.get(member):
        raise Unanswered("UnreadableAnswer", f"the answer holds no {member}", service, operation)
    return answer[member]
