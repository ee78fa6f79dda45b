"""Every address × everybody: a new one without a row fails, and nothing of another scope shows.

Every day the standings that tell most are asked; `make soak` asks all of them.
"""

import os
import re
from typing import Any

import pytest
from django.urls import get_resolver, reverse

from tests.api.asks import WHO, Ask, nothing
from tests.api.needs import EVERY_STANDING, HERE, MISSING, STRANGER, Lists, Open, SignedIn, Standing, sharpest
from tests.api.rows import ROWS, names_of
from tests.api.world import CANARY, World
from tests.matrix.conftest import Stage
from tests.matrix.people import Browser

pytestmark = pytest.mark.django_db
ASKS = [(name, ask) for name, row in ROWS.items() for ask in row.asks]
CELLS = [
    pytest.param(turn, name, ask, id=f"{name}-{ask.method}{ask.query}")
    for turn, (name, ask) in enumerate(ASKS)
]
ALL = bool(os.environ.get("SLIPWAY_SOAK"))


def test_every_address_has_a_row() -> None:
    assert set(names_of(get_resolver().url_patterns)) == set(ROWS)


@pytest.mark.parametrize(("turn", "name", "ask"), CELLS)
def test_everybody_gets_what_is_theirs_and_no_more(turn: int, name: str, ask: Ask, stage: Stage) -> None:
    expected = expectations(name, ask, turn)
    found: dict[str, int] = {}
    for who in expected:
        browser = stage.anonymous if who is None else stage.browsers[who]
        response = send(browser, name, ask, stage.world)
        found[str(who)] = response.status_code
        fault = fault_of(ask, who, response)
        assert not fault, f"{who}: {fault}"
    assert found == {str(who): status for who, status in expected.items()}


def expectations(name: str, ask: Ask, turn: int) -> dict[Standing | None, int]:
    """The status that everybody has to get; None stands for who has not signed in."""
    if isinstance(ask.need, tuple):
        return dict(zip(WHO, ask.need, strict=True))
    need = ask.need
    anonymous = need.anonymous if isinstance(need, Open) else 401 if name.startswith("api-") else 302
    standings = EVERY_STANDING if ALL else sharpest(need, turn)
    return {None: anonymous, **{who: need.status(who) for who in standings}}


def fault_of(ask: Ask, who: Standing | None, response: Any) -> str:
    """What is wrong with what is shown: something of a project in which one has no part, or a list's gap."""
    shown = response.getvalue().decode("utf-8", "replace")
    has_part = who is not None and f"{HERE}/".startswith(f"{who.place or '-'}/")
    if CANARY in shown and (response.status_code == MISSING or not has_part):
        return "sees what is foreign"
    if who is None or not isinstance(ask.need, Lists) or not ask.need.sign:
        return ""
    is_listed = ask.need.sign in shown
    return "" if is_listed == ask.need.shows(who) else f"is listed: {is_listed}"


def send(browser: Browser, name: str, ask: Ask, world: World, keys: dict[str, Any] | None = None) -> Any:
    address = reverse(name, kwargs=ROWS[name].kwargs(world) if keys is None else keys) + ask.query
    if ask.method == "get":
        return browser.undone("get", address)
    if ask.is_form:
        return browser.undone("post", address, ask.body(world))
    return browser.undone(ask.method, address, ask.body(world), content_type="application/json")


MISSING_KEYS = {"int": 999_999, "UUID": "00000000-0000-4000-8000-000000000000", "str": "nothing"}
KEYED = [
    (name, ask)
    for name, ask in ASKS
    if ROWS[name].kwargs is not nothing and not isinstance(ask.need, SignedIn | Open)
]
CHANGING = re.compile(
    rb'"request_id": ?"[^"]*"|nonce="[^"]*"|value="[A-Za-z0-9]{64}"|<code>[0-9a-f]{32}</code>'
    rb'|X-CSRFToken[^}]*|name="next" value="[^"]*"|next=[^"&]*'
)


@pytest.mark.parametrize(
    ("name", "ask"), [pytest.param(name, ask, id=f"{name}-{ask.method}{ask.query}") for name, ask in KEYED]
)
def test_nothing_tells_a_foreign_id_from_one_that_never_was(name: str, ask: Ask, stage: Stage) -> None:
    kwargs = ROWS[name].kwargs(stage.world)
    never = {key: MISSING_KEYS[type(value).__name__] for key, value in kwargs.items()}
    answers = []
    for keys in (kwargs, never):
        response = send(stage.browsers[STRANGER], name, ask, stage.world, keys)
        answers.append((response.status_code, CHANGING.sub(b"", response.getvalue())))
    assert answers[0] == answers[1]


@pytest.mark.parametrize("name", [name for name in ROWS if name.startswith("api-") and name != "api-docs"])
def test_anonymous_programs_are_told_how_to_sign_in(name: str, stage: Stage) -> None:
    response = send(stage.anonymous, name, ROWS[name].asks[0], stage.world)
    assert response["WWW-Authenticate"] == 'Bearer realm="slipway"'
    assert response["Content-Type"] == "application/problem+json"
