"""Validation of page tokens in AWS list responses."""

from collections.abc import Mapping
from typing import Any, Final

from guards.limits import SYNC_CALLS
from guards.text import find_control_problem

_MAX_TOKEN_LENGTH: Final = 8192


class InvalidAwsResponse(Exception):
    """A response without a valid next page; the message is for the reader."""


def read_next_token(response: Mapping[str, Any], name: str, *, previous_token: str, call_count: int) -> str:
    """Return the token of the next page, empty after the last one.

    `previous_token` requested this page; `call_count` is the number of calls so far. Raises
    `InvalidAwsResponse`, since a truncated list would end tasks that still run.
    """
    token = response.get(name) or ""
    if not isinstance(token, str) or len(token) > _MAX_TOKEN_LENGTH or find_control_problem(token):
        raise InvalidAwsResponse("AWS named a next page by what is no token.")
    if call_count >= SYNC_CALLS or (token and token == previous_token):
        raise InvalidAwsResponse("The lists of this cluster come to no end.")
    return token
