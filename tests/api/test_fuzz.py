"""No body and no address makes the API fail: whatever is sent gets an answer below 500."""

import json
from typing import Any

import pytest
from django.db import transaction
from django.test import Client
from django.urls import reverse
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rbac.models import User
from tests.api.test_tenancy import ROWS
from tests.api.world import PIPELINE, World

pytestmark = pytest.mark.django_db

# Trying a connector takes a second of waiting for AWS; what it reads of the body, others read too.
SLOW = ("api-connector-test",)
WRITES = [
    (name, ask.method)
    for name, row in ROWS.items()
    for ask in row.asks
    if name.startswith("api-") and name not in SLOW and ask.method in ("post", "put", "patch")
]
READS = [name for name, row in ROWS.items() if name.startswith("api-") and row.asks[0].method == "get"]

KEYS = [
    "identifier",
    "name",
    "org",
    "project",
    "permissions",
    "permission",
    "role",
    "user",
    "group",
    "expires_at",
    "kind",
    "spec",
    "secret",
    "value",
    "path",
    "content",
    "is_folder",
    "description",
    "variables",
    "artifact",
    "image",
    "tag",
    "manifests",
    "store",
    "paths",
    "connector",
    "region",
    "cluster",
    "yaml",
    "inputs",
    "rollback",
]
WORDS = [
    "default",
    "demo",
    "aws",
    "us-east-1",
    "/a/b.yaml",
    "viewer",
    "admin",
    "AccessKey",
    "AssumeRole",
    "Inline",
    "EcsTaskDefinition",
    "core_pipeline_view",
    "2026-01-01T00:00:00Z",
    "9999-12-31T23:59:59-12:00",
    "0001-01-01T00:00:00+14:00",
    "..",
    "%00",
    "<+input>",
    "<script>",
    "🚢",
    "1e400",
]
FAMILIAR = st.sampled_from([*WORDS, PIPELINE, "", " ", "a" * 5000])
ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20) | FAMILIAR,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=5), inner, max_size=4)
    ),
    max_leaves=8,
)
BODIES = st.dictionaries(st.sampled_from(KEYS), ANYTHING, max_size=8) | ANYTHING

CORPUS: dict[str, bytes] = {
    "nothing": b"",
    "nul": b'{"name": "\\u0000", "identifier": "\\u0000", "yaml": "\\u0000", "content": "\\u0000"}',
    "half a pair": b'{"name": "\\ud800", "spec": {"a": "\\udfff"}}',
    "deep": b'{"spec": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
    "deep keys": b'{"spec":' * 20_000,
    "not utf-8": b'{"name": "\xff\xfe"}',
    "many digits": b'{"name": ' + b"9" * 5000 + b"}",
    "too large": b'{"a": 9223372036854775808}',
    "infinite": b'{"inputs": {"a": 1e400}}',
    "not a number": b'{"inputs": {"a": NaN}}',
    "twice": b'{"name": "a", "name": "b"}',
    "a list": b"[1, 2]",
    "long": b'{"name": "' + b"a" * 3_000_000 + b'"}',
    "yaml bomb": b'{"yaml": "a: &a [x,x]\\nb: &b [*a,*a]\\nc: [*b,*b]"}',
    "yaml depth": b'{"yaml": "' + b"[" * 50_000 + b'"}',
}


@pytest.fixture
def client(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def attempt(client: Client, world: World, name: str, method: str, body: Any, media: str) -> Any:
    address = reverse(name, kwargs=ROWS[name].kwargs(world)) + ROWS[name].asks[-1].query
    with transaction.atomic():
        response = client.generic(method.upper(), address, body, content_type=media)
        transaction.set_rollback(True)
    return response


@pytest.mark.parametrize(("name", "method"), WRITES)
def test_no_json_makes_a_route_fail(world: World, client: Client, name: str, method: str):
    @settings(
        max_examples=15,
        deadline=None,
        database=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture],
    )
    @given(body=BODIES)
    def sent(body: Any) -> None:
        response = attempt(client, world, name, method, json.dumps(body), "application/json")
        assert response.status_code < 500 or response.status_code == 503, response.content

    sent()


@pytest.mark.parametrize(("name", "method"), WRITES)
def test_no_bytes_make_a_route_fail(world: World, client: Client, name: str, method: str):
    for what, body in CORPUS.items():
        response = attempt(client, world, name, method, body, "application/json")
        assert response.status_code < 500, f"{what}: {response.content[:300]!r}"
    for media in ("application/yaml", "text/plain", "multipart/form-data", ""):
        response = attempt(client, world, name, method, CORPUS["not utf-8"], media)
        assert response.status_code < 500, f"{media}: {response.content[:300]!r}"


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


@pytest.mark.parametrize("name", READS)
def test_no_query_makes_a_route_fail(world: World, client: Client, name: str):
    address = reverse(name, kwargs=ROWS[name].kwargs(world))
    for query in (*QUERIES, "a=" + "b" * 5000):
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
