"""Options of list pages, all of them in the address: search text, filter, sort order, density, rows."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from django.db.models import Q, QuerySet
from django.http import HttpRequest

from guards.limits import NAME_CHARACTERS
from guards.text import sanitize_text
from web.http.pagination import Page, paginate_queryset, parse_page_size
from web.search_filters import contains_text


class SortOrder(NamedTuple):
    """Order of a list: a column that never changes in a row, or seldom, and its direction."""

    label: str
    column: str
    is_ascending: bool


NEWEST: SortOrder = SortOrder("Newest first", "pk", is_ascending=False)
BY_NAME: SortOrder = SortOrder("Name", "name", is_ascending=True)
SORT_ORDERS: Mapping[str, SortOrder] = {"": NEWEST, "name": BY_NAME}
COMPACT = "compact"
ROWS_PER_PAGE: Final = 25
ROW_CHOICES: Final = (ROWS_PER_PAGE, 50, 100)


@dataclass(frozen=True)
class ListOptions:
    """Options that a reader chose; unknown values count as not given."""

    text: str
    filter: str
    sort: str
    density: str
    filters: Mapping[str, str]
    """Title of each filter by its value; "" is no filter."""
    kind: str = ""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Title of each kind by its value, for lists of several kinds; "" is any."""
    rows: int = ROWS_PER_PAGE
    """Rows per page that the reader chose."""
    row_choices: tuple[int, ...] = ROW_CHOICES

    @property
    def sorts(self) -> list[tuple[str, str]]:
        return [(value, order.label) for value, order in SORT_ORDERS.items()]

    @property
    def is_compact(self) -> bool:
        return self.density == COMPACT

    @property
    def is_narrowed(self) -> bool:
        """Return whether the list shows a selection."""
        return bool(self.text or self.filter or self.kind)


def read_list_options(
    request: HttpRequest, filters: Mapping[str, str], kinds: Mapping[str, str] | None = None
) -> ListOptions:
    """Return the options in `?q=`, `?show=`, `?kind=`, `?sort=`, `?density=` and `?page_size=`.

    Raises `BadInput` for a page size that is no number or too large.
    """
    chosen_filter, sort = request.GET.get("show", ""), request.GET.get("sort", "")
    return ListOptions(
        text=read_search_text(request),
        filter=chosen_filter if chosen_filter in filters else "",
        sort=sort if sort in SORT_ORDERS else "",
        density=COMPACT if request.GET.get("density") == COMPACT else "",
        filters=filters,
        kind=kind if kinds and (kind := request.GET.get("kind", "")) in kinds else "",
        kinds=kinds or {},
        rows=parse_page_size(request, ROWS_PER_PAGE),
    )


def read_search_text(request: HttpRequest) -> str:
    """Return the text in `?q=`."""
    return sanitize_text(request.GET.get("q", "")).strip()[:NAME_CHARACTERS]


def paginate_list(
    queryset: QuerySet[Any], request: HttpRequest, options: ListOptions, *, name: str = "name"
) -> Page:
    """Return the page in the order that the reader chose; `name` is the column to sort by name."""
    order = SORT_ORDERS[options.sort]
    column = name if order is BY_NAME else order.column
    return paginate_queryset(
        queryset, request, order=column, oldest_first=order.is_ascending, size=options.rows
    )


def build_name_filter(text: str) -> Q:
    """Return the condition that name or identifier contains a text; without a text all rows match."""
    if not text:
        return Q()
    return Q(contains_text("name", text)) | Q(contains_text("identifier", text))
