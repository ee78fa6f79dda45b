"""Page of a service in an environment: effective values and the override form."""

from typing import Any, Final

from django import forms
from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_POST

from catalog import operations
from catalog.forms.manifests import (
    NEW_CONNECTOR,
    ManifestFormSet,
    OverrideManifestForm,
    build_override_formset,
    get_manifest_resource,
    parse_stored_manifests,
)
from catalog.forms.variables import VariableFormSet, build_variable_formset
from catalog.manifests.kinds import MANIFEST_KINDS
from catalog.models import Infrastructure, Service
from catalog.overrides.effective_manifests import BlockingProblem, get_file_scope
from catalog.overrides.override_sets import ServiceOverrideSet, load_override_set
from catalog.overrides.variables import ENVIRONMENT, INFRASTRUCTURE, OVERRIDE, SERVICE, resolve_variables
from catalog.pages.environments import EDIT, get_environment
from catalog.pages.environments import VIEW as VIEW_ENVIRONMENT
from catalog.pages.services import VIEW as VIEW_SERVICE
from catalog.pages.services import list_file_references, list_store_connectors
from connectors.file_kinds import FileCheck, FileProblem
from rbac.policy import can, require
from web.forms.draft_pages import leave_form, list_creatable, open_draft, report_draft
from web.forms.drafts import CREATE_NAME, DRAFT_PARAMETER, delete_draft
from web.forms.lost_input import show_lost_input
from web.forms.page_forms import PageForm, get_posted_data
from web.forms.pages import PageRequest, get_visible, require_get_or_post, require_sign_in
from web.http.problems import Problem, VersionConflict
from web.text_diffs import diff_values

WINNER_REASONS: Final = {
    SERVICE: "Service default, not overridden.",
    ENVIRONMENT: "Environment value, overrides the service.",
    OVERRIDE: "Override of this service in this environment.",
    INFRASTRUCTURE: "Override of this service in this infrastructure.",
}


class OverrideVersionForm(PageForm):
    """The version of the overrides being edited; 0 if there are none yet."""

    version = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput)


def get_override_set(
    request: PageRequest, pk: int, service: int, infrastructure: int | None
) -> ServiceOverrideSet:
    """Return the overrides of a service and an environment or infrastructure. Raises `NotVisible` (404)."""
    environment = get_environment(request, pk)
    visible_service = get_visible(request, VIEW_SERVICE, Service.objects.select_related("scope"), pk=service)
    if infrastructure is None:
        return load_override_set(visible_service, environment)
    rows = Infrastructure.objects.select_related("environment__scope")
    place = get_visible(request, VIEW_ENVIRONMENT, rows, pk=infrastructure, environment_id=pk)
    return load_override_set(visible_service, environment, place)


def build_override_url(
    override_set: ServiceOverrideSet, *, name: str, infrastructure: Infrastructure | None
) -> str:
    """Return the address of a page about this service in the environment, or in an infrastructure of it."""
    arguments = {"pk": override_set.environment.pk, "service": override_set.service.pk}
    if infrastructure is None:
        return reverse(f"{name}-in-environment", kwargs=arguments)
    return reverse(f"{name}-in-infrastructure", kwargs=arguments | {"infrastructure": infrastructure.pk})


def list_override_links(override_set: ServiceOverrideSet, name: str) -> list[dict[str, Any]]:
    """Return the links to the same page of the environment and of each infrastructure."""
    places = [None, *override_set.environment.infrastructures.order_by("identifier")]
    return [
        {
            "name": place.name if place else "All infrastructures",
            "address": build_override_url(override_set, name=name, infrastructure=place),
            "is_here": place == override_set.infrastructure,
        }
        for place in places
    ]


@require_sign_in
@require_get_or_post
@show_lost_input
def edit_override(
    request: PageRequest, pk: int, service: int, infrastructure: int | None = None
) -> HttpResponse:
    """Show the effective values of a service in an environment or infrastructure, and save overrides."""
    override_set = get_override_set(request, pk, service, infrastructure)
    if request.method != "POST":
        draft = open_draft(request)
        if draft is None:
            return _render_editor(request, override_set, _get_stored_spec(override_set))
        report_draft(request, draft)
        return _render_page(request, override_set, *_build_forms(request))
    require(request.user, EDIT, override_set.environment)
    if CREATE_NAME in request.POST:
        field = request.POST[CREATE_NAME]
        resource = get_manifest_resource(request.POST, field)
        return leave_form(request, field, resource, scope=get_file_scope(override_set))
    form, variables, manifests = _build_forms(request)
    # Validate all of them, so that all errors appear at once.
    if not (form.is_valid() & variables.is_valid() & manifests.is_valid()):
        return _render_page(request, override_set, form, variables, manifests, status=400)
    spec = operations.OverrideSpec(variables.variables(), manifests.build_specs())
    try:
        operations.override_service(
            actor=request.user,
            environment=override_set.environment,
            service=override_set.service,
            infrastructure=override_set.infrastructure,
            spec=spec,
            version=-1 if (version := form.cleaned_data["version"]) is None else version,
        )
    except VersionConflict:
        current = get_override_set(request, pk, service, infrastructure)
        differs = diff_values(_serialize_spec(_get_stored_spec(current)), _serialize_spec(spec))
        return _render_editor(request, current, spec, diff=differs, status=409)
    except Problem as problem:
        form.add_problem(problem)
        return _render_page(request, override_set, form, variables, manifests, status=400)
    delete_draft(request.user, request.GET.get(DRAFT_PARAMETER, ""))
    messages.success(request, f"Override of {override_set.service.name} in {override_set.target_name} saved.")
    return redirect(
        build_override_url(override_set, name="service", infrastructure=override_set.infrastructure)
    )


@require_sign_in
@require_POST
def check_override(
    request: PageRequest, pk: int, service: int, infrastructure: int | None = None
) -> HttpResponse:
    """Return the problems of an edited override for the editor."""
    override_set = get_override_set(request, pk, service, infrastructure)
    row = OverrideManifestForm(request.POST, prefix=request.GET.get("row", "manifests-0"))
    if not row.is_valid() and (errors := row.errors.get("content")):
        return JsonResponse(FileCheck((FileProblem(str(errors[0]), 1, 1),)).to_json())
    if not row.is_valid() or row.cleaned_data["kind"] not in MANIFEST_KINDS:
        raise Problem("Choose the manifest type first.")
    if not row.is_filled:
        return JsonResponse(FileCheck(note="The manifest is empty.").to_json())
    spec = row.build_spec("override")
    faults = operations.list_override_problems(
        request.user, override_set, operations.OverrideSpec({}, [spec])
    )
    own = f"{spec.identifier} of the {override_set.level}"
    note = "Valid together with the manifest it overrides."
    return JsonResponse(
        FileCheck(tuple(_build_file_problem(fault, own) for fault in faults), note=note).to_json()
    )


def _build_file_problem(fault: BlockingProblem, own: str) -> FileProblem:
    """Return a problem at its line if it is in the edited text."""
    problem = fault.problem
    if problem is None or problem.file != own:
        return FileProblem(fault.text)
    message = f"{problem.message[:1].upper()}{problem.message[1:]}"
    return FileProblem(message, problem.line, problem.column, problem.path)


def _build_forms(request: PageRequest) -> tuple[OverrideVersionForm, VariableFormSet, ManifestFormSet]:
    """Return the forms with the posted values, or with those of a draft."""
    data = get_posted_data(request)
    return OverrideVersionForm(data), build_variable_formset(data), build_override_formset(data)


def _get_stored_spec(override_set: ServiceOverrideSet) -> operations.OverrideSpec:
    stored = override_set.current_override
    if stored is None:
        return operations.OverrideSpec()
    return operations.OverrideSpec(stored.variables, parse_stored_manifests(stored.manifests))


def _serialize_spec(spec: operations.OverrideSpec) -> dict[str, Any]:
    return {"variables": dict(spec.variables), "manifests": spec.rows}


def _render_editor(
    request: PageRequest, override_set: ServiceOverrideSet, spec: operations.OverrideSpec, **more: Any
) -> HttpResponse:
    form = OverrideVersionForm(
        initial={"version": override_set.current_override.version if override_set.current_override else 0}
    )
    variables = build_variable_formset(variables=spec.variables)
    return _render_page(
        request, override_set, form, variables, build_override_formset(manifests=spec.manifests), **more
    )


def _render_page(
    request: PageRequest,
    override_set: ServiceOverrideSet,
    form: OverrideVersionForm,
    variables: VariableFormSet,
    manifests: ManifestFormSet,
    **more: Any,
) -> HttpResponse:
    levels, file_scope = override_set.levels, get_file_scope(override_set)
    content = {
        "new_nouns": list_creatable(request.user, [NEW_CONNECTOR], file_scope),
        "override_set": override_set,
        "environment": override_set.environment,
        "service": override_set.service,
        "form": form,
        "variables": variables,
        "manifests": manifests,
        "levels": levels,
        "resolved": [
            (variable, WINNER_REASONS[variable.winner.kind] if variable.winner else "")
            for variable in resolve_variables(levels, override_set.service.required_variables)
        ],
        "places": list_override_links(override_set, "service"),
        "merged": build_override_url(
            override_set, name="manifests", infrastructure=override_set.infrastructure
        ),
        "check": build_override_url(
            override_set, name="check-override", infrastructure=override_set.infrastructure
        )
        + "?",
        "of_service": f"&service={override_set.service.pk}",
        "files": list_file_references(request, file_scope),
        "connectors": list_store_connectors(request, file_scope),
        "may_edit": can(request.user, EDIT, override_set.environment),
    }
    status = more.pop("status", 200)
    return render(request, "catalog/environments/service.html", content | more, status=status)
