"""Every field of every route that writes, with every bad input: refused by name, or kept as it was sent."""

import json
from typing import Any

import pytest
from django.urls import reverse

from tests.api.asks import Ask
from tests.api.rows import ROWS
from tests.api.world import World
from tests.doors.conftest import Send
from tests.doors.corpus import BODIES, JSON_ONLY, MEDIA_TYPES, TEXTS

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
VALUES = {what: TEXTS[what] for what in SHARP} | JSON_ONLY | WRONG
REFUSED = 400


def bodies(body: dict[str, Any]) -> list[tuple[str, str, dict[str, Any]]]:
    """The body with each of its fields spoilt in each way, and with a field that is unknown."""
    spoilt = [(field, what, {**body, field: value}) for field in body for what, value in VALUES.items()]
    return [*spoilt, ("unheard_of", "a field", {**body, "unheard_of": TEXTS["markup"]})]


@pytest.mark.parametrize(("name", "ask"), WRITES)
def test_every_field_is_refused_by_name_or_kept(name: str, ask: Ask, world: World, send: Send) -> None:
    address = reverse(name, kwargs=ROWS[name].kwargs(world)) + ask.query
    for field, what, body in bodies(ask.body(world)):
        response = send(
            "generic", ask.method.upper(), address, json.dumps(body), content_type="application/json"
        )
        assert response.status_code < 500, f"{field}: {what}"
        if response.status_code != REFUSED:
            continue
        problem = response.json()
        places = [error["path"] for error in problem.get("errors", [])]
        is_named = any(place.split(".")[0] for place in places) or "line" in problem.get("errors", [{}])[0]
        assert is_named or field in problem["detail"], f"{field}: {what}: {problem}"
        assert len(response.content) < 20_000, f"{field}: {what}"


@pytest.mark.parametrize(("name", "ask"), WRITES)
def test_every_body_has_an_answer(name: str, ask: Ask, world: World, send: Send) -> None:
    address = reverse(name, kwargs=ROWS[name].kwargs(world)) + ask.query
    for what, body in BODIES.items():
        response = send("generic", ask.method.upper(), address, body, content_type="application/json")
        assert response.status_code < 500, what
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


@pytest.mark.parametrize("what", TEXTS)
def test_no_header_makes_a_route_fail(what: str, world: World, send: Send) -> None:
    address = reverse("api-pipeline", kwargs={"pk": world.pipeline.pk})
    headers = dict.fromkeys(("If-Match", "Accept", "X-Request-Id", "HX-Current-URL", "Origin"), TEXTS[what])
    assert send("get", address, headers=headers).status_code < 500
    assert send("get", "/pipelines/", headers=headers).status_code < 500
