"""Pages of services: list and forms, with the manifest editor's requests."""

from dataclasses import asdict
from typing import Any, Final

from django.http import HttpResponse, JsonResponse
from django.urls import reverse
from django.utils.decorators import method_decorator
from django.views.decorators.http import require_POST, require_safe

from aws.validation.rules.common import NAME_PATTERN
from catalog import operations
from catalog.forms.sample_manifests import SAMPLE_MANIFESTS, build_default_manifests
from catalog.forms.services import NewServiceForm, ServiceForm, build_service_spec, build_service_values
from catalog.manifests.kinds import MANIFEST_KINDS
from catalog.manifests.manifest_files import (
    build_manifest_guide,
    check_manifest_text,
    clean_manifest_text,
    get_ecs_service_name,
)
from catalog.models import Manifest, Service
from catalog.pages.delete_pages import DeleteUsedPage
from catalog.pages.image_tags import build_tag_list_url
from catalog.usages import describe_takeover
from connectors.file_store import build_reference
from connectors.models import Connector, FileNode
from connectors.queries import list_connectors
from rbac.models import Scope
from rbac.policy import NotVisible, filter_visible
from web.forms.lost_input import show_lost_input
from web.forms.pages import PageRequest, get_visible, require_sign_in
from web.forms.resource_pages import CreatePage, FormPage, ResourcePage, VersionedEditPage
from web.http.problems import Problem
from web.text_diffs import TextDiff, diff_values

VIEW: Final = "core_service_view"
EDIT: Final = "core_service_edit"
DELETE: Final = "core_service_delete"
# As many files as a list of suggestions is good for.
MOST_SUGGESTIONS: Final = 200


def get_service(request: PageRequest, pk: int | str) -> Service:
    """Return a visible service. Raises `NotVisible` (404)."""
    rows = Service.objects.select_related("scope", "artifact").prefetch_related("manifests")
    return get_visible(request, VIEW, rows, pk=pk)


class ServicePage(ResourcePage[Service]):
    """A page about a service."""

    load = staticmethod(get_service)
    noun = "service"
    parents = (("Services", "services"),)
    detail = "service"


class ServiceFormPage(FormPage[Any]):
    """A page with the form of a service."""

    template_name = "catalog/services/edit.html"
    permission = EDIT

    def build_editor_context(self, scope: Scope | None, of_service: str) -> dict[str, Any]:
        """Return the template context of the manifest editors and image pickers."""
        return {
            "check": reverse("check-manifest") + "?",
            "clean": reverse("clean-up-manifest") + "?",
            "of_service": of_service,
            "tags_of": build_tag_list_url("source-tags", scope),
            "repositories_of": build_tag_list_url("source-repositories", scope),
            "starters": SAMPLE_MANIFESTS,
            "files": list_file_references(self.request, scope),
            "connectors": list_store_connectors(self.request, scope),
        }


class NewService(ServiceFormPage, ServicePage, CreatePage[Service]):
    """Create a service, starting with two sample manifests."""

    form_class = NewServiceForm
    here = "New"
    done = "Service {name} created."

    def get_form_options(self) -> dict[str, Any]:
        return super().get_form_options() | {"initial": {"manifests": build_default_manifests()}}

    def get_context(self, form: NewServiceForm) -> dict[str, Any]:
        return self.build_editor_context(self.get_draft_scope(), "")

    def save(self, form: NewServiceForm) -> Service:
        data = form.cleaned_data
        return operations.create_service(
            actor=self.request.user,
            scope=data["in_scope"],
            identifier=data["identifier"],
            spec=form.build_spec(),
        )

    def get_done_message(self, saved: Service) -> str:
        takeover = describe_takeover(saved, self.request.user)
        return f"{super().get_done_message(saved)} {takeover}".rstrip()


@method_decorator(show_lost_input, name="dispatch")
class EditService(ServiceFormPage, ServicePage, VersionedEditPage[Service]):
    """Edit a service with its manifests and variables."""

    form_class = ServiceForm

    def get_stored(self) -> dict[str, Any]:
        return build_service_values(build_service_spec(self.object))

    def get_entered(self, form: ServiceForm) -> dict[str, Any]:
        return build_service_values(form.build_spec())

    def get_context(self, form: ServiceForm) -> dict[str, Any]:
        return self.build_editor_context(self.object.scope, f"&service={self.object.pk}")

    def describe_change(self, form: ServiceForm) -> TextDiff:
        stored = build_service_spec(self.object)
        return diff_values(_serialize_spec(stored), _serialize_spec(form.build_spec()))

    def save(self, form: ServiceForm) -> Service:
        return operations.update_service(
            actor=self.request.user,
            service=self.object,
            spec=form.build_spec(),
            version=self.get_opened_version(form),
        )


class DeleteService(ServicePage, DeleteUsedPage[Service]):
    """Delete a service, after naming the pipelines that deploy it."""

    permission = DELETE
    text = (
        "The service is deleted with its manifests and variables. Deployed ECS services keep running in "
        "AWS, and the execution history is kept."
    )
    done = "Service {name} deleted. Deployed ECS services keep running."

    def perform(self, **values: Any) -> None:
        operations.delete_service(actor=self.request.user, service=self.object, **values)


@require_sign_in
@require_POST
def check_manifest(request: PageRequest) -> HttpResponse:
    """Return the problems of an edited manifest for the editor."""
    return JsonResponse(check_manifest_text(*_parse_manifest_row(request)).to_json())


@require_sign_in
@require_POST
def clean_up_manifest(request: PageRequest) -> HttpResponse:
    """Return an edited manifest in the format of AWS, with the changes, for the editor."""
    pk, name = request.GET.get("service", ""), request.POST.get("name", "").strip()
    if pk.isascii() and pk.isdigit():
        name = get_ecs_service_name(get_service(request, pk))
    elif not NAME_PATTERN.match(name):
        name = request.POST.get("identifier", "").strip()
    kind, text = _parse_manifest_row(request)
    return JsonResponse(clean_manifest_text(kind, text, name).to_json())


def _parse_manifest_row(request: PageRequest) -> tuple[str, str]:
    """Return the kind and the text of the manifest that an editor sends. Raises `Problem` without a kind."""
    row = request.GET.get("row", "manifests-0")
    kind = request.POST.get(f"{row}-kind", "")
    if kind not in Manifest.Kind.values:
        raise Problem("Choose the manifest type first.")
    return kind, request.POST.get(f"{row}-content", "")


@require_sign_in
@require_safe
def show_manifest_guide(request: PageRequest) -> HttpResponse:
    """Return the completion guide of a manifest kind for the editor."""
    kind, pk = request.GET.get("kind", ""), request.GET.get("service", "")
    if kind not in MANIFEST_KINDS:
        raise NotVisible("Unknown manifest type.")
    variables = get_service(request, pk).variables if pk.isascii() and pk.isdigit() else {}
    return JsonResponse(build_manifest_guide(kind, variables))


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
    connectors = list_connectors(scope, *Connector.Kind.values)
    return list(filter_visible(request.user, "core_connector_access", connectors)[:MOST_SUGGESTIONS])


def _serialize_spec(spec: operations.ServiceSpec) -> dict[str, Any]:
    """Return a service as plain lists and mappings for a comparison of texts."""
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
