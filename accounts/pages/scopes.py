"""Pages of organizations and projects."""

from typing import Any
from urllib.parse import urlencode

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import Q
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.template.defaultfilters import pluralize
from django.urls import reverse
from django.utils.functional import cached_property
from django.utils.html import format_html
from django.views.decorators.http import require_POST, require_safe

from accounts.forms.scopes import NewScopeForm, RenameScopeForm
from accounts.queries.scopes import list_organization_projects
from rbac import operations
from rbac.archive_guards import ScopeBusy, WorkInProgress, list_work_in_progress
from rbac.models import Scope
from rbac.policy import NotVisible, can, get_permissions, list_member_scopes, list_permitted_scopes, require
from rbac.queries import list_restorable_scopes
from web.forms.pages import PageRequest, require_sign_in
from web.forms.resource_pages import (
    Breadcrumb,
    ConfirmPage,
    CreateChildPage,
    CreatePage,
    Notice,
    Obstacle,
    RenamePage,
    ResourcePage,
)
from web.http.pagination import paginate_queryset
from web.http.problems import Conflict
from web.navigation import MOST_SEARCH_CHARACTERS, list_scope_choices

# What can be made inside a scope, and the permission for it.
CHILD_PERMISSIONS = {
    Scope.Kind.ACCOUNT: "core_organization_edit",
    Scope.Kind.ORGANIZATION: "core_project_edit",
}


@require_sign_in
@require_safe
def scopes(request: PageRequest) -> HttpResponse:
    """Show the account, its organizations and their projects, or the matches of a search."""
    visible, account = list_member_scopes(request.user), Scope.objects.account()
    sought = request.GET.get("q", "").strip()[:MOST_SEARCH_CHARACTERS]
    content = {
        "account": account,
        "is_member": visible.filter(pk=account.pk).exists(),
        "sought": sought,
        "can_add": can(request.user, CHILD_PERMISSIONS[Scope.Kind.ACCOUNT], account),
        "has_archived": list_restorable_scopes(request.user).exists(),
    }
    if sought:
        name_filter = Q(name__icontains=sought) | Q(identifier__icontains=sought)
        matches = visible.filter(name_filter).exclude(pk=account.pk).select_related("parent")
        page = paginate_queryset(matches, request, order="path", oldest_first=True)
        return render(request, "accounts/scopes/found.html", content | {"page": page})
    organizations = visible.filter(kind=Scope.Kind.ORGANIZATION)
    page = paginate_queryset(organizations, request, order="path", oldest_first=True)
    parent_scopes = list_permitted_scopes(request.user, CHILD_PERMISSIONS[Scope.Kind.ORGANIZATION])
    content |= {
        "page": page,
        "branches": list_organization_projects(page.items, visible),
        "growing": set(
            parent_scopes.filter(pk__in=[organization.pk for organization in page.items]).values_list(
                "pk", flat=True
            )
        ),
    }
    return render(request, "accounts/scopes/list.html", content)


@require_sign_in
@require_safe
def scope(request: PageRequest, pk: int) -> HttpResponse:
    """Show the account, one organization with its projects, or one project."""
    member_scope = get_member_scope_or_404(request, pk)
    children = list_member_scopes(request.user).filter(parent=member_scope)
    rights = get_permissions(request.user, member_scope)
    content = {
        "scope": member_scope,
        "page": paginate_queryset(children, request, order="path", oldest_first=True),
        "can_rename": f"core_{member_scope.resource}_edit" in rights,
        "can_archive": member_scope.parent is not None and f"core_{member_scope.resource}_delete" in rights,
        "can_add": CHILD_PERMISSIONS.get(Scope.Kind(member_scope.kind)) in rights,
        "is_account": member_scope.kind == Scope.Kind.ACCOUNT,
    }
    return render(request, "accounts/scopes/detail.html", content)


@require_sign_in
@require_safe
def archived_scopes(request: PageRequest) -> HttpResponse:
    """List the archived scopes that the user may restore."""
    restorable = list_restorable_scopes(request.user).select_related("parent")
    return render(
        request,
        "accounts/scopes/archived.html",
        {"page": paginate_queryset(restorable, request, order="archived_at")},
    )


@require_sign_in
@require_safe
def scope_choices(request: PageRequest) -> HttpResponse:
    """Render the entries of the scope switcher that match a search, as a fragment."""
    sought = request.GET.get("q", "")
    content = {"choices": list_scope_choices(request.user, sought), "sought": sought}
    return render(request, "parts/_scope_choices.html", content)


def get_member_scope_or_404(request: PageRequest, pk: int) -> Scope:
    """Return a scope of which the user is a member. Raises `NotVisible`."""
    member_scope = list_member_scopes(request.user).select_related("parent").filter(pk=pk).first()
    if member_scope is None:
        raise NotVisible("This scope does not exist, or you cannot view it.")
    return member_scope


def list_scope_parents(scope: Scope) -> list[Breadcrumb]:
    """Return the pages above the page of a scope."""
    above = [Breadcrumb("Organizations and projects", reverse("access-scopes"))]
    if scope.kind == Scope.Kind.PROJECT and scope.parent is not None:
        above.append(Breadcrumb(scope.parent.name, reverse("access-scope", args=[scope.parent.pk])))
    return above


class ScopePage(ResourcePage[Scope]):
    """A page about an organization or project."""

    load = staticmethod(get_member_scope_or_404)
    detail = "access-scope"

    def get_noun(self) -> str:
        return self.object.resource

    def get_parents(self) -> list[Breadcrumb]:
        return list_scope_parents(self.object)


class NewOrganization(CreatePage[Scope]):
    """Create an organization."""

    noun = "organization"
    parents = (("Organizations and projects", "access-scopes"),)
    detail = "access-scope"
    form_class = NewScopeForm
    hint = "Roles in the account also apply here."

    def prepare(self) -> None:
        require(self.request.user, CHILD_PERMISSIONS[Scope.Kind.ACCOUNT], Scope.objects.account())

    def get_form_options(self) -> dict[str, Any]:
        return {}

    def save(self, form: NewScopeForm) -> Scope:
        return operations.create_organization(actor=self.request.user, **form.cleaned_data)


class NewProject(ScopePage, CreateChildPage[Scope]):
    """Create a project in an organization."""

    noun = "project"
    form_class = NewScopeForm

    def check_access(self, resource: Scope) -> None:
        if resource.kind != Scope.Kind.ORGANIZATION:
            raise NotVisible("Create projects in an organization.")
        require(self.request.user, CHILD_PERMISSIONS[Scope.Kind.ORGANIZATION], resource)

    def get_hint(self) -> str:
        return f"Roles in {self.get_name()} and in the account also apply here."

    def get_context(self, form: NewScopeForm) -> dict[str, Any]:
        return {"heading": f"New project in {self.get_name()}"}

    def get_success_url(self, saved: Scope) -> str:
        return reverse("access-scope", args=[saved.pk])

    def save(self, form: NewScopeForm) -> Scope:
        return operations.create_project(
            actor=self.request.user, organization=self.object, **form.cleaned_data
        )


class RenameScope(ScopePage, RenamePage[Scope]):
    """Rename the account, an organization or a project; its identifier does not change."""

    form_class = RenameScopeForm

    def check_access(self, resource: Scope) -> None:
        require(self.request.user, f"core_{resource.resource}_edit", resource)

    def save(self, form: RenameScopeForm) -> Scope:
        return operations.rename_scope(actor=self.request.user, scope=self.object, **form.cleaned_data)


class ArchiveScope(ScopePage, ConfirmPage[Scope]):
    """Archive a scope without work in progress."""

    verb = "Archive"
    done = "{name} archived. You can restore it at any time."

    def check_access(self, resource: Scope) -> None:
        if resource.parent is None:
            raise NotVisible("The account cannot be archived.")
        require(self.request.user, f"core_{resource.resource}_delete", resource)

    @cached_property
    def work(self) -> list[WorkInProgress]:
        """Return the work in progress that blocks archiving."""
        return list_work_in_progress(self.object)

    def get_texts(self) -> list[str]:
        target, contents, owner = self.object, "", "organizations"
        if target.kind == Scope.Kind.ORGANIZATION:
            count = Scope.objects.filter(parent=target, archived_at=None).count()
            contents = f" and in its {count} project{pluralize(count)}"
        elif target.parent is not None:
            owner = f"projects of {target.parent.name}"
        return [
            format_html(
                "Resources in <code>{}</code>{} can no longer be viewed or used. Its pages, API "
                "requests, open connections and delegates are refused.",
                target.path,
                contents,
            ),
            f"Nothing is deleted. Users with the permission to delete {owner} can restore it at any time.",
        ]

    def get_notice(self) -> Notice | None:
        lines = [f"{item.description} in progress. {item.next_step}" for item in self.work]
        return Notice("Work is still in progress", lines) if lines else None

    def get_obstacle(self) -> Obstacle | None:
        url = f"{reverse('executions')}?{urlencode({'scope': self.object.path})}"
        return Obstacle("", "Show executions", url) if self.work else None

    def get_success_url(self) -> str:
        return reverse("access-scopes")

    def perform(self, **values: Any) -> None:
        try:
            operations.archive_scope(actor=self.request.user, scope=self.object)
        except ScopeBusy as error:
            raise Conflict(error.detail) from error


@require_sign_in
@require_POST
def restore_scope(request: PageRequest, pk: int) -> HttpResponse:
    """Restore an archived scope."""
    restorable = list_restorable_scopes(request.user).select_related("parent").filter(pk=pk).first()
    if restorable is None:
        raise NotVisible("This archived scope does not exist, or you cannot view it.")
    try:
        operations.restore_scope(actor=request.user, scope=restorable)
    except ValidationError as error:
        # Somebody else has restored it meanwhile.
        messages.error(request, error.messages[0])
    else:
        messages.success(request, f"{restorable.name} restored with all its resources.")
    return redirect("access-scope", pk=pk)
