"""Frame of every page: navigation, scope switcher and color theme."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, NamedTuple

from django.db.models import Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from rbac.models import Scope
from rbac.policy import Principal, list_member_scopes

# Above this number, users search for a scope by its name.
MOST_SCOPE_CHOICES = 20
MOST_SEARCH_CHARACTERS = 128


class ScopeChoice(NamedTuple):
    """Scope with its depth below the other choices: 0, 1 or 2."""

    scope: Scope
    depth: int


@dataclass(frozen=True)
class ScopeChoices:
    """First scopes, parents before children, and whether more exist."""

    items: tuple[ScopeChoice, ...]
    has_more: bool


def list_scope_choices(principal: Principal, sought: str = "") -> ScopeChoices:
    """Return the scopes to choose from, those named like `sought` where that is given; one query."""
    member_scopes = list_member_scopes(principal)
    if sought := sought.strip()[:MOST_SEARCH_CHARACTERS]:
        member_scopes = member_scopes.filter(Q(name__icontains=sought) | Q(identifier__icontains=sought))
    scopes = list(member_scopes.order_by("path")[: MOST_SCOPE_CHOICES + 1])
    # Databases differ in where they sort a slash.
    sorted_scopes = sorted(scopes[:MOST_SCOPE_CHOICES], key=lambda scope: scope.path.split("/"))
    offered = tuple(ScopeChoice(scope, 0 if sought else scope.path.count("/")) for scope in sorted_scopes)
    return ScopeChoices(offered, has_more=len(scopes) > MOST_SCOPE_CHOICES)


THEME_COOKIE = "slipway_theme"
THEMES = ("light", "dark")
THEME_COOKIE_SECONDS = 365 * 24 * 3600


def get_theme(request: HttpRequest) -> str:
    """Return "light", "dark", or "" for the system's theme."""
    theme = request.COOKIES.get(THEME_COOKIE, "")
    return theme if theme in THEMES else ""


@require_POST
def set_theme(request: HttpRequest) -> HttpResponse:
    """Store the theme and redirect to the previous page."""
    back = request.POST.get("next", "")
    if not url_has_allowed_host_and_scheme(back, {request.get_host()}, request.is_secure()):
        back = "/"
    response = HttpResponseRedirect(back)
    theme = request.POST.get("theme", "")
    if theme in THEMES:
        response.set_cookie(
            THEME_COOKIE,
            theme,
            max_age=THEME_COOKIE_SECONDS,
            samesite="Lax",
            httponly=True,
            secure=request.is_secure(),
        )
    else:
        response.delete_cookie(THEME_COOKIE)
    return response


class NavigationItem(NamedTuple):
    """A place in the navigation; `key` is the second key of its shortcut."""

    label: str
    url: str
    icon: str
    key: str


NAVIGATION_ITEMS: Final = (
    NavigationItem("Overview", "/", "overview", "w"),
    NavigationItem("Executions", "/deployments/", "executions", "e"),
    NavigationItem("Approvals", "/approvals/", "approvals", "o"),
    NavigationItem("Pipelines", "/pipelines/", "pipelines", "p"),
    NavigationItem("Services", "/services/", "services", "s"),
    NavigationItem("Environments", "/environments/", "environments", "v"),
    NavigationItem("Inventory", "/running/", "matrix", "m"),
    NavigationItem("Instances", "/instances/", "instances", "n"),
    NavigationItem("Events", "/events/", "events", "t"),
    NavigationItem("Drift", "/drift/", "drift", "l"),
    NavigationItem("Delegates", "/delegates/", "delegates", "d"),
    NavigationItem("Connectors", "/connectors/", "connectors", "c"),
    NavigationItem("Notifications", "/notifications/", "notifications", "b"),
    NavigationItem("Secrets", "/secrets/", "secrets", "k"),
    NavigationItem("Files", "/files/", "files", "f"),
    NavigationItem("Access", "/access/scopes/", "access", "r"),
)
ADMIN_ITEM: Final = NavigationItem("Administration", "/admin/", "admin", "a")
API_ITEM: Final = NavigationItem("API", "/api/docs/", "api", "i")


def get_navigation_context(request: HttpRequest) -> dict[str, Any]:
    """Return the template context of the page frame, with one query at most."""
    return {
        "theme": get_theme(request),
        "nav_entries": NAVIGATION_ITEMS,
        "nav_more": (ADMIN_ITEM, API_ITEM) if getattr(request.user, "is_staff", False) else (API_ITEM,),
        "nav_current": _get_current_url(request.path),
        "nav_scopes": _LazyScopeChoices(request),
    }


def _get_current_url(path: str) -> str:
    if path == "/":
        return path
    urls = (
        entry.url
        for entry in (*NAVIGATION_ITEMS, ADMIN_ITEM)
        if path.startswith(f"/{_get_first_segment(entry.url)}/")
    )
    return next(urls, "")


def _get_first_segment(path: str) -> str:
    return path.split("/")[1]


class _LazyScopeChoices:
    """Scopes of the reader, read only when a template renders the switcher."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def choices(self) -> ScopeChoices:
        return list_scope_choices(self._request.user)
