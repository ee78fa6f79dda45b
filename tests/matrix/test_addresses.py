"""Every address × everybody: a new one without a row fails, and nothing of another scope shows.

Every day the standings that tell most are asked; `make test-soak` asks all of them.
"""

import re
from collections.abc import Iterable

import pytest
from django.urls import get_resolver

from tests.api.requests import Ask, nothing
from tests.api.required_access import EVERY_STANDING, STRANGER, Open, SignedIn, Standing, select_standings
from tests.api.rows import ROWS, names_of
from tests.matrix.conftest import Stage
from tests.matrix.requests import ASKS, fault_of, send

pytestmark = pytest.mark.django_db
CELLS = [
    pytest.param(turn, name, ask, id=f"{name}-{ask.method}{ask.query}")
    for turn, (name, ask) in enumerate(ASKS)
]


def test_every_address_has_a_row() -> None:
    assert set(names_of(get_resolver().url_patterns)) == set(ROWS)


@pytest.mark.parametrize(("turn", "name", "ask"), CELLS)
def test_everybody_gets_what_is_theirs_and_no_more(turn: int, name: str, ask: Ask, stage: Stage) -> None:
    compare(name, ask, stage, select_standings(ask.need, turn))


@pytest.mark.soak
@pytest.mark.parametrize(("turn", "name", "ask"), CELLS)
def test_every_role_at_every_place_gets_no_more(turn: int, name: str, ask: Ask, stage: Stage) -> None:
    compare(name, ask, stage, EVERY_STANDING)


def compare(name: str, ask: Ask, stage: Stage, standings: Iterable[Standing]) -> None:
    """Send the request as each standing and anonymously, and compare the statuses."""
    anonymous = ask.need.anonymous if isinstance(ask.need, Open) else 401 if name.startswith("api-") else 302
    expected: dict[Standing | None, int] = {
        None: anonymous,
        **{standing: ask.need.status(standing) for standing in standings},
    }
    statuses: dict[Standing | None, int] = {}
    for who in expected:
        browser = stage.anonymous if who is None else stage.browsers[who]
        response = send(browser, name, ask, stage.world)
        statuses[who] = response.status_code
        fault = fault_of(ask, who, response)
        assert not fault, f"{who}: {fault}"
    assert statuses == expected


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


@pytest.mark.parametrize(
    "name",
    [
        name
        for name, row in ROWS.items()
        if name.startswith("api-") and not isinstance(row.asks[0].need, Open)
    ],
)
def test_anonymous_programs_are_told_how_to_sign_in(name: str, stage: Stage) -> None:
    response = send(stage.anonymous, name, ROWS[name].asks[0], stage.world)
    assert response["WWW-Authenticate"] == 'Bearer realm="slipway"'
    assert response["Content-Type"] == "application/problem+json"
