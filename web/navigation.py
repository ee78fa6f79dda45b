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


class NavigationTab(NamedTuple):
    """One list page of a section."""

    label: str
    url: str
    staff_only: bool = False


class NavigationItem(NamedTuple):
    """A section of the navigation; `key` is the second key of its shortcut.

    A page belongs to the section whose tabs or `roots` share the first segment of its path. `badge`
    names the count that the section shows.
    """

    label: str
    url: str
    icon: str
    key: str
    tabs: tuple[NavigationTab, ...] = ()
    roots: tuple[str, ...] = ()
    badge: str = ""

    @property
    def segments(self) -> tuple[str, ...]:
        urls = (self.url, *(tab.url for tab in self.tabs))
        return (*(_get_first_segment(url) for url in urls), *self.roots)


NAVIGATION_GROUPS: Final = (
    (
        NavigationItem("Overview", "/", "overview", "w"),
        NavigationItem(
            "Deployments",
            "/deployments/",
            "executions",
            "e",
            (NavigationTab("Deployments", "/deployments/"), NavigationTab("Approvals", "/approvals/")),
        ),
        NavigationItem(
            "Pipelines",
            "/pipelines/",
            "pipelines",
            "p",
            (NavigationTab("Pipelines", "/pipelines/"), NavigationTab("Git syncs", "/git-syncs/")),
            ("triggers", "trigger-firings"),
        ),
        NavigationItem(
            "Services",
            "/services/",
            "services",
            "s",
            (
                NavigationTab("Services", "/services/"),
                NavigationTab("Inventory", "/inventory/"),
                NavigationTab("Drift", "/drift/"),
            ),
            ("adoptions",),
            "drift",
        ),
        NavigationItem(
            "Environments",
            "/environments/",
            "environments",
            "v",
            (
                NavigationTab("Environments", "/environments/"),
                NavigationTab("Instances", "/instances/"),
                NavigationTab("Events", "/events/"),
                NavigationTab("Freeze windows", "/freezes/"),
            ),
            ("infrastructures",),
        ),
    ),
    (
        NavigationItem(
            "Delegates",
            "/delegates/",
            "delegates",
            "d",
            (
                NavigationTab("Delegates", "/delegates/"),
                NavigationTab("Tasks", "/delegates/tasks/"),
                NavigationTab("Tokens", "/delegates/tokens/"),
                NavigationTab("Configurations", "/delegates/configurations/"),
                NavigationTab("Help", "/delegates/help/"),
            ),
        ),
        NavigationItem(
            "Connectors and secrets",
            "/connectors/",
            "connectors",
            "c",
            (
                NavigationTab("Connectors", "/connectors/"),
                NavigationTab("Secrets", "/secrets/"),
                NavigationTab("IAM policies", "/iam-policies/"),
            ),
        ),
        NavigationItem("Files", "/files/", "files", "f"),
    ),
    (
        NavigationItem(
            "Access and settings",
            "/access/people/",
            "access",
            "r",
            (
                NavigationTab("People", "/access/people/"),
                NavigationTab("Groups", "/access/groups/"),
                NavigationTab("Roles", "/access/roles/"),
                NavigationTab("Resource groups", "/access/resource-groups/"),
                NavigationTab("Organizations and projects", "/access/scopes/"),
                NavigationTab("Effective access", "/access/effective/"),
                NavigationTab("Service accounts", "/access/service-accounts/"),
                NavigationTab("My API keys", "/access/keys/"),
                NavigationTab("API reference", "/api/docs/"),
                NavigationTab("Invitations", "/access/invitations/"),
                NavigationTab("Audit trail", "/access/audit/"),
                NavigationTab("Notifications", "/notifications/"),
                NavigationTab("Policy rules", "/policy-rules/"),
                NavigationTab("System", "/system/", staff_only=True),
                NavigationTab("Administration", "/admin/", staff_only=True),
            ),
        ),
    ),
)
NAVIGATION_ITEMS: Final = tuple(item for group in NAVIGATION_GROUPS for item in group)


def _get_first_segment(path: str) -> str:
    return path.split("/")[1]


_SECTIONS: Final = {segment: item for item in NAVIGATION_ITEMS for segment in item.segments}


def get_navigation_context(request: HttpRequest) -> dict[str, Any]:
    """Return the template context of the page frame, with one query at most."""
    section = _SECTIONS.get(_get_first_segment(request.path))
    return {
        "theme": get_theme(request),
        "nav_groups": NAVIGATION_GROUPS,
        "nav_section": section,
        "nav_tabs": _list_tabs(request, section),
        "nav_scopes": _LazyScopeChoices(request),
    }


def _list_tabs(request: HttpRequest, section: NavigationItem | None) -> tuple[NavigationTab, ...]:
    """Return the tabs to show: those of the section, on its list pages only."""
    if section is None or request.path not in {tab.url for tab in section.tabs}:
        return ()
    is_staff = getattr(request.user, "is_staff", False)
    return tuple(tab for tab in section.tabs if is_staff or not tab.staff_only)


class _LazyScopeChoices:
    """Scopes of the reader, read only when a template renders the switcher."""

    def __init__(self, request: HttpRequest) -> None:
        self._request = request

    @cached_property
    def choices(self) -> ScopeChoices:
        return list_scope_choices(self._request.user)
