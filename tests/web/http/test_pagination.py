"""Pages of lists stay right while rows come and go."""

from datetime import UTC, datetime

import pytest
from django.test import RequestFactory
from pytest_django import DjangoAssertNumQueries

from guards.limits import CURSOR_CHARACTERS, NAME_CHARACTERS
from rbac.models import AuditEntry, Scope, User
from tests.rbac.people import project
from web.http.pagination import Cursor, Page, paginate_queryset
from web.http.problems import BadInput, PageNotFound

pytestmark = pytest.mark.django_db


def request_of(address: str):
    return RequestFactory().get(address)


def walk(address: str, **options: object) -> list[str]:
    """Follow `next` to the end and return all identifiers."""
    identifiers: list[str] = []
    url: str | None = address
    while url:
        page = paginate_queryset(Scope.objects.filter(kind="PROJECT"), request_of(url), **options)
        identifiers += [scope.identifier for scope in page.items]
        url = page.next_url
    return identifiers


@pytest.fixture
def identifiers() -> list[str]:
    for number in range(10):
        project(f"default/p{number}")
    return [f"p{number}" for number in range(10)]


@pytest.mark.parametrize("size", [1, 3, 5, 10, 50])
@pytest.mark.parametrize("order", ["pk", "created_at"])
def test_every_row_is_seen_once_newest_first(identifiers: list[str], size: int, order: str):
    assert walk(f"/?page_size={size}", order=order) == identifiers[::-1]
    assert walk(f"/?page_size={size}", order=order, oldest_first=True) == identifiers


def test_rows_of_the_same_moment_are_told_apart(identifiers: list[str]):
    Scope.objects.update(created_at=datetime(2026, 1, 1, tzinfo=UTC))
    assert walk("/?page_size=3", order="created_at") == identifiers[::-1]


def test_the_way_back_leads_through_the_same_pages(identifiers: list[str]):
    rows = Scope.objects.filter(kind="PROJECT")
    pages: list[Page] = [paginate_queryset(rows, request_of("/?page_size=4"))]
    while pages[-1].next_url:
        pages.append(paginate_queryset(rows, request_of(pages[-1].next_url)))
    assert pages[0].previous_url is None
    back = paginate_queryset(rows, request_of(pages[2].previous_url or ""))
    assert back.items == pages[1].items
    first = paginate_queryset(rows, request_of(back.previous_url or ""))
    assert first.items == pages[0].items
    assert first.previous_url is None


def test_a_row_added_meanwhile_moves_nothing(identifiers: list[str]):
    first = paginate_queryset(Scope.objects.filter(kind="PROJECT"), request_of("/?page_size=5"))
    project("default/late")
    second = paginate_queryset(Scope.objects.filter(kind="PROJECT"), request_of(first.next_url or ""))
    assert [scope.identifier for scope in second.items] == identifiers[4::-1]


@pytest.mark.parametrize("letter", ["倉", "🚚", '"'])
def test_the_pages_behind_long_names_open(identifiers: list[str], letter: str):
    for number, scope in enumerate(Scope.objects.filter(kind="PROJECT").order_by("pk")):
        Scope.objects.filter(pk=scope.pk).update(name=f"{letter * (NAME_CHARACTERS - 1)}{number}")
    assert walk("/?page_size=3", order="name", oldest_first=True) == identifiers


@pytest.mark.parametrize("letter", ["🚚", '"'])
def test_a_cursor_holds_the_longest_value_that_lists_are_sorted_by(letter: str):
    longest = max(NAME_CHARACTERS, User._meta.get_field("username").max_length or 0)
    cursor = Cursor(True, letter * longest, 2**63 - 1)
    assert len(cursor.encode()) <= CURSOR_CHARACTERS


def test_other_filters_stay_in_the_address(identifiers: list[str]):
    page = paginate_queryset(Scope.objects.all(), request_of("/list?org=default&page_size=2"))
    assert page.next_url is not None
    assert page.next_url.startswith("http://testserver/list?org=default&page_size=2&cursor=")


@pytest.mark.parametrize("cursor", ["x", "!!!", "W10", "bnVsbA", "WzEsMiwzXQ" * 50, "%00", "WzAsImEiLCJhIl0"])
def test_a_foreign_cursor_names_no_page(cursor: str):
    with pytest.raises(PageNotFound):
        paginate_queryset(AuditEntry.objects.all(), request_of(f"/?cursor={cursor}"), order="at")


@pytest.mark.parametrize("size", ["0", "-1", "x", "1e3", "٣", "99999999999999999999"])
def test_a_strange_page_size_is_bad_input(size: str):
    with pytest.raises(BadInput):
        paginate_queryset(Scope.objects.all(), request_of(f"/?page_size={size}"))


def test_a_page_is_one_query(identifiers: list[str], django_assert_num_queries: DjangoAssertNumQueries):
    with django_assert_num_queries(1):
        paginate_queryset(Scope.objects.all(), request_of("/?page_size=500"))
