"""Lists in pages that stay right while rows are added: keyset paging, newest first, for API and pages."""

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db.models import Model, Q, QuerySet
from django.http import HttpRequest
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from web.problems import BadInput

DEFAULT_SIZE = 50
LARGEST_SIZE = 200


@dataclass(frozen=True)
class Page:
    """One page of a list and where its neighbors are."""

    items: list[Any]
    next_url: str | None
    previous_url: str | None


@dataclass(frozen=True)
class Cursor:
    """A place between two rows: the rows older (or newer) than the row with these values."""

    newer: bool
    value: Any
    key: Any

    def encoded(self) -> str:
        content = json.dumps([int(self.newer), str(self.value), str(self.key)], separators=(",", ":"))
        return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def keyset(
    queryset: QuerySet[Any], request: HttpRequest | Request, *, order: str = "pk", size: int | None = None
) -> Page:
    """Return the page that `?cursor=` names, newest first by `order` and then by key.

    `order` is a column that never changes in a row, such as created_at.
    Raises `BadInput` on a foreign cursor.
    """
    wanted = size or _size(request)
    cursor = _cursor(request, queryset.model, order)
    newer = cursor is not None and cursor.newer
    if cursor is not None:
        queryset = queryset.filter(_beyond(cursor, order))
    direction = "" if newer else "-"
    columns = [f"{direction}pk"] if order == "pk" else [f"{direction}{order}", f"{direction}pk"]
    rows = list(queryset.order_by(*columns)[: wanted + 1])
    more, rows = len(rows) > wanted, rows[:wanted]
    if newer:
        rows.reverse()
    has_older, has_newer = (True, more) if newer else (more, cursor is not None)
    return Page(
        items=rows,
        next_url=_url(request, rows[-1], order, newer=False) if rows and has_older else None,
        previous_url=_url(request, rows[0], order, newer=True) if rows and has_newer else None,
    )


class CursorPage(BasePagination):
    """Lists of the API: {"results": [...], "next": url or null}. A view may name its `order` column."""

    def paginate_queryset(self, queryset: QuerySet[Any], request: Request, view: Any = None) -> list[Any]:
        self.page = keyset(queryset, request, order=getattr(view, "order", "pk"))
        return self.page.items

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.page.next_url})

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {
                "results": schema,
                "next": {"type": "string", "format": "uri", "nullable": True},
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        size = {"type": "integer", "minimum": 1, "maximum": LARGEST_SIZE, "default": DEFAULT_SIZE}
        return [
            {"name": "page_size", "in": "query", "required": False, "schema": size},
            {"name": "cursor", "in": "query", "required": False, "schema": {"type": "string"}},
        ]


def _size(request: HttpRequest | Request) -> int:
    given = request.GET.get("page_size", "")
    if not given:
        return DEFAULT_SIZE
    if not given.isascii() or not given.isdigit() or len(given) > len(str(LARGEST_SIZE)) or int(given) < 1:
        raise BadInput(f"page_size is a number from 1 to {LARGEST_SIZE}.")
    return min(int(given), LARGEST_SIZE)


def _cursor(request: HttpRequest | Request, model: type[Model], order: str) -> Cursor | None:
    given = request.GET.get("cursor", "")
    if not given:
        return None
    fields = model._meta.pk if order == "pk" else model._meta.get_field(order), model._meta.pk
    try:
        padded = given + "=" * (-len(given) % 4)
        newer, value, key = json.loads(base64.b64decode(padded, altchars=b"-_", validate=True))
        return Cursor(bool(newer), fields[0].to_python(value), fields[1].to_python(key))
    except (binascii.Error, UnicodeError, ValueError, TypeError, RecursionError, ValidationError) as exc:
        raise BadInput("The cursor is not one that a list gave out.") from exc


def _beyond(cursor: Cursor, order: str) -> Q:
    side = "gt" if cursor.newer else "lt"
    if order == "pk":
        return Q(**{f"pk__{side}": cursor.key})
    further = Q(**{f"{order}__{side}": cursor.value})
    return further | Q(**{order: cursor.value, f"pk__{side}": cursor.key})


def _url(request: HttpRequest | Request, row: Model, order: str, *, newer: bool) -> str:
    query = request.GET.copy()
    query["cursor"] = Cursor(newer, getattr(row, order), row.pk).encoded()
    return f"{request.build_absolute_uri(request.path)}?{query.urlencode()}"
