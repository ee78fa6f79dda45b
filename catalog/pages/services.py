"""Pages of services: list and forms, with the manifest editor's requests."""

from dataclasses import asdict
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from aws.validation.rules.common import NAME_PATTERN
from catalog import operations
from catalog.forms.manifests import ManifestFormSet, build_manifest_formset
from catalog.forms.sample_manifests import SAMPLE_MANIFESTS, build_default_manifests
from catalog.forms.services import SOURCE_FIELDS, NewServiceForm, ServiceForm, build_service_spec
from catalog.forms.variables import VariableFormSet, build_variable_formset
from catalog.manifests.kinds import MANIFEST_KINDS
from catalog.manifests.manifest_files import (
    build_manifest_guide,
    check_manifest_text,
    clean_manifest_text,
    get_ecs_service_name,
)
from catalog.models import Manifest, Service
from catalog.pages.delete_pages import DeleteUsedPage
from catalog.pages.edit_conflicts import diff_values
from catalog.pages.image_tags import build_tag_list_url
from connectors.file_store import build_reference
from connectors.models import Connector, FileNode
from connectors.queries import list_connectors
from rbac.models import Scope
from rbac.policy import NotVisible, can_anywhere, filter_visible, require
from web.forms.page_forms import get_posted_data
from web.forms.pages import PageRequest, get_visible, list_visible, require_sign_in
from web.forms.resource_pages import ResourcePage
from web.http.pagination import paginate_queryset
from web.http.problems import Problem, VersionConflict

VIEW: Final = "core_service_view"
EDIT: Final = "core_service_edit"
DELETE: Final = "core_service_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
# As many files as a list of suggestions is good for.
MOST_SUGGESTIONS: Final = 200


def get_service(request: PageRequest, pk: int) -> Service:
    """Return the service that is meant. Raises `NotVisible` (404)."""
    rows = Service.objects.select_related("scope", "artifact").prefetch_related("manifests")
    return get_visible(request, VIEW, rows, pk=pk)


@require_sign_in
@require_safe
def list_services(request: PageRequest) -> HttpResponse:
    """List services."""
    found = list_visible(request, VIEW, Service.objects.select_related("scope", "artifact"))
    shown = paginate_queryset(found.prefetch_related("manifests"), request)
    content = {"page": shown, "may_add": can_anywhere(request.user, EDIT)}
    return render(request, "catalog/services/list.html", content)


@require_sign_in
@require_http_methods(GET_OR_POST)
def new_service(request: PageRequest) -> HttpResponse:
    """Create a service; it begins with two manifests that only need names."""
    form = NewServiceForm(
        get_posted_data(request), person=request.user, permission=EDIT, scope=request.current_scope
    )
    manifests, variables = (
        build_manifest_formset(get_posted_data(request), build_default_manifests()),
        build_variable_formset(get_posted_data(request)),
    )
    if request.method == "POST" and _is_valid(form, manifests, variables):
        given = form.cleaned_data
        try:
            made = operations.create_service(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.build_spec(manifests.build_specs(), variables),
            )
        except Problem as problem:
            form.add_problem(problem)
        else:
            messages.success(request, f"{made.name} is created.")
            return redirect("service", pk=made.pk)
    return _render_form(request, form, manifests, variables)


@require_sign_in
@require_http_methods(GET_OR_POST)
def edit_service(request: PageRequest, pk: int) -> HttpResponse:
    """Save a service; what somebody else saved meanwhile is shown, not lost."""
    found = get_service(request, pk)
    require(request.user, EDIT, found)
    if request.method != "POST":
        return _render_editor(request, found, build_service_spec(found))
    form = ServiceForm(request.POST)
    manifests, variables = build_manifest_formset(request.POST), build_variable_formset(request.POST)
    if not _is_valid(form, manifests, variables):
        return _render_form(request, form, manifests, variables, found)
    spec = form.build_spec(manifests.build_specs(), variables)
    try:
        saved = operations.update_service(
            actor=request.user, service=found, spec=spec, version=form.cleaned_data["version"] or 0
        )
    except VersionConflict:
        stored = get_service(request, pk)
        differs = diff_values(_serialize_spec(build_service_spec(stored)), _serialize_spec(spec))
        return _render_editor(request, stored, spec, diff=differs, status=409)
    except Problem as problem:
        form.add_problem(problem)
        return _render_form(request, form, manifests, variables, found)
    messages.success(request, f"{saved.name} is saved.")
    return redirect("service", pk=pk)


class ServicePage(ResourcePage[Service]):
    """A page about a service."""

    load = staticmethod(get_service)
    noun = "service"
    parents = (("Services", "services"),)
    detail = "service"


class DeleteService(ServicePage, DeleteUsedPage[Service]):
    """Delete a service, after naming the pipelines that deploy it."""

    permission = DELETE
    text = (
        "The service is deleted with its manifests and variables. What is deployed keeps running in AWS, and "
        "the execution history stays."
    )
    done = "{name} is deleted. What is deployed keeps running."

    def perform(self, **given: Any) -> None:
        operations.delete_service(actor=self.request.user, service=self.object, **given)


@require_sign_in
@require_POST
def check_manifest(request: PageRequest) -> HttpResponse:
    """Say what is wrong with a manifest that is being written; the editor asks."""
    return JsonResponse(check_manifest_text(*_parse_manifest_row(request)).to_json())


@require_sign_in
@require_POST
def clean_up_manifest(request: PageRequest) -> HttpResponse:
    """Answer a manifest that is being written as AWS takes it, with what changes; the editor asks."""
    pk, name = request.GET.get("service", ""), request.POST.get("name", "").strip()
    if pk.isascii() and pk.isdigit():
        name = get_ecs_service_name(get_service(request, int(pk)))
    elif not NAME_PATTERN.match(name):
        name = request.POST.get("identifier", "").strip()
    kind, text = _parse_manifest_row(request)
    return JsonResponse(clean_manifest_text(kind, text, name).to_json())


def _parse_manifest_row(request: PageRequest) -> tuple[str, str]:
    """Return the kind and the text of the manifest that an editor sends. Raises `Problem` without a kind."""
    row = request.GET.get("row", "manifests-0")
    kind = request.POST.get(f"{row}-kind", "")
    if kind not in Manifest.Kind.values:
        raise Problem("Choose the kind of the manifest first.")
    return kind, request.POST.get(f"{row}-content", "")


@require_sign_in
@require_safe
def show_manifest_guide(request: PageRequest) -> HttpResponse:
    """Give what can be written in a manifest of a kind; the editor asks."""
    kind, pk = request.GET.get("kind", ""), request.GET.get("service", "")
    if kind not in MANIFEST_KINDS:
        raise NotVisible("There is no such kind of manifest.")
    variables = get_service(request, int(pk)).variables if pk.isascii() and pk.isdigit() else {}
    return JsonResponse(build_manifest_guide(kind, variables))


def _is_valid(form: ServiceForm, manifests: ManifestFormSet, variables: VariableFormSet) -> bool:
    # Each is asked, so that all mistakes are shown at once.
    return form.is_valid() & manifests.is_valid() & variables.is_valid()


def _render_editor(
    request: PageRequest, found: Service, spec: operations.ServiceSpec, **more: Any
) -> HttpResponse:
    initial = {name: getattr(spec, name) for name in ("name", "description", "image", "tag")}
    source = {field: spec.source.get(key, "") for key, field in SOURCE_FIELDS.items()}
    form = ServiceForm(initial=initial | source | {"version": found.version})
    variables = build_variable_formset(variables=spec.variables, required=spec.required_variables)
    return _render_form(
        request, form, build_manifest_formset(manifests=spec.manifests), variables, found, **more
    )


def _render_form(
    request: PageRequest,
    form: ServiceForm,
    manifests: ManifestFormSet,
    variables: VariableFormSet,
    service: Service | None = None,
    **more: Any,
) -> HttpResponse:
    content = {
        "form": form,
        "check": reverse("check-manifest") + "?",
        "clean": reverse("clean-up-manifest") + "?",
        "manifests": manifests,
        "variables": variables,
        "service": service,
        "of_service": f"&service={service.pk}" if service else "",
        "tags_of": build_tag_list_url("source-tags", service.scope if service else None),
        "repositories_of": build_tag_list_url("source-repositories", service.scope if service else None),
        "starters": SAMPLE_MANIFESTS,
        "files": list_file_references(request, service.scope if service else request.current_scope),
        "connectors": list_store_connectors(request, service.scope if service else request.current_scope),
    }
    bad = form.is_bound and not _is_valid(form, manifests, variables)
    status = more.pop("status", 400 if bad or form.errors else 200)
    return render(request, "catalog/services/edit.html", content | more, status=status)


def list_file_references(request: PageRequest, scope: Scope | None) -> list[str]:
    """Return the references to files that a manifest of a scope can have."""
    if scope is None:
        return []
    rows = FileNode.objects.filter(scope__path__in=scope.ancestor_paths(), is_folder=False)
    nodes = filter_visible(request.user, "core_file_view", rows.select_related("scope")).defer("content")
    return [
        build_reference(node, scope) for node in nodes.order_by("-scope__path", "path")[:MOST_SUGGESTIONS]
    ]


def list_store_connectors(request: PageRequest, scope: Scope | None) -> list[Connector]:
    """Return the connectors that a manifest or an image of a scope can name."""
    if scope is None:
        return []
    found = list_connectors(scope, *Connector.Kind.values)
    return list(filter_visible(request.user, "core_connector_access", found)[:MOST_SUGGESTIONS])


def _serialize_spec(spec: operations.ServiceSpec) -> dict[str, Any]:
    """Return a service as text shows it: lists and mappings only."""
    values = asdict(spec)
    for manifest in values["manifests"]:
        manifest["paths"] = list(manifest["paths"])
        manifest["place"] = dict(manifest["place"])
        del manifest["mode"]
    return {
        **values,
        "source": dict(spec.source),
        "variables": dict(spec.variables or {}),
        "required_variables": sorted(spec.required_variables),
    }
