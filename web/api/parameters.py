"""Query parameters of the API: their descriptions and parsing."""

from typing import Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter
from rest_framework.request import Request

from guards.limits import PAGE_ROWS
from web.http.problems import BadInput

# Fifteen digits, which every database column and every number of a browser can hold.
LARGEST_NUMBER: Final = 10**15 - 1


def parse_number(request: Request, name: str, *, least: int = 0, most: int = LARGEST_NUMBER) -> int | None:
    """Return the integer of the query parameter `name`, or None.

    Raises `BadInput` with its name unless it is an integer from `least` to `most`.
    """
    text = request.GET.get(name, "")
    if not text:
        return None
    is_whole = text.isascii() and text.isdigit() and len(text) <= len(str(most))
    if is_whole and least <= int(text) <= most:
        return int(text)
    message = (
        "must be a whole number"
        if most == LARGEST_NUMBER
        else f"must be a whole number from {least} to {most}"
    )
    raise BadInput("The input is not valid.", errors=[{"path": name, "message": message}])


_TRUE_WORDS, _FALSE_WORDS = ("1", "true"), ("", "0", "false")
ORG_PARAMETER = OpenApiParameter("org", OpenApiTypes.STR, description="Organization identifier.")
PROJECT_PARAMETER = OpenApiParameter("project", OpenApiTypes.STR, description="Project identifier in `org`.")
IDENTIFIER_PARAMETER = OpenApiParameter(
    "identifier", OpenApiTypes.STR, description="Only the resource with this identifier."
)
PAGE_SIZE_PARAMETER = OpenApiParameter(
    "page_size",
    # As many digits as the most has: a page of 999 is one of 200.
    {"type": "integer", "minimum": 1, "maximum": 10 ** len(f"{int(PAGE_ROWS)}") - 1},
    description=f"Rows per page, at most {int(PAGE_ROWS)}.",
)
CURSOR_PARAMETER = OpenApiParameter(
    "cursor", OpenApiTypes.STR, description="Page cursor: the value in `next` of the previous page."
)
IF_MATCH_PARAMETER = OpenApiParameter(
    "If-Match", OpenApiTypes.STR, OpenApiParameter.HEADER, description="ETag of the version to change."
)
FORCE_DELETE_PARAMETER = OpenApiParameter(
    "although_used", OpenApiTypes.BOOL, description="Delete the resource even if others refer to it."
)
PAGE_PARAMETERS = [PAGE_SIZE_PARAMETER, CURSOR_PARAMETER]
LIST_PARAMETERS = [ORG_PARAMETER, PROJECT_PARAMETER, IDENTIFIER_PARAMETER, *PAGE_PARAMETERS]
SHARED_PARAMETER = OpenApiParameter(
    "shared",
    OpenApiTypes.BOOL,
    description="Include resources of the scopes above that are shared with this scope.",
)


def parse_boolean(text: str, name: str) -> bool:
    """Return the value of a Boolean parameter. Raises `BadInput`."""
    if text.lower() not in _TRUE_WORDS + _FALSE_WORDS:
        raise BadInput("The input is not valid.", errors=[{"path": name, "message": "use true or false"}])
    return text.lower() in _TRUE_WORDS
