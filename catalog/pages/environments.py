"""Pages of environments: list, detail and forms."""

from typing import Any, Final

from django.contrib import messages
from django.db.models import Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from catalog import operations
from catalog.forms.environments import EnvironmentForm, NewEnvironmentForm
from catalog.forms.variables import VariableFormSet, build_variable_formset
from catalog.models import Environment, Service, ServiceOverride
from catalog.pages.delete_pages import DeleteUsedPage
from catalog.pages.edit_conflicts import diff_values
from catalog.usages import find_pipeline_usage
from rbac.policy import can_anywhere, filter_visible, get_permissions, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem, VersionConflict

VIEW: Final = "core_environment_view"
EDIT: Final = "core_environment_edit"
DELETE: Final = "core_environment_delete"
# As many services as a page lists beside an environment.
MOST_SERVICES: Final = 100
GET_OR_POST: Final = ["GET", "HEAD", "POST"]


def get_environment(request: PageRequest, pk: int) -> Environment:
    """Return the environment that is meant. Raises `NotVisible` (404)."""
    return get_visible(request, VIEW, Environment.objects.select_related("scope"), pk=pk)


@require_sign_in
@require_safe
def list_environments(request: PageRequest) -> HttpResponse:
    """List environments and how many places each one holds."""
    found = list_visible(request, VIEW, Environment.objects.select_related("scope"))
    shown = paginate_queryset(found.prefetch_related("infrastructures__connector"), request)
    content = {"page": shown, "may_add": can_anywhere(request.user, EDIT)}
    return render(request, "catalog/environments/list.html", content)


@require_sign_in
@require_safe
def show_environment(request: PageRequest, pk: int) -> HttpResponse:
    """Show an environment: its places, its variables, and who deploys to it."""
    found = get_environment(request, pk)
    content = {
        "environment": found,
        "places": found.infrastructures.select_related("connector").order_by("identifier"),
        "overrides": _list_overrides(request, found),
        "services": list_deployable_services(request, found),
        "used_by": find_pipeline_usage(found, request.user),
        "rights": get_permissions(request.user, found),
    }
    return render(request, "catalog/environments/detail.html", content)


@require_sign_in
@require_http_methods(GET_OR_POST)
def new_environment(request: PageRequest) -> HttpResponse:
    """Create an environment."""
    form = NewEnvironmentForm(
        get_posted_data(request), person=request.user, permission=EDIT, scope=request.current_scope
    )
    rows = build_variable_formset(get_posted_data(request))
    if request.method == "POST" and form.is_valid() & rows.is_valid():
        given = form.cleaned_data
        try:
            made = operations.create_environment(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.build_spec(rows.variables()),
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{made.name} is created. Next, add an infrastructure.")
            return redirect("environment", pk=made.pk)
    return _render_form(request, form, rows)


@require_sign_in
@require_http_methods(GET_OR_POST)
def edit_environment(request: PageRequest, pk: int) -> HttpResponse:
    """Save an environment; what somebody else saved meanwhile is shown, not lost."""
    found = get_environment(request, pk)
    require(request.user, EDIT, found)
    if request.method != "POST":
        rows = build_variable_formset(variables=found.variables)
        return _render_form(request, EnvironmentForm(initial=_build_initial_values(found)), rows, found)
    form, rows = EnvironmentForm(request.POST), build_variable_formset(request.POST)
    if not (form.is_valid() & rows.is_valid()):
        return _render_form(request, form, rows, found)
    spec = form.build_spec(rows.variables())
    try:
        saved = operations.update_environment(
            actor=request.user, environment=found, spec=spec, version=form.cleaned_data["version"] or 0
        )
    except VersionConflict:
        return _render_conflict(request, form, rows, pk)
    except Problem as problem:
        form.add_problem(problem)
        return _render_form(request, form, rows, found)
    messages.success(request, f"{saved.name} is saved.")
    return redirect("environment", pk=pk)


class EnvironmentPage(ResourcePage[Environment]):
    """A page about an environment."""

    load = staticmethod(get_environment)
    noun = "environment"
    parents = (("Environments", "environments"),)
    detail = "environment"


class DeleteEnvironment(EnvironmentPage, DeleteUsedPage[Environment]):
    """Delete an environment, after naming the pipelines that deploy to it."""

    permission = DELETE
    text = (
        "The environment is deleted with its variables and infrastructures. What is deployed there keeps "
        "running in AWS, and the execution history stays."
    )
    done = "{name} is deleted. What is deployed there keeps running."

    def perform(self, **given: Any) -> None:
        operations.delete_environment(actor=self.request.user, environment=self.object, **given)


def _list_overrides(request: PageRequest, environment: Environment) -> list[ServiceOverride]:
    """What services have of their own here, as far as the reader may see them."""
    seen = filter_visible(request.user, "core_service_view", Service.objects.all())
    rows = environment.overrides.filter(service__in=seen).select_related("service", "infrastructure")
    return list(rows.order_by("service__name", "infrastructure__name"))


def list_deployable_services(request: PageRequest, environment: Environment) -> QuerySet[Service]:
    """Return the services that can be deployed to an environment: at its scope, above it, below it."""
    path = environment.scope.path
    near = Q(scope__path__in=environment.scope.ancestor_paths()) | Q(scope__path__startswith=f"{path}/")
    seen = filter_visible(request.user, "core_service_view", Service.objects.filter(near))
    return seen.order_by("name", "pk")[:MOST_SERVICES]


def _render_conflict(
    request: PageRequest, form: EnvironmentForm, rows: VariableFormSet, pk: int
) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    stored = get_environment(request, pk)
    entered = {name: form.cleaned_data[name] for name in ("name", "description", "kind")}
    differs = diff_values(
        {name: getattr(stored, name) for name in entered} | {"variables": stored.variables},
        entered | {"variables": rows.variables()},
    )
    again = EnvironmentForm(initial=entered | {"version": stored.version})
    rows = build_variable_formset(variables=rows.variables())
    return _render_form(request, again, rows, stored, diff=differs, status=409)


def _build_initial_values(found: Environment) -> dict[str, Any]:
    return {name: getattr(found, name) for name in ("name", "description", "kind", "version")}


def _render_form(
    request: PageRequest,
    form: EnvironmentForm,
    rows: VariableFormSet,
    environment: Environment | None = None,
    **more: Any,
) -> HttpResponse:
    content = {"form": form, "variables": rows, "environment": environment}
    status = more.pop("status", _get_form_status(form, rows))
    return render(request, "catalog/environments/edit.html", content | more, status=status)


def _get_form_status(*forms: Any) -> int:
    return 400 if any(form.is_bound and not form.is_valid() for form in forms) else 200
