"""Pages of services: the list, one with its manifests, and the forms that write them."""

from dataclasses import asdict
from typing import Any, Final

from django.contrib import messages
from django.http import HttpResponse, JsonResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from aws.rules.base import NAME
from catalog import operations
from catalog.forms.manifests import ManifestRows, manifest_rows
from catalog.forms.resources import DeleteForm
from catalog.forms.services import SOURCE_FIELDS, NewServiceForm, ServiceForm, spec_of
from catalog.forms.variables import VariableRows, variable_rows
from catalog.manifests.file_references import check_kind, clean_kind, ecs_name_of
from catalog.manifests.guide import manifest_guide
from catalog.manifests.kinds import KINDS
from catalog.manifests.starters import STARTERS, new_manifests
from catalog.models import Manifest, Service
from catalog.pages.changes import compared
from catalog.pages.tags import address_of
from catalog.usage import used_by
from connectors.files import reference_of
from connectors.models import Connector, FileNode
from connectors.queries import connectors_for
from rbac.models import Scope
from rbac.policy import NotVisible, can_anywhere, require, visible_to
from web.lists import visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import ChangedMeanwhile, Problem

VIEW: Final = "core_service_view"
EDIT: Final = "core_service_edit"
DELETE: Final = "core_service_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
# As many files as a list of suggestions is good for.
MOST_FILES: Final = 200


def service_of(request: PageRequest, pk: int) -> Service:
    """The service that is meant. Raises `NotVisible` (404)."""
    rows = Service.objects.select_related("scope", "artifact").prefetch_related("manifests")
    return get_visible(request, VIEW, rows, pk=pk)


@page
@require_safe
def services(request: PageRequest) -> HttpResponse:
    """This will list services."""
    found = visible_here(request, VIEW, Service.objects.select_related("scope", "artifact"))
    shown = keyset(found.prefetch_related("manifests"), request)
    content = {"page": shown, "may_add": can_anywhere(request.user, EDIT)}
    return render(request, "catalog/services/list.html", content)


@page
@require_http_methods(GET_OR_POST)
def new_service(request: PageRequest) -> HttpResponse:
    """This will create a service; it begins with two manifests that only need names."""
    form = NewServiceForm(posted(request), person=request.user, permission=EDIT, scope=request.current_scope)
    manifests, variables = manifest_rows(posted(request), new_manifests()), variable_rows(posted(request))
    if request.method == "POST" and _are_valid(form, manifests, variables):
        given = form.cleaned_data
        try:
            made = operations.create_service(
                actor=request.user,
                scope=given["in_scope"],
                identifier=given["identifier"],
                spec=form.spec(manifests.specs(), variables),
            )
        except Problem as problem:
            form.refuse(problem)
        else:
            messages.success(request, f"{made.name} is there.")
            return redirect("service", pk=made.pk)
    return _form_page(request, form, manifests, variables)


@page
@require_http_methods(GET_OR_POST)
def edit_service(request: PageRequest, pk: int) -> HttpResponse:
    """This will save a service; what somebody else saved meanwhile is shown, not lost."""
    found = service_of(request, pk)
    require(request.user, EDIT, found)
    if request.method != "POST":
        return _editing(request, found, spec_of(found))
    form = ServiceForm(request.POST)
    manifests, variables = manifest_rows(request.POST), variable_rows(request.POST)
    if not _are_valid(form, manifests, variables):
        return _form_page(request, form, manifests, variables, found)
    spec = form.spec(manifests.specs(), variables)
    try:
        saved = operations.update_service(
            actor=request.user, service=found, spec=spec, version=form.cleaned_data["version"] or 0
        )
    except ChangedMeanwhile:
        stored = service_of(request, pk)
        differs = compared(_plain(spec_of(stored)), _plain(spec))
        return _editing(request, stored, spec, diff=differs, status=409)
    except Problem as problem:
        form.refuse(problem)
        return _form_page(request, form, manifests, variables, found)
    messages.success(request, f"{saved.name} is saved.")
    return redirect("service", pk=pk)


@page
@require_http_methods(GET_OR_POST)
def delete_service(request: PageRequest, pk: int) -> HttpResponse:
    """This will ask before a service goes, and name who deploys it."""
    found = service_of(request, pk)
    require(request.user, DELETE, found)
    users = used_by(found, request.user)
    form = DeleteForm(posted(request))
    if request.method == "POST" and form.is_agreed(is_used=bool(users)):
        operations.delete_service(actor=request.user, service=found, although_used=True)
        messages.success(request, f"{found.name} is deleted. What is deployed keeps running.")
        return redirect("services")
    content = {"service": found, "form": form, "used_by": users}
    return render(request, "catalog/services/delete.html", content, status=form.http_status)


@page
@require_POST
def check_manifest_text(request: PageRequest) -> HttpResponse:
    """This will say what is wrong with a manifest that is being written; the editor asks."""
    return JsonResponse(check_kind(*_row_of(request)).to_json())


@page
@require_POST
def clean_up_manifest_text(request: PageRequest) -> HttpResponse:
    """Answer a manifest that is being written as AWS takes it, with what changes; the editor asks."""
    pk, name = request.GET.get("service", ""), request.POST.get("name", "").strip()
    if pk.isascii() and pk.isdigit():
        name = ecs_name_of(service_of(request, int(pk)))
    elif not NAME.match(name):
        name = request.POST.get("identifier", "").strip()
    kind, text = _row_of(request)
    return JsonResponse(clean_kind(kind, text, name).to_json())


def _row_of(request: PageRequest) -> tuple[str, str]:
    """The kind and the text of the manifest that an editor sends. Raises `Problem` without a kind."""
    row = request.GET.get("row", "manifests-0")
    kind = request.POST.get(f"{row}-kind", "")
    if kind not in Manifest.Kind.values:
        raise Problem("Choose the kind of the manifest first.")
    return kind, request.POST.get(f"{row}-content", "")


@page
@require_safe
def manifest_words(request: PageRequest) -> HttpResponse:
    """This will give what can be written in a manifest of a kind; the editor asks."""
    kind, pk = request.GET.get("kind", ""), request.GET.get("service", "")
    if kind not in KINDS:
        raise NotVisible("There is no such kind of manifest.")
    variables = service_of(request, int(pk)).variables if pk.isascii() and pk.isdigit() else {}
    return JsonResponse(manifest_guide(kind, variables))


def _are_valid(form: ServiceForm, manifests: ManifestRows, variables: VariableRows) -> bool:
    # Each is asked, so that all mistakes are shown at once.
    return form.is_valid() & manifests.is_valid() & variables.is_valid()


def _editing(request: PageRequest, found: Service, spec: operations.ServiceSpec, **more: Any) -> HttpResponse:
    initial = {name: getattr(spec, name) for name in ("name", "description", "image", "tag")}
    source = {field: spec.source.get(key, "") for key, field in SOURCE_FIELDS.items()}
    form = ServiceForm(initial=initial | source | {"version": found.version})
    variables = variable_rows(variables=spec.variables, required=spec.required_variables)
    return _form_page(request, form, manifest_rows(manifests=spec.manifests), variables, found, **more)


def _form_page(
    request: PageRequest,
    form: ServiceForm,
    manifests: ManifestRows,
    variables: VariableRows,
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
        "tags_of": address_of("source-tags", service.scope if service else None),
        "repositories_of": address_of("source-repositories", service.scope if service else None),
        "starters": STARTERS,
        "files": files_for(request, service.scope if service else request.current_scope),
        "connectors": store_connectors_for(request, service.scope if service else request.current_scope),
    }
    bad = form.is_bound and not _are_valid(form, manifests, variables)
    status = more.pop("status", 400 if bad or form.errors else 200)
    return render(request, "catalog/services/edit.html", content | more, status=status)


def files_for(request: PageRequest, scope: Scope | None) -> list[str]:
    """The references to files that a manifest of a scope can have."""
    if scope is None:
        return []
    rows = FileNode.objects.filter(scope__path__in=scope.ancestor_paths(), is_folder=False)
    nodes = visible_to(request.user, "core_file_view", rows.select_related("scope")).defer("content")
    return [reference_of(node, scope) for node in nodes.order_by("-scope__path", "path")[:MOST_FILES]]


def store_connectors_for(request: PageRequest, scope: Scope | None) -> list[Connector]:
    """The connectors that a manifest or an image of a scope can name."""
    if scope is None:
        return []
    found = connectors_for(scope, *Connector.Kind.values)
    return list(visible_to(request.user, "core_connector_access", found)[:MOST_FILES])


def _plain(spec: operations.ServiceSpec) -> dict[str, Any]:
    """A service as text shows it: lists and mappings only."""
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
