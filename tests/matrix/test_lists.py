"""Lists and counts × who has no part: making things in one project changes nothing that others are shown."""

import re

import pytest
import time_machine
from django.urls import reverse

from rbac.models import Scope, User
from tests.api.requests import nothing
from tests.api.required_access import ADMIN, HERE, NOBODY, SIBLING, STRANGER, Open, Standing
from tests.api.rows import ROWS
from tests.api.sample_project import make_world
from tests.matrix.principals import Browser, browser_of

pytestmark = pytest.mark.django_db
OUTSIDERS = (Standing("account_admin", SIBLING), STRANGER, NOBODY)
LISTS = [
    (name, ask.query)
    for name, row in ROWS.items()
    for ask in row.asks
    # The page of the second factor draws a new secret each time, and is one's own.
    if ask.method == "get" and row.kwargs is nothing and not isinstance(ask.need, Open)
    if name != "second-factor"
]
# What is drawn anew for each answer.
FLEETING = re.compile(
    r'"request_id": ?"[^"]*"|nonce="[^"]*"|value="[A-Za-z0-9]{64}"|<code>[0-9a-f]{32}</code>|X-CSRFToken[^}]*'
    r'|value="slipway-[0-9a-f]{16}"'
)


def read_lists(browser: Browser) -> dict[str, str]:
    """Every list and every page without a key, as text."""
    texts = {}
    for name, query in LISTS:
        response = browser.send_and_undo("get", reverse(name) + query)
        texts[name + query] = FLEETING.sub("", response.getvalue().decode("utf-8", "replace"))
    return texts


@pytest.mark.parametrize("outsider", OUTSIDERS, ids=["neighbour", "stranger", "nobody"])
@time_machine.travel("2026-11-21T12:00:00Z", tick=False)
def test_what_is_made_in_a_project_is_neither_shown_nor_counted_outside(
    people: dict[Standing, User], outsider: Standing
) -> None:
    browser = browser_of(people[outsider])
    # The first visit chooses a scope.
    browser.get(reverse("executions"))
    before = read_lists(browser)
    make_world(Scope.objects.get(path=HERE), people[ADMIN], people[ADMIN])
    changed_pages = [name for name, text in read_lists(browser).items() if text != before[name]]
    assert changed_pages == []
