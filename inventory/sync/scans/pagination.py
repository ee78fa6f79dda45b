"""Validation of page tokens in AWS list responses."""

from collections.abc import Mapping
from typing import Any, Final

from guards.limits import SYNC_CALLS
from guards.text import find_control_problem

_MAX_TOKEN_LENGTH: Final = 8192


class InvalidAwsResponse(Exception):
    """An answer by which nobody can go on; the message is a sentence."""


def read_next_token(answer: Mapping[str, Any], name: str, *, before: str, calls: int) -> str:
    """The token of the next page, empty after the last. A list cut short would end what is still there.

    `before` is the token by which this page was asked for, `calls` how many were made. Raises
    `InvalidAwsResponse`.
    """
    token = answer.get(name) or ""
    if not isinstance(token, str) or len(token) > _MAX_TOKEN_LENGTH or find_control_problem(token):
        raise InvalidAwsResponse("AWS named a next page by what is no token.")
    if calls >= SYNC_CALLS or (token and token == before):
        raise InvalidAwsResponse("The lists of this cluster come to no end.")
    return token
