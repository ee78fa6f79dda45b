"""Every field of every route that writes, with every bad input: refused by name, or kept as it was sent."""

import json
from collections.abc import Iterable, Iterator
from itertools import product
from typing import Any

import pytest
from django.urls import reverse

from tests.api.requests import Ask
from tests.api.rows import ROWS
from tests.api.sample_project import World
from tests.invalid_input.conftest import Send
from tests.invalid_input.invalid_values import BODIES, JSON_ONLY, MEDIA_TYPES, TEXTS

pytestmark = pytest.mark.django_db

# Trying a connector takes a second of waiting for AWS; what it reads of the body, others read too.
SLOW = ("api-connector-test",)
WRITES = [
    pytest.param(name, ask, id=f"{name}-{ask.method}")
    for name, row in ROWS.items()
    for ask in row.asks
    if name.startswith("api-") and name not in SLOW and ask.method in ("post", "put", "patch")
]
SHARP = ("NUL", "right to left", "long", "billion laughs", "beyond 64 bits")
WRONG: dict[str, Any] = {
    "null": None,
    "a list": [[], [1]],
    "an object": {"x": {"a": []}},
    "many": ["x"] * 2000,
}
VALUES = {kind: TEXTS[kind] for kind in SHARP} | JSON_ONLY | WRONG
REFUSED = 400


def spoil_all(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The body with all fields spoilt alike, with each spoilt by another value, and with an unknown field."""
    for kind, value in VALUES.items():
        yield kind, dict.fromkeys(body, value)
    values = list(VALUES.values())
    yield "each another", {field: values[at % len(values)] for at, field in enumerate(body)}
    yield "an unknown field", {**body, "unheard_of": TEXTS["markup"]}


def spoil_one(body: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The body with each of its fields spoilt in each way."""
    for field, (kind, value) in product(body, VALUES.items()):
        yield f"{field}: {kind}", {**body, field: value}


def send_bodies(
    name: str, ask: Ask, bodies: Iterable[tuple[str, dict[str, Any]]], world: World, send: Send
) -> None:
    """Send each body; one that is refused names a field or the line."""
    address = reverse(name, kwargs=ROWS[name].kwargs(world)) + ask.query
    for label, body in bodies:
        response = send(
            "generic", ask.method.upper(), address, json.dumps(body), content_type="application/json"
        )
        assert response.status_code < 500, label
        if response.status_code != REFUSED:
            continue
        problem = response.json()
        places = [error["path"] for error in problem.get("errors", [])]
        is_named = any(place.split(".")[0] for place in places) or "line" in problem.get("errors", [{}])[0]
        assert is_named or any(field in problem["detail"] for field in body), f"{label}: {problem}"
        assert len(response.content) < 20_000 * max(len(body), 1), label


@pytest.mark.parametrize(("name", "ask"), WRITES)
def test_every_field_is_refused_by_name_or_kept(name: str, ask: Ask, world: World, send: Send) -> None:
    send_bodies(name, ask, spoil_all(ask.body(world)), world, send)


@pytest.mark.parametrize(("name", "ask"), WRITES)
def test_every_field_alone_is_refused_by_name_or_kept(name: str, ask: Ask, world: World, send: Send) -> None:
    send_bodies(name, ask, spoil_one(ask.body(world)), world, send)


@pytest.mark.parametrize(("name", "ask"), WRITES)
def test_every_body_has_an_answer(name: str, ask: Ask, world: World, send: Send) -> None:
    address = reverse(name, kwargs=ROWS[name].kwargs(world)) + ask.query
    for label, body in BODIES.items():
        response = send("generic", ask.method.upper(), address, body, content_type="application/json")
        assert response.status_code < 500, label
    for media in MEDIA_TYPES:
        response = send("generic", ask.method.upper(), address, b'{"name": "a"}', content_type=media)
        assert response.status_code < 500, media


@pytest.mark.parametrize("key", ["x" * 129, "é", "a\x7fb", "\x00", " " * 200])
def test_an_idempotency_key_is_refused_by_name(key: str, world: World, send: Send) -> None:
    address = reverse("api-pipeline-executions", kwargs={"pk": world.pipeline.pk})
    headers = {"Idempotency-Key": key}
    response = send("post", address, "{}", content_type="application/json", headers=headers)
    assert response.status_code in (201, 400)
    assert response.status_code == 201 or "Idempotency-Key" in response.json()["detail"]


@pytest.mark.parametrize("kind", TEXTS)
def test_no_header_makes_a_route_fail(kind: str, world: World, send: Send) -> None:
    address = reverse("api-pipeline", kwargs={"pk": world.pipeline.pk})
    headers = dict.fromkeys(("If-Match", "Accept", "X-Request-Id", "HX-Current-URL", "Origin"), TEXTS[kind])
    assert send("get", address, headers=headers).status_code < 500
    assert send("get", "/pipelines/", headers=headers).status_code < 500
