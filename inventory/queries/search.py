"""Search over everything that the reader may view, in all scopes: pages, resources and executions."""

import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When
from django.urls import reverse
from django.utils.http import urlencode

from catalog.models import Environment, Service
from delegates.models import Delegate
from deployments.models import Execution
from inventory.models.instances import EcsServiceRecord
from pipelines.models import Pipeline
from rbac.policy import Principal, filter_visible
from web.navigation import NAVIGATION_ITEMS
from web.search_filters import contains_text

MAX_HITS: Final = 20
# Hits of one kind in a row, where another kind has hits of the same rank.
KIND_BLOCK: Final = 5
VIEW_ENVIRONMENT: Final = "core_environment_view"
VIEW_PIPELINE: Final = "core_pipeline_view"
# "#12", "12", "rolling 12" and "rolling #12".
EXECUTION_NUMBER: Final = re.compile(r"(?:(?P<pipeline>.+?)[\s#]+|#)?(?P<number>[0-9]{1,9})")

EXACT, STARTS, WORD_STARTS, CONTAINS = range(4)
WORD_SEPARATORS: Final = " -_/."


@dataclass(frozen=True)
class SearchHit:
    """One result. `detail` tells it from others of its name; a lower `rank` is a better match."""

    kind: str
    icon: str
    name: str
    url: str
    rank: int
    scope_path: str = ""
    detail: str = ""


class SearchedKind(NamedTuple):
    """Resource type to search in the columns `names`; `columns` are name, detail and scope path."""

    label: str
    icon: str
    rows: Callable[[], QuerySet[Any]]
    permission: str
    names: tuple[str, ...]
    columns: tuple[str, str, str]
    build_url: Callable[[int, str, str], str]


def _link_to(route: str) -> Callable[[int, str, str], str]:
    return lambda pk, name, scope_path: reverse(route, kwargs={"pk": pk})


def _link_to_instances(pk: int, name: str, scope_path: str) -> str:
    """Return the address of the instances of an ECS service, which may belong to no service."""
    return f"{reverse('instances')}?{urlencode({'scope': scope_path, 'q': name})}"


NAMES: Final = ("name", "identifier")
COLUMNS: Final = ("name", "identifier", "scope__path")
SEARCHED_KINDS: Final = (
    SearchedKind(
        "Service",
        "services",
        Service.objects.all,
        "core_service_view",
        NAMES,
        COLUMNS,
        _link_to("service-dashboard"),
    ),
    SearchedKind(
        "Pipeline", "pipelines", Pipeline.objects.all, VIEW_PIPELINE, NAMES, COLUMNS, _link_to("pipeline")
    ),
    SearchedKind(
        "Environment",
        "environments",
        Environment.objects.all,
        VIEW_ENVIRONMENT,
        NAMES,
        COLUMNS,
        _link_to("environment"),
    ),
    SearchedKind(
        "Delegate",
        "delegates",
        Delegate.objects.all,
        "core_delegate_view",
        ("name",),
        ("name", "kind", "scope__path"),
        _link_to("delegate"),
    ),
    SearchedKind(
        "ECS service",
        "instances",
        lambda: EcsServiceRecord.objects.filter(gone_at=None),
        VIEW_ENVIRONMENT,
        ("name",),
        ("name", "cluster__cluster", "infrastructure__environment__scope__path"),
        _link_to_instances,
    ),
)


def search(principal: Principal, text: str, *, is_staff: bool = False) -> list[SearchHit]:
    """Return the best hits, the best first; six queries besides those for permissions."""
    if not text:
        return []
    hits = [*_search_pages(text, is_staff=is_staff), *_search_executions(principal, text)]
    for kind in SEARCHED_KINDS:
        hits += _search_kind(principal, kind, text)
    return _mix_kinds(hits)[:MAX_HITS]


def rank_name(name: str, text: str) -> int | None:
    """Return the rank of a match, or None for no match."""
    name, text = name.casefold(), text.casefold()
    if name == text:
        return EXACT
    if name.startswith(text):
        return STARTS
    if any(f"{separator}{text}" in name for separator in WORD_SEPARATORS):
        return WORD_STARTS
    return CONTAINS if text in name else None


def _mix_kinds(hits: Iterable[SearchHit]) -> list[SearchHit]:
    """Order hits by rank. Kinds take turns within a rank, so that none hides the others."""
    counts: Counter[tuple[str, int]] = Counter()
    blocks: list[tuple[int, int, SearchHit]] = []
    for hit in hits:
        blocks.append((hit.rank, counts[hit.kind, hit.rank] // KIND_BLOCK, hit))
        counts[hit.kind, hit.rank] += 1
    return [hit for _, _, hit in sorted(blocks, key=lambda block: block[:2])]


def _search_pages(text: str, *, is_staff: bool) -> list[SearchHit]:
    """Return the pages of the navigation, each address once."""
    hits: dict[str, SearchHit] = {}
    for item in NAVIGATION_ITEMS:
        tabs = [(tab.label, tab.url, item.label) for tab in item.tabs if is_staff or not tab.staff_only]
        for label, url, section in [(item.label, item.url, ""), *tabs]:
            rank = rank_name(label, text)
            if rank is not None and url not in hits:
                hits[url] = SearchHit("Page", item.icon, label, url, rank, detail=section)
    return list(hits.values())


def _search_executions(principal: Principal, text: str) -> list[SearchHit]:
    """Return the newest executions of a number, if the text ends in one."""
    match = EXECUTION_NUMBER.fullmatch(text)
    if match is None:
        return []
    rows = Execution.objects.filter(number=int(match["number"]))
    if match["pipeline"]:
        rows = rows.filter(_build_match(("pipeline__name", "pipeline__identifier"), match["pipeline"]))
    visible = filter_visible(principal, VIEW_PIPELINE, rows).order_by("-created_at")
    # A bare number may be a part of a name too.
    rank = STARTS if text == match["number"] else EXACT
    return [
        SearchHit(
            "Execution", "executions", f"{name} #{number}", reverse("execution", args=[pk]), rank, path, tag
        )
        for pk, name, number, path, tag in visible.values_list(
            "pk", "pipeline__name", "number", "scope__path", "tag"
        )[:MAX_HITS]
    ]


def _search_kind(principal: Principal, kind: SearchedKind, text: str) -> list[SearchHit]:
    """Return the best visible rows of one kind; one query."""
    visible = filter_visible(principal, kind.permission, kind.rows())
    ranked = visible.filter(_build_match(kind.names, text)).annotate(
        search_rank=_build_rank(kind.names, text)
    )
    rows = ranked.order_by("search_rank", "name", "pk").values_list("pk", "search_rank", *kind.columns)
    return [
        SearchHit(kind.label, kind.icon, name, kind.build_url(pk, name, path), rank, path, detail)
        for pk, rank, name, detail, path in rows[:MAX_HITS]
    ]


def _build_match(columns: Iterable[str], text: str) -> Q:
    condition = Q()
    for column in columns:
        condition |= Q(contains_text(column, text))
    return condition


def _build_rank(columns: Iterable[str], text: str) -> Case:
    """Return the rank of `rank_name`, the best one of several columns, as an expression."""
    exact, starts, word_starts = Q(), Q(), Q()
    for column in columns:
        exact |= Q((f"{column}__iexact", text))
        starts |= Q((f"{column}__istartswith", text))
        for separator in WORD_SEPARATORS:
            word_starts |= Q((f"{column}__icontains", f"{separator}{text}"))
    return Case(
        When(exact, then=Value(EXACT)),
        When(starts, then=Value(STARTS)),
        When(word_starts, then=Value(WORD_STARTS)),
        default=Value(CONTAINS),
        output_field=IntegerField(),
    )
