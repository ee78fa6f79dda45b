"""Asks an address as somebody, and looks at what the answer shows."""

from typing import Any

from django.urls import reverse

from tests.api.requests import Ask
from tests.api.required_access import HERE, MISSING, Lists, Standing
from tests.api.rows import ROWS
from tests.api.sample_project import CANARY, World
from tests.matrix.principals import Browser

ASKS = [(name, ask) for name, row in ROWS.items() for ask in row.asks]


def fault_of(ask: Ask, standing: Standing | None, response: Any) -> str:
    """Return the problem of a response: foreign data, or a wrong list entry; empty if there is none."""
    content = response.getvalue().decode("utf-8", "replace")
    has_part = standing is not None and standing.reaches(HERE)
    if CANARY in content and (response.status_code == MISSING or not has_part):
        return "sees what is foreign"
    if standing is None or not isinstance(ask.need, Lists) or not ask.need.sign:
        return ""
    is_listed = ask.need.sign in content
    return "" if is_listed == ask.need.shows(standing) else f"is listed: {is_listed}"


def send(browser: Browser, name: str, ask: Ask, world: World, keys: dict[str, Any] | None = None) -> Any:
    address = reverse(name, kwargs=ROWS[name].kwargs(world) if keys is None else keys) + ask.query
    if ask.method == "get":
        return browser.send_and_undo("get", address)
    if ask.is_form:
        return browser.send_and_undo("post", address, ask.body(world))
    return browser.send_and_undo(ask.method, address, ask.body(world), content_type="application/json")
