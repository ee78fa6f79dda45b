"""Pages of environments: the list, one with its infrastructures, and the forms that write them."""

from typing import Any, Final

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from catalog import operations
from catalog.forms.environments import EnvironmentForm, NewEnvironmentForm
from catalog.forms.resources import DeleteForm
from catalog.forms.variables import VariableRows, variable_rows
from catalog.models import Environment, Service, ServiceOverride
from catalog.pages.changes import compared
from catalog.usage import used_by
from rbac.policy import can_anywhere, permissions_at, require, visible_to
from web.lists import visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import ChangedMeanwhile, Problem

VIEW: Final = "core_environment_view"
EDIT: Final = "core_environment_edit"
DELETE: Final = "core_environment_delete"
# As many services as a page lists beside an environment.
MOST_SERVICES: Final = 100
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


def environment_of(request: PageRequest, pk: int) -> Environment:
    """The environment that is meant. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, Environment.objects.select_related("scope"), pk=pk)


@page
@require_safe
def environments(request: PageRequest) -> HttpResponse:
    """This will list environments and how many places each one holds."""
    found = visible_here(request, VIEW, Environment.objects.select_related("scope"))
    shown = keyset(found.prefetch_related("infrastructures__connector"), request)
    content = {"page": shown, "may_add": can_anywhere(request.user, EDIT)}
    return render(request, "catalog/environments/list.html", content)


@page
@require_safe
def environment(request: PageRequest, pk: int) -> HttpResponse:
    """This will show an environment: its places, its variables, and who deploys to it."""
    found = environment_of(request, pk)
    content = {
        "environment": found,
        "places": found.infrastructures.select_related("connector").order_by("identifier"),
        "overrides": _overrides(request, found),
        "services": services_near(request, found),
        "used_by": used_by(found, request.user),
        "rights": permissions_at(request.user, found),
    }
    return render(request, "catalog/environments/detail.html", content)


@page
@require_http_methods(GET_OR_POST)
def new_environment(request: PageRequest) -> HttpResponse:
    """This will create an environment."""
    form = NewEnvironmentForm(
        posted(request), person=request.user, permission=EDIT, scope=request.current_scope
    )
    rows = variable_rows(posted(request))
    if request.method == "POST" and form.is_valid() & rows.is_valid():
        given = form.cleaned_data
        try:
            made = operations.create_environment(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.spec(rows.variables()),
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(
                request, f"{made.name} is there. Now say where in AWS it is: add an infrastructure."
            )
            return redirect("environment", pk=made.pk)
    return _form_page(request, form, rows)


@page
@require_http_methods(GET_OR_POST)
def edit_environment(request: PageRequest, pk: int) -> HttpResponse:
    """This will save an environment; what somebody else saved meanwhile is shown, not lost."""
    found = environment_of(request, pk)
    require(request.user, EDIT, found)
    if request.method != "POST":
        rows = variable_rows(variables=found.variables)
        return _form_page(request, EnvironmentForm(initial=_values(found)), rows, found)
    form, rows = EnvironmentForm(request.POST), variable_rows(request.POST)
    if not (form.is_valid() & rows.is_valid()):
        return _form_page(request, form, rows, found)
    spec = form.spec(rows.variables())
    try:
        saved = operations.update_environment(
            actor=request.user, environment=found, spec=spec, version=form.cleaned_data["version"] or 0
        )
    except ChangedMeanwhile:
        return _changed_meanwhile(request, form, rows, pk)
    except Problem as problem:
        form.refuse(problem)
        return _form_page(request, form, rows, found)
    messages.success(request, f"{saved.name} is saved.")
    return redirect("environment", pk=pk)


@page
@require_http_methods(GET_OR_POST)
def delete_environment(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask before an environment goes, and name who deploys to it."""
    found = environment_of(request, pk)
    require(request.user, DELETE, found)
    users = used_by(found, request.user)
    form = DeleteForm(posted(request))
    if request.method == "POST" and form.is_agreed(is_used=bool(users)):
        operations.delete_environment(actor=request.user, environment=found, although_used=True)
        messages.success(request, f"{found.name} is deleted. What is deployed there keeps running.")
        return redirect("environments")
    places = found.infrastructures.count()
    content = {"environment": found, "form": form, "used_by": users, "places": places}
    return render(request, "catalog/environments/delete.html", content, status=_status(form))


def _overrides(request: PageRequest, environment: Environment) -> list[ServiceOverride]:
    """What services have of their own here, as far as the reader may see them."""
    seen = visible_to(request.user, "core_service_view", Service.objects.all())
    rows = environment.overrides.filter(service__in=seen).select_related("service", "infrastructure")
    return list(rows.order_by("service__name", "infrastructure__name"))


def services_near(request: PageRequest, environment: Environment) -> QuerySet[Service]:
    """The services that can be deployed to an environment: at its scope, above it, below it."""
    path = environment.scope.path
    near = Q(scope__path__in=environment.scope.ancestor_paths()) | Q(scope__path__startswith=f"{path}/")
    seen = visible_to(request.user, "core_service_view", Service.objects.filter(near))
    return seen.order_by("name", "pk")[:MOST_SERVICES]


def _changed_meanwhile(
    request: PageRequest, form: EnvironmentForm, rows: VariableRows, pk: int
) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    stored = environment_of(request, pk)
    entered = {name: form.cleaned_data[name] for name in ("name", "description", "kind")}
    differs = compared(
        {name: getattr(stored, name) for name in entered} | {"variables": stored.variables},
        entered | {"variables": rows.variables()},
    )
    again = EnvironmentForm(initial=entered | {"version": stored.version})
    rows = variable_rows(variables=rows.variables())
    return _form_page(request, again, rows, stored, diff=differs, status=409)


def _values(found: Environment) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("name", "description", "kind", "version")}


def _form_page(
    request: PageRequest,
    form: EnvironmentForm,
    rows: VariableRows,
    environment: Environment | None = None,
    **more: Any,
) -> HttpResponse:
    content = {"form": form, "variables": rows, "environment": environment}
    status = more.pop("status", _status(form, rows))
    return render(request, "catalog/environments/edit.html", content | more, status=status)


def _status(*forms: Any) -> int:
    return 400 if any(form.is_bound and not form.is_valid() for form in forms) else 200
