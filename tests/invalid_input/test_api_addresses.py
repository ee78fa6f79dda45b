"""Addresses of the API with bad queries, keys and methods: an answer below 500, always."""

import base64
from collections.abc import Iterator
from urllib.parse import urlencode

import pytest
from django.test import Client
from django.urls import reverse

from tests.api.rows import ROWS
from tests.api.sample_project import World
from tests.invalid_input.invalid_values import TEXTS

pytestmark = pytest.mark.django_db
READS = [name for name, row in ROWS.items() if name.startswith("api-") and row.asks[0].method == "get"]

QUERIES = [
    "cursor=%00",
    "cursor=x",
    "cursor=W10",
    "page_size=x",
    "page_size=-1",
    "identifier=%ED%A0%80",
    "org=%F0%9F%9A%A2",
    "org=default&project=%27%20or%201=1",
    "project=demo",
    "status=%22",
    "pipeline=99999999999999999999",
    "after=x",
    "after=99999999999999999999",
    "download=x",
    "folder=/../",
    "path=%0a",
    "region=x.evil.example/",
]


# What a cursor holds is ours; whoever forges one may put anything there.
FORGED = (
    '[0,"9999999999999999999999","1"]',
    '[0,"1","99999999999999999999999999999999999999"]',
    "[1,null,null]",
    '[0,{"a":1},[]]',
    '[0,"x","x"]',
    "[NaN,Infinity,1e400]",
    '[0,"0001-01-01T00:00:00+14:00","1"]',
    '[0,"9999-12-31T23:59:59-12:00","00000000-0000-0000-0000-000000000000"]',
    '[0,"\\u0000","\\u0000"]',
    '[0,"\\ud800","\\ud800"]',
    "[" * 700,
    "9" * 700,
    "{}",
    '"abc"',
)
SHARP = ("right to left", "line ends", "long", "beyond 64 bits", "below zero", "year 9999")
NAMES = (
    "org",
    "project",
    "identifier",
    "status",
    "pipeline",
    "after",
    "folder",
    "path",
    "region",
    "from",
    "q",
)


def forge_cursor(text: str) -> str:
    return "cursor=" + base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


def build_full_queries() -> Iterator[str]:
    """All names in one query."""
    for kind in SHARP:
        yield urlencode(dict.fromkeys(NAMES[2:], TEXTS[kind]))
    yield urlencode(dict.fromkeys(NAMES, TEXTS["markup"]))


@pytest.mark.parametrize("name", READS)
def test_no_query_makes_a_route_fail(world: World, client: Client, name: str):
    address = reverse(name, kwargs=ROWS[name].kwargs(world))
    for query in (*build_full_queries(), "cursor=x", "page_size=-1", *map(forge_cursor, FORGED[:2])):
        response = client.get(f"{address}?{query}")
        assert response.status_code < 500, f"{query}: {response.content[:300]!r}"


@pytest.mark.parametrize("name", READS)
def test_no_odd_query_makes_a_route_fail(world: World, client: Client, name: str):
    address = reverse(name, kwargs=ROWS[name].kwargs(world))
    is_list = client.get(f"{address}?cursor=x").status_code == 404
    forged = map(forge_cursor, FORGED if is_list else ())
    for query in (*QUERIES, "a=" + "b" * 5000, "&" * 50, *forged):
        response = client.get(f"{address}?{query}")
        assert response.status_code < 500, f"{query}: {response.content[:300]!r}"


@pytest.mark.parametrize(
    "address",
    [
        "/api/v1/pipelines/99999999999999999999999",
        "/api/v1/pipelines/9223372036854775808/executions",
        "/api/v1/orgs/%F0%9F%9A%A2/projects/%0a",
        "/api/v1/orgs/..%2f..%2f",
        "/api/v1/files/%2e%2e/%2e%2e/etc/passwd",
        "/api/v1/files/" + "a" * 3000,
        "/api/v1/files/%ED%A0%80?org=default",
        "/api/v1/executions/00000000-0000-0000-0000-000000000000/log",
        "/api/v1/" + "x/" * 500,
    ],
)
def test_no_address_makes_it_fail(client: Client, address: str):
    for method in ("get", "post", "put", "patch", "delete", "options", "head", "trace"):
        response = client.generic(method.upper(), address)
        assert response.status_code < 500
