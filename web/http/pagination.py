"""Keyset pagination of lists, newest first, for API and pages."""

import base64
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.core.exceptions import ValidationError
from django.db import connections
from django.db.models import Field, Model, Q, QuerySet
from django.http import HttpRequest
from rest_framework.pagination import BasePagination
from rest_framework.request import Request
from rest_framework.response import Response

from guards.json_parser import parse_json
from guards.limits import CURSOR_CHARACTERS, PAGE_ROWS
from web.http.problems import BadInput, PageNotFound

DEFAULT_PAGE_SIZE = 50
_INVALID_CURSOR = "The cursor is not valid. Start without a cursor, and follow `next`."


@dataclass(frozen=True)
class Page:
    """One page of a list and where its neighbors are."""

    items: list[Any]
    next_url: str | None
    previous_url: str | None


@dataclass(frozen=True)
class Cursor:
    """Position in a list: after (or before) the row with these values."""

    is_backward: bool
    value: Any
    key: Any

    def encode(self) -> str:
        values = [int(self.is_backward), str(self.value), str(self.key)]
        # Escapes of six characters would exceed `CURSOR_CHARACTERS` for a long name.
        content = json.dumps(values, separators=(",", ":"), ensure_ascii=False)
        return base64.urlsafe_b64encode(content.encode()).decode().rstrip("=")


def paginate_queryset(
    queryset: QuerySet[Any],
    request: HttpRequest | Request,
    *,
    order: str = "pk",
    oldest_first: bool = False,
    size: int | None = None,
    columns: QuerySet[Any] | None = None,
) -> Page:
    """Return the page that `?cursor=` names, newest first by `order` and then by key.

    `order` is a column that never changes in a row, such as created_at. `columns` is for large tables: the
    rows of `queryset` without its conditions, with the columns and relations to load.
    Raises `PageNotFound` (404) on a foreign cursor.
    """
    limit = size or parse_page_size(request)
    cursor = _parse_row_cursor(request, queryset.model, order)
    back = cursor is not None and cursor.is_backward
    upwards = oldest_first != back
    if cursor is not None:
        queryset = queryset.filter(_build_cursor_filter(cursor, order, upwards=upwards))
    names = ["pk"] if order == "pk" else [order, "pk"]
    ordered = queryset.order_by(*(name if upwards else f"-{name}" for name in names))
    rows = list(_select_rows(ordered, limit + 1, columns))
    more, rows = len(rows) > limit, rows[:limit]
    if back:
        rows.reverse()
    has_next, has_previous = (True, more) if back else (more, cursor is not None)
    return Page(
        items=rows,
        next_url=_build_row_url(request, rows[-1], order, back=False) if rows and has_next else None,
        previous_url=_build_row_url(request, rows[0], order, back=True) if rows and has_previous else None,
    )


def _select_rows(ordered: QuerySet[Any], limit: int, columns: QuerySet[Any] | None) -> QuerySet[Any]:
    """Return the first rows; SQLite would sort all with their joins, and finds only keys in an index."""
    if columns is None or connections[ordered.db].vendor != "sqlite":
        return ordered[:limit]
    keys = ordered.values("pk")[:limit]
    return columns.filter(pk__in=keys).order_by(*ordered.query.order_by)


def paginate_items(
    items: Sequence[Any],
    request: HttpRequest | Request,
    *,
    key: Callable[[Any], str],
    size: int | None = None,
) -> Page:
    """Return the page at `?cursor=` of items without a table, in ascending order of `key`.

    Raises `PageNotFound` (404) for a foreign cursor.
    """
    limit = size or parse_page_size(request)
    back, place = _parse_item_cursor(request)
    if place is not None:
        items = [item for item in items if (key(item) < place if back else key(item) > place)]
    page_items = items[-limit:] if back else items[:limit]
    more = len(items) > limit
    has_next, has_previous = (True, more) if back else (more, place is not None)
    return Page(
        items=list(page_items),
        next_url=_build_cursor_url(request, Cursor(False, "", key(page_items[-1])))
        if page_items and has_next
        else None,
        previous_url=_build_cursor_url(request, Cursor(True, "", key(page_items[0])))
        if page_items and has_previous
        else None,
    )


class CursorPagination(BasePagination):
    """Lists of the API. A view may name its `order` column and `columns`, and be `oldest_first`."""

    def paginate_queryset(  # type: ignore[override]
        self, queryset: QuerySet[Any], request: Request, view: Any = None
    ) -> list[Any]:
        order, oldest_first = getattr(view, "order", "pk"), getattr(view, "oldest_first", False)
        columns = getattr(view, "columns", None)
        self.page = paginate_queryset(
            queryset, request, order=order, oldest_first=oldest_first, columns=columns
        )
        return self.page.items

    def get_paginated_response(self, data: Any) -> Response:
        return Response({"results": data, "next": self.page.next_url})

    def get_paginated_response_schema(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        return {
            "type": "object",
            "required": ["results", "next"],
            "properties": {
                "results": schema,
                "next": {"type": ["string", "null"], "format": "uri"},
            },
        }

    def get_schema_operation_parameters(self, view: Any) -> list[dict[str, Any]]:
        size = {"type": "integer", "minimum": 1, "maximum": int(PAGE_ROWS), "default": DEFAULT_PAGE_SIZE}
        return [
            {"name": "page_size", "in": "query", "required": False, "schema": size},
            {"name": "cursor", "in": "query", "required": False, "schema": {"type": "string"}},
        ]


def parse_page_size(request: HttpRequest | Request, default: int = DEFAULT_PAGE_SIZE) -> int:
    """Return the rows per page in `?page_size=`; `BadInput` for what is no number or too large."""
    text = request.GET.get("page_size")
    if text is None:
        return default
    if not text.isascii() or not text.isdigit() or len(text) > len(f"{int(PAGE_ROWS)}") or int(text) < 1:
        raise BadInput(f"page_size must be a number from 1 to {int(PAGE_ROWS)}.")
    return min(int(text), PAGE_ROWS)


def _parse_row_cursor(request: HttpRequest | Request, model: type[Model], order: str) -> Cursor | None:
    if not request.GET.get("cursor", ""):
        return None
    pk = model._meta.pk
    column: Field[Any, Any] = pk if order == "pk" else model._meta.get_field(order)  # type: ignore[assignment]
    try:
        back, value, key = _decode_cursor(request)
        cursor = Cursor(bool(back), column.to_python(str(value)), pk.to_python(str(key)))
    except (ValueError, TypeError, ValidationError) as exc:
        raise PageNotFound(_INVALID_CURSOR) from exc
    if cursor.value is None or cursor.key is None:
        raise PageNotFound(_INVALID_CURSOR)
    return cursor


def _parse_item_cursor(request: HttpRequest | Request) -> tuple[bool, str | None]:
    """Return whether the page is before or after a key, and that key."""
    if not request.GET.get("cursor", ""):
        return False, None
    try:
        back, _, key = _decode_cursor(request)
    except (ValueError, TypeError) as exc:
        raise PageNotFound(_INVALID_CURSOR) from exc
    return bool(back), str(key)


def _decode_cursor(request: HttpRequest | Request) -> Any:
    """Return the content of a cursor. Raises `ValueError` or `PageNotFound` for an invalid one."""
    text = request.GET.get("cursor", "")
    if len(text) > CURSOR_CHARACTERS:
        raise PageNotFound(_INVALID_CURSOR)
    padded = text + "=" * (-len(text) % 4)
    return parse_json(base64.b64decode(padded, altchars=b"-_", validate=True).decode())


def _build_cursor_filter(cursor: Cursor, order: str, *, upwards: bool) -> Q:
    side = "gt" if upwards else "lt"
    if order == "pk":
        return Q(**{f"pk__{side}": cursor.key})
    # The first condition follows from the second, but only the first is usable for an index.
    begin = Q(**{f"{order}__{side}e": cursor.value})
    return begin & (Q(**{f"{order}__{side}": cursor.value}) | Q(**{f"pk__{side}": cursor.key}))


def _build_row_url(request: HttpRequest | Request, row: Model, order: str, *, back: bool) -> str:
    return _build_cursor_url(request, Cursor(back, getattr(row, order), row.pk))


def _build_cursor_url(request: HttpRequest | Request, cursor: Cursor) -> str:
    query = request.GET.copy()
    query["cursor"] = cursor.encode()
    return f"{request.build_absolute_uri(request.path)}?{query.urlencode()}"
