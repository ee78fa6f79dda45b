"""The page of a service in an environment: which value each variable has there and why, and the overrides."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods

from deployments import catalog
from deployments.forms.resources import OverrideForm
from deployments.forms.variables import VariableRows, variable_rows
from deployments.models import Environment, Service, ServiceOverride
from deployments.variables import ENVIRONMENT, OVERRIDE, SERVICE, levels_of, resolved
from deployments.views.changes import compared
from deployments.views.environments import EDIT, GET_OR_POST, environment_of
from deployments.views.services import VIEW as VIEW_SERVICE
from rbac.policy import can, require
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.problems import ChangedMeanwhile, Problem

WHY: Final = {
    SERVICE: "The service's own: neither the environment nor an override says otherwise.",
    ENVIRONMENT: "The environment overrides what services bring.",
    OVERRIDE: "An override for just this service here wins over everything.",
}


@page
@require_http_methods(GET_OR_POST)
def service_in_environment(request: PageRequest, pk: int, service: int) -> HttpResponse:
    """This will show which values count for a service in an environment, and save overrides."""
    environment = environment_of(request, pk)
    found = get_visible(request, VIEW_SERVICE, Service.objects.select_related("scope"), pk=service)
    stored = ServiceOverride.objects.filter(
        environment=environment, service=found, infrastructure=None
    ).first()
    if request.method != "POST":
        form = OverrideForm(initial={"version": stored.version if stored else 0})
        rows = variable_rows(variables=stored.variables if stored else {})
        return _page(request, environment, found, stored, form=form, variables=rows)
    require(request.user, EDIT, environment)
    form, rows = OverrideForm(posted(request)), variable_rows(posted(request))
    if not (form.is_valid() & rows.is_valid()):
        return _page(request, environment, found, stored, form=form, variables=rows, status=400)
    try:
        catalog.override_service(
            actor=request.user,
            environment=environment,
            service=found,
            spec=catalog.OverrideSpec(rows.variables()),
            version=-1 if (version := form.cleaned_data["version"]) is None else version,
        )
    except ChangedMeanwhile:
        return _changed_meanwhile(request, environment, found, rows)
    except Problem as problem:
        form.refuse(problem)
        return _page(request, environment, found, stored, form=form, variables=rows, status=400)
    messages.success(request, f"What {found.name} has in {environment.name} is saved.")
    return redirect("service-in-environment", pk=pk, service=service)


def _changed_meanwhile(
    request: PageRequest, environment: Environment, service: Service, rows: VariableRows
) -> HttpResponse:
    """Show what was entered over what was saved meanwhile; the next save means to replace that."""
    stored = ServiceOverride.objects.filter(
        environment=environment, service=service, infrastructure=None
    ).first()
    differs = compared(dict(stored.variables) if stored else {}, dict(rows.variables()))
    form = OverrideForm(initial={"version": stored.version if stored else 0})
    again = variable_rows(variables=rows.variables())
    return _page(request, environment, service, stored, form=form, variables=again, diff=differs, status=409)


def _page(
    request: PageRequest,
    environment: Environment,
    service: Service,
    stored: ServiceOverride | None,
    **more: Any,
) -> HttpResponse:
    levels = levels_of(service, environment, stored.variables if stored else {})
    content = {
        "environment": environment,
        "service": service,
        "levels": levels,
        "resolved": [
            (one, WHY[one.winner.kind] if one.winner else "")
            for one in resolved(levels, service.required_variables)
        ],
        "may_edit": can(request.user, EDIT, environment),
    }
    status = more.pop("status", 200)
    return render(request, "deployments/environments/service.html", content | more, status=status)
