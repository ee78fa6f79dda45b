"""Whole numbers in the query of an address, which anybody may have written."""

from typing import Final

from rest_framework.request import Request

from web.problems import BadInput

# Fifteen digits, which every database column and every number of a browser can hold.
LARGEST: Final = 10**15 - 1


def number_in(request: Request, name: str, *, least: int = 0, most: int = LARGEST) -> int | None:
    """Return the whole number that the query calls `name`; None where it does not.

    Raises `BadInput` that names it where it is none, or not from `least` to `most`.
    """
    text = request.GET.get(name, "")
    if not text:
        return None
    is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if is_whole and least <= int(text) <= most:
        return int(text)
    message = (
        "must be a whole number" if most == LARGEST else f"must be a whole number from {least} to {most}"
    )
    raise BadInput("The input is not valid.", errors=[{"path": name, "message": message}])
