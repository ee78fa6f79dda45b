"""Services and connectors that are created from within the visual editor."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import urlsplit

from django.http import HttpResponse
from django.urls import Resolver404, resolve

from catalog.forms.environments import InfrastructureForm
from catalog.forms.manifests import NEW_CONNECTOR
from catalog.manifests.stores import get_store, is_store
from connectors.models import Connector
from pipelines.editor.target_fields import CONNECTOR_REFERENCE
from rbac.models import Scope
from web.forms.draft_pages import leave_form, list_creatable
from web.forms.drafts import CREATE_NAME, NewResource, OpenDraft, get_draft
from web.forms.pages import PageRequest
from web.http.problems import BadInput

# Name of the draft that a page of the editor opens its forms with.
RESTORE_NAME: Final = "restore"
NEW_SERVICE: Final = NewResource("service", "new-service", "core_service_edit", "identifier")
INFRASTRUCTURE_CONNECTOR: Final = "new-connector"
_MANIFEST_CONNECTOR: Final = re.compile(r"(spec\.[A-Za-z0-9_.]{1,200}\.[0-9]{1,6})\.connector")
_EDITOR_PAGES: Final = frozenset({"new-pipeline", "edit-pipeline"})


def get_editor_resource(data: Mapping[str, str], field: str) -> NewResource | None:
    """Return the resource that can be created for a field of the open form, or None."""
    if field == "service":
        return NEW_SERVICE
    if field == INFRASTRUCTURE_CONNECTOR:
        return InfrastructureForm.new_resources["connector"]
    if field == CONNECTOR_REFERENCE:
        return replace(NEW_CONNECTOR, kinds=(Connector.Kind.TERRAFORM_CLOUD.value,))
    if row := _MANIFEST_CONNECTOR.fullmatch(field):
        store = data.get(f"{row[1]}.store", "")
        kind = get_store(store).connector_kind if is_store(store) else ""
        return replace(NEW_CONNECTOR, kinds=(kind,) if kind else ())
    return None


def list_editor_nouns(request: PageRequest, scope: Scope) -> set[str]:
    """Return the resources that the user may create for a pipeline of a scope; two queries."""
    return list_creatable(request.user, (NEW_SERVICE, NEW_CONNECTOR), scope)


def leave_editor(request: PageRequest, scope: Scope) -> HttpResponse:
    """Keep the text and the open forms, and send the page to the form of a new resource."""
    field = request.POST[CREATE_NAME]
    resource = get_editor_resource(request.POST.dict(), field)
    answer = leave_form(request, field, resource, scope=scope, path=_get_editor_path(request))
    return HttpResponse(headers={"HX-Redirect": answer["Location"]})


def get_restored_draft(request: PageRequest) -> OpenDraft | None:
    """Return the draft that the forms start with, or None."""
    key = request.POST.get(RESTORE_NAME)
    return get_draft(request.user, key, path=_get_editor_path(request)) if key else None


def _get_editor_path(request: PageRequest) -> str:
    """Return the address of the page around the fragment. Raises `BadInput` for any other page."""
    path = urlsplit(request.headers.get("HX-Current-URL", "")).path
    try:
        name = resolve(path).url_name
    except Resolver404:
        name = ""
    if name not in _EDITOR_PAGES:
        raise BadInput("Only the pipeline editor can be left to create a resource.")
    return f"{path}?tab=visual"
