"""Pages of organizations and projects: the tree, one of them, and those that are archived."""

from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import render
from django.views.decorators.http import require_safe

from accounts.queries import branches_of
from rbac.archived import restorable
from rbac.models import Scope
from rbac.policy import NotVisible, can, permissions_at, scopes_of_member, scopes_where
from web.pages import PageRequest, page
from web.paging import keyset
from web.scope_choices import MOST_SOUGHT, choices

# What can be made inside a scope, and the permission for it.
INSIDE = {Scope.Kind.ACCOUNT: "core_organization_edit", Scope.Kind.ORGANIZATION: "core_project_edit"}


@page
@require_safe
def scopes(request: PageRequest) -> HttpResponse:
    """This will show the account, its organizations and their projects, or what is sought among them."""
    visible, account = scopes_of_member(request.user), Scope.objects.account()
    sought = request.GET.get("q", "").strip()[:MOST_SOUGHT]
    content = {
        "account": account,
        "is_member": visible.filter(pk=account.pk).exists(),
        "sought": sought,
        "can_add": can(request.user, INSIDE[Scope.Kind.ACCOUNT], account),
        "has_archived": restorable(request.user).exists(),
    }
    if sought:
        named = Q(name__icontains=sought) | Q(identifier__icontains=sought)
        found = visible.filter(named).exclude(pk=account.pk).select_related("parent")
        shown = keyset(found, request, order="path", oldest_first=True)
        return render(request, "accounts/scopes/found.html", content | {"page": shown})
    organizations = visible.filter(kind=Scope.Kind.ORGANIZATION)
    shown = keyset(organizations, request, order="path", oldest_first=True)
    growing = scopes_where(request.user, INSIDE[Scope.Kind.ORGANIZATION])
    content |= {
        "page": shown,
        "branches": branches_of(shown.items, visible),
        "growing": set(growing.filter(pk__in=[one.pk for one in shown.items]).values_list("pk", flat=True)),
    }
    return render(request, "accounts/scopes/list.html", content)


@page
@require_safe
def scope(request: PageRequest, pk: int) -> HttpResponse:
    """This will show the account, one organization with its projects, or one project."""
    found = member_scope(request, pk)
    inside = scopes_of_member(request.user).filter(parent=found)
    rights = permissions_at(request.user, found)
    content = {
        "scope": found,
        "page": keyset(inside, request, order="path", oldest_first=True),
        "can_rename": f"core_{found.resource}_edit" in rights,
        "can_archive": found.parent is not None and f"core_{found.resource}_delete" in rights,
        "can_add": INSIDE.get(Scope.Kind(found.kind)) in rights,
        "is_account": found.kind == Scope.Kind.ACCOUNT,
    }
    return render(request, "accounts/scopes/detail.html", content)


@page
@require_safe
def archived(request: PageRequest) -> HttpResponse:
    """This will list what is archived and may be brought back."""
    found = restorable(request.user).select_related("parent")
    return render(
        request, "accounts/scopes/archived.html", {"page": keyset(found, request, order="archived_at")}
    )


@page
@require_safe
def scope_choices(request: PageRequest) -> HttpResponse:
    """This will draw the entries of the scope switcher for what is sought, as a fragment of any page."""
    sought = request.GET.get("q", "")
    content = {"choices": choices(request.user, sought), "sought": sought}
    return render(request, "parts/_scope_choices.html", content)


def member_scope(request: PageRequest, pk: int) -> Scope:
    """Return a scope that the reader belongs to. Raises `NotVisible`."""
    found = scopes_of_member(request.user).select_related("parent").filter(pk=pk).first()
    if found is None:
        raise NotVisible("There is no such scope for you.")
    return found
