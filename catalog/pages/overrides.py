"""The page of a service in a place: what counts there and why, and what is overridden there alone."""

from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST

from catalog import operations
from catalog.effective.manifests import Fault, scope_of
from catalog.effective.resolution import Overridden, overridden
from catalog.effective.variables import ENVIRONMENT, INFRASTRUCTURE, OVERRIDE, SERVICE, resolved
from catalog.forms.manifests import ManifestRows, OverridingManifestForm, overriding_rows, specs_of
from catalog.forms.resources import OverrideForm
from catalog.forms.variables import VariableRows, variable_rows
from catalog.manifests.kinds import KINDS
from catalog.models import Infrastructure, Service
from catalog.pages.changes import compared
from catalog.pages.environments import EDIT, GET_OR_POST, environment_of
from catalog.pages.environments import VIEW as VIEW_ENVIRONMENT
from catalog.pages.services import VIEW as VIEW_SERVICE
from catalog.pages.services import files_for, store_connectors_for
from connectors.file_checks import FileCheck, FileProblem
from rbac.policy import can, require
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.problems import ChangedMeanwhile, Problem

WHY: Final = {
    SERVICE: "The service's own: nothing else says otherwise.",
    ENVIRONMENT: "The environment overrides what services bring.",
    OVERRIDE: "An override for just this service in this environment wins over those.",
    INFRASTRUCTURE: "An override for just this service in this infrastructure wins over everything.",
}


def there_of(request: PageRequest, pk: int, service: int, infrastructure: int | None) -> Overridden:
    """The service and the place that an address means. Raises `NotVisible` (404)."""
    environment = environment_of(request, pk)
    found = get_visible(request, VIEW_SERVICE, Service.objects.select_related("scope"), pk=service)
    if infrastructure is None:
        return overridden(found, environment)
    rows = Infrastructure.objects.select_related("environment__scope")
    place = get_visible(request, VIEW_ENVIRONMENT, rows, pk=infrastructure, environment_id=pk)
    return overridden(found, environment, place)


def address_of(there: Overridden, *, name: str, infrastructure: Infrastructure | None) -> str:
    """The address of a page about this service in the environment, or in an infrastructure of it."""
    arguments = {"pk": there.environment.pk, "service": there.service.pk}
    if infrastructure is None:
        return reverse(f"{name}-in-environment", kwargs=arguments)
    return reverse(f"{name}-in-infrastructure", kwargs=arguments | {"infrastructure": infrastructure.pk})


def places_of(there: Overridden, name: str) -> list[dict[str, Any]]:
    """The same page about the whole environment and about each infrastructure of it."""
    places = [None, *there.environment.infrastructures.order_by("identifier")]
    return [
        {
            "name": place.name if place else "The whole environment",
            "address": address_of(there, name=name, infrastructure=place),
            "is_here": place == there.infrastructure,
        }
        for place in places
    ]


@page
@require_http_methods(GET_OR_POST)
def override(request: PageRequest, pk: int, service: int, infrastructure: int | None = None) -> HttpResponse:
    """This will show what counts for a service in a place, and save overrides."""
    there = there_of(request, pk, service, infrastructure)
    if request.method != "POST":
        return _editing(request, there, _stored(there))
    require(request.user, EDIT, there.environment)
    form = OverrideForm(posted(request))
    variables, manifests = variable_rows(posted(request)), overriding_rows(posted(request))
    # Each is asked, so that all mistakes are shown at once.
    if not (form.is_valid() & variables.is_valid() & manifests.is_valid()):
        return _page(request, there, form, variables, manifests, status=400)
    spec = operations.OverrideSpec(variables.variables(), manifests.specs())
    try:
        operations.override_service(
            actor=request.user,
            environment=there.environment,
            service=there.service,
            infrastructure=there.infrastructure,
            spec=spec,
            version=-1 if (version := form.cleaned_data["version"]) is None else version,
        )
    except ChangedMeanwhile:
        again = there_of(request, pk, service, infrastructure)
        differs = compared(_plain(_stored(again)), _plain(spec))
        return _editing(request, again, spec, diff=differs, status=409)
    except Problem as problem:
        form.refuse(problem)
        return _page(request, there, form, variables, manifests, status=400)
    messages.success(request, f"What {there.service.name} has in {there.place_name} is saved.")
    return redirect(address_of(there, name="service", infrastructure=there.infrastructure))


@page
@require_POST
def check_override(
    request: PageRequest, pk: int, service: int, infrastructure: int | None = None
) -> HttpResponse:
    """This will say what is wrong with an override that is being written; the editor asks."""
    there = there_of(request, pk, service, infrastructure)
    row = OverridingManifestForm(request.POST, prefix=request.GET.get("row", "manifests-0"))
    if not row.is_valid() and (said := row.errors.get("content")):
        return JsonResponse(FileCheck((FileProblem(str(said[0]), 1, 1),)).to_json())
    if not row.is_valid() or row.cleaned_data["kind"] not in KINDS:
        raise Problem("Choose the kind of the manifest first.")
    if not row.is_filled:
        return JsonResponse(FileCheck(note="Nothing is written yet.").to_json())
    spec = row.spec("override")
    faults = operations.faults_because_of(request.user, there, operations.OverrideSpec({}, [spec]))
    own = f"{spec.identifier} of the {there.level}"
    note = "Checked together with what it overrides."
    return JsonResponse(FileCheck(tuple(_placed(one, own) for one in faults), note=note).to_json())


def _placed(fault: Fault, own: str) -> FileProblem:
    """A fault at its line, if it is in the text that is being written."""
    problem = fault.problem
    if problem is None or problem.file != own:
        return FileProblem(fault.text)
    message = f"{problem.message[:1].upper()}{problem.message[1:]}"
    return FileProblem(message, problem.line, problem.column, problem.path)


def _stored(there: Overridden) -> operations.OverrideSpec:
    stored = there.strongest
    if stored is None:
        return operations.OverrideSpec()
    return operations.OverrideSpec(stored.variables, specs_of(stored.manifests))


def _plain(spec: operations.OverrideSpec) -> dict[str, Any]:
    return {"variables": dict(spec.variables), "manifests": spec.rows}


def _editing(
    request: PageRequest, there: Overridden, spec: operations.OverrideSpec, **more: Any
) -> HttpResponse:
    form = OverrideForm(initial={"version": there.strongest.version if there.strongest else 0})
    variables = variable_rows(variables=spec.variables)
    return _page(request, there, form, variables, overriding_rows(manifests=spec.manifests), **more)


def _page(
    request: PageRequest,
    there: Overridden,
    form: OverrideForm,
    variables: VariableRows,
    manifests: ManifestRows,
    **more: Any,
) -> HttpResponse:
    levels = there.levels
    content = {
        "there": there,
        "environment": there.environment,
        "service": there.service,
        "form": form,
        "variables": variables,
        "manifests": manifests,
        "levels": levels,
        "resolved": [
            (one, WHY[one.winner.kind] if one.winner else "")
            for one in resolved(levels, there.service.required_variables)
        ],
        "places": places_of(there, "service"),
        "merged": address_of(there, name="manifests", infrastructure=there.infrastructure),
        "check": address_of(there, name="check-override", infrastructure=there.infrastructure) + "?",
        "of_service": f"&service={there.service.pk}",
        "files": files_for(request, scope_of(there)),
        "connectors": store_connectors_for(request, scope_of(there)),
        "may_edit": can(request.user, EDIT, there.environment),
    }
    status = more.pop("status", 200)
    return render(request, "catalog/environments/service.html", content | more, status=status)
