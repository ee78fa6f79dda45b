"""What the frame of every page shows: navigation, the scope switcher and the reader's theme."""

from functools import cached_property
from typing import Any, Final, NamedTuple

from django.http import HttpRequest

from web.scope_choices import Choices, choices
from web.theme import chosen_theme


class Entry(NamedTuple):
    """A place in the navigation; `key` is the second key of its shortcut."""

    label: str
    url: str
    icon: str
    key: str


ENTRIES: Final = (
    Entry("Overview", "/", "overview", "w"),
    Entry("Executions", "/deployments/", "executions", "e"),
    Entry("Approvals", "/approvals/", "approvals", "o"),
    Entry("Pipelines", "/pipelines/", "pipelines", "p"),
    Entry("Services", "/services/", "services", "s"),
    Entry("Environments", "/environments/", "environments", "v"),
    Entry("What runs where", "/running/", "matrix", "m"),
    Entry("Instances", "/instances/", "instances", "n"),
    Entry("Events", "/events/", "events", "t"),
    Entry("Drift", "/drift/", "drift", "l"),
    Entry("Delegates", "/delegates/", "delegates", "d"),
    Entry("Connectors", "/connectors/", "connectors", "c"),
    Entry("Notifications", "/notifications/", "notifications", "b"),
    Entry("Secrets", "/secrets/", "secrets", "k"),
    Entry("Files", "/files/", "files", "f"),
    Entry("Access", "/access/scopes/", "access", "r"),
)
ADMIN: Final = Entry("Administration", "/admin/", "admin", "a")
API: Final = Entry("API", "/api/docs/", "api", "i")


def navigation(request: HttpRequest) -> dict[str, Any]:
    """This will give every template what the frame needs, with one query at most."""
    return {
        "theme": chosen_theme(request),
        "nav_entries": ENTRIES,
        "nav_more": (ADMIN, API) if getattr(request.user, "is_staff", False) else (API,),
        "nav_current": _current(request.path),
        "nav_scopes": _Scopes(request),
    }


def _current(path: str) -> str:
    if path == "/":
        return path
    found = (entry.url for entry in (*ENTRIES, ADMIN) if path.startswith(f"/{_area(entry.url)}/"))
    return next(found, "")


def _area(path: str) -> str:
    return path.split("/")[1]


class _Scopes:
    """The scopes that the reader belongs to; asked only when a template draws the switcher."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def choices(self) -> Choices:
        return choices(self._request.user)
