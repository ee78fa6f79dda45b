"""Pages that make, rename, archive and bring back organizations and projects."""

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_POST

from accounts.forms.scopes import NewScopeForm, RenameScopeForm
from accounts.pages.scopes import INSIDE, member_scope
from rbac import operations
from rbac.archived import restorable
from rbac.busy import ScopeBusy, work_in
from rbac.models import Scope
from rbac.policy import NotVisible, require
from web.page_forms import posted
from web.pages import PageRequest, page

GET_OR_POST = ["GET", "HEAD", "POST"]


@page
@require_http_methods(GET_OR_POST)
def new_organization(request: PageRequest) -> HttpResponse:
    """This will make an organization."""
    return _new(request, Scope.objects.account())


@page
@require_http_methods(GET_OR_POST)
def new_project(request: PageRequest, pk: int) -> HttpResponse:
    """This will make a project in an organization."""
    organization = member_scope(request, pk)
    if organization.kind != Scope.Kind.ORGANIZATION:
        raise NotVisible("Projects are made in organizations.")
    return _new(request, organization)


@page
@require_http_methods(GET_OR_POST)
def rename_scope(request: PageRequest, pk: int) -> HttpResponse:
    """This will give a scope another name; its identifier stays."""
    found = member_scope(request, pk)
    require(request.user, f"core_{found.resource}_edit", found)
    form = RenameScopeForm(posted(request), initial={"name": found.name})
    if request.method == "POST" and form.is_valid():
        try:
            operations.rename_scope(actor=request.user, scope=found, name=form.cleaned_data["name"])
        except ValidationError as error:
            form.refuse(error)
            found.refresh_from_db(fields=["name"])
        else:
            return redirect("access-scope", pk=pk)
    content = {"form": form, "scope": found}
    return render(request, "accounts/scopes/rename.html", content, status=form.http_status)


@page
@require_http_methods(GET_OR_POST)
def archive_scope(request: PageRequest, pk: int) -> HttpResponse:
    """This will put a scope away in which nothing is under way."""
    found = member_scope(request, pk)
    if found.parent is None:
        raise NotVisible("The account is never archived.")
    require(request.user, f"core_{found.resource}_delete", found)
    refusal = ""
    if request.method == "POST":
        try:
            operations.archive_scope(actor=request.user, scope=found)
        except (ScopeBusy, ValidationError) as error:
            refusal = " ".join(getattr(error, "messages", [str(error)]))
        else:
            messages.success(request, f"{found.name} is archived. It can be brought back at any time.")
            return redirect("access-scopes")
    content = {
        "scope": found,
        "refusal": refusal,
        "work": work_in(found),
        "projects": Scope.objects.filter(parent=found, archived_at=None).count(),
    }
    return render(request, "accounts/scopes/archive.html", content, status=409 if refusal else 200)


@page
@require_POST
def restore_scope(request: PageRequest, pk: int) -> HttpResponse:
    """This will bring an archived scope back."""
    found = restorable(request.user).select_related("parent").filter(pk=pk).first()
    if found is None:
        raise NotVisible("Nothing like this is archived.")
    operations.restore_scope(actor=request.user, scope=found)
    messages.success(request, f"{found.name} is back, with everything in it.")
    return redirect("access-scope", pk=pk)


def _new(request: PageRequest, parent: Scope) -> HttpResponse:
    require(request.user, INSIDE[Scope.Kind(parent.kind)], parent)
    form = NewScopeForm(posted(request))
    if request.method == "POST" and form.is_valid():
        try:
            made = _make(request, parent, form)
        except ValidationError as error:
            form.refuse(error)
        else:
            return redirect("access-scope", pk=made.pk)
    content = {"form": form, "parent": parent, "is_project": parent.kind == Scope.Kind.ORGANIZATION}
    return render(request, "accounts/scopes/new.html", content, status=form.http_status)


def _make(request: PageRequest, parent: Scope, form: NewScopeForm) -> Scope:
    given = {"identifier": form.cleaned_data["identifier"], "name": form.cleaned_data["name"]}
    if parent.kind == Scope.Kind.ORGANIZATION:
        return operations.create_project(actor=request.user, organization=parent, **given)
    return operations.create_organization(actor=request.user, **given)
