"""Pages of connectors: list, detail, create, edit, delete, and accept a host key."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal
from urllib.parse import urlencode

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_safe

from connectors.forms.aws_connectors import AwsConnectorForm, EditAwsConnectorForm, NewAwsConnectorForm
from connectors.forms.base import get_connector_version
from connectors.forms.site_connectors import EditSiteConnectorForm, NewSiteConnectorForm, SiteConnectorForm
from connectors.forms.vault_connectors import (
    EditVaultConnectorForm,
    NewVaultConnectorForm,
    VaultConnectorForm,
)
from connectors.host_keys import get_known_server, is_ssh_connector
from connectors.live import get_setup_topic
from connectors.models import Connector, Secret
from connectors.operations import (
    accept_host_key,
    create_connector,
    create_secret,
    delete_connector,
    update_connector,
)
from connectors.queries import list_event_queue_setups, list_event_queues
from connectors.required_access import find_missing_permissions, get_connector_requirements
from connectors.usages import count_connector_usages, describe_connector_records, find_usages
from rbac.models import Scope
from rbac.operations.identifiers import find_free_name
from rbac.policy import can_anywhere, get_permissions, require
from web.forms.drafts import ORIGIN_PARAMETER
from web.forms.lists import build_name_filter, paginate_list, read_list_options
from web.forms.page_forms import get_posted_data
from web.forms.pages import (
    PageRequest,
    get_permitted_ids,
    get_visible,
    list_visible,
    require_get_or_post,
    require_sign_in,
)
from web.forms.resource_pages import CreatePage, DeletePage, EditPage, FormPage, Obstacle, ResourcePage
from web.http.problems import Problem, VersionConflict
from web.usages import ResourceUsages

VIEW_PERMISSION: Final = "core_connector_view"
ACCESS_PERMISSION: Final = "core_connector_access"
EDIT_PERMISSION: Final = "core_connector_edit"
DELETE_PERMISSION: Final = "core_connector_delete"
# In the session: the connector that was just saved, which its page tests at once.
SAVED_CONNECTOR_KEY: Final = "connector_just_saved"
CONNECTOR_FILTERS: Final = {"": "All test results", "failed": "Test failed", "untested": "Not tested"}
TEST_RESULTS: Final[Mapping[str, bool | None]] = {"failed": False, "untested": None}
CONNECTOR_KINDS: Final = {"": "All kinds", **dict(Connector.Kind.choices)}
AnyConnectorForm = AwsConnectorForm | SiteConnectorForm | VaultConnectorForm
# Names of the form fields of a new connector in place of a secret.
_SECRET_NAMES: Final = {
    Connector.Kind.AWS: ("secret_key", "Secret access key of"),
    Connector.Kind.VAULT: ("login", "Login to"),
}


def _get_connector(request: PageRequest, pk: int, *, lock: bool = False) -> Connector:
    rows = Connector.objects.select_related("scope", "secret__scope", "session_token__scope")
    return get_visible(
        request, VIEW_PERMISSION, rows.select_for_update(of=("self",)) if lock else rows, pk=pk
    )


class ConnectorPage(ResourcePage[Connector]):
    """A page about a connector."""

    load = staticmethod(_get_connector)
    noun = "connector"
    parents = (("Connectors", "connectors"),)
    detail = "connector"


@require_sign_in
@require_safe
def list_connectors(request: PageRequest) -> HttpResponse:
    """List connectors with the result of their last test and the number of their users."""
    options = read_list_options(request, CONNECTOR_FILTERS, CONNECTOR_KINDS)
    connectors = list_visible(
        request, VIEW_PERMISSION, Connector.objects.select_related("scope", "secret", "session_token")
    )
    if options.filter:
        connectors = connectors.filter(last_test_ok=TEST_RESULTS[options.filter])
    if options.kind:
        connectors = connectors.filter(kind=options.kind)
    page = paginate_list(connectors.filter(build_name_filter(options.text)), request, options)
    usages = count_connector_usages(page.items)
    content = {
        "page": page,
        "rows": [(connector, usages[connector.pk]) for connector in page.items],
        "options": options,
        "testable": _list_testable(request, page.items),
        "can_add": can_anywhere(request.user, EDIT_PERMISSION),
    }
    return render(request, "connectors/connectors.html", content)


@require_sign_in
@require_safe
def show_connector(request: PageRequest, pk: int) -> HttpResponse:
    """Show one connector with its last test and its usages."""
    connector = _get_connector(request, pk)
    rights = get_permissions(request.user, connector)
    lacks = find_missing_permissions(request.user, get_connector_requirements(connector))
    setups = list_event_queue_setups(connector)
    secrets = [secret for secret in (connector.secret, connector.session_token) if secret]
    content = {
        "connector": connector,
        "uses": find_usages(connector, request.user),
        "settings": json.dumps(connector.spec, indent=2, sort_keys=True, ensure_ascii=False),
        "rights": rights,
        "viewable_secrets": get_permitted_ids(request, "core_secret_view", Secret, secrets),
        "server": get_known_server(connector) if is_ssh_connector(connector) else None,
        "can_test": not lacks,
        "lacks": lacks,
        "event_queues": list_event_queues(connector) if connector.kind == Connector.Kind.AWS else None,
        "event_queue_setups": setups,
        "setup_topics": get_setup_topic(connector) if any(setup.is_running for setup in setups) else "",
        "tests_now": not lacks and request.session.pop(SAVED_CONNECTOR_KEY, None) == connector.pk,
    }
    return render(request, "connectors/connector.html", content)


class ConnectorFormPage(FormPage[Any]):
    """A page with the form of a connector, which is tested after it is saved."""

    template_name = "connectors/connector_form.html"
    permission = EDIT_PERMISSION
    button = "Save and test"

    def get_context(self, form: AnyConnectorForm) -> dict[str, Any]:
        return {"kind": _get_kind(form)}

    def finish(self, saved: Connector) -> HttpResponse:
        self.request.session[SAVED_CONNECTOR_KEY] = saved.pk
        return redirect("connector", pk=saved.pk)


class NewConnector(ConnectorFormPage, ConnectorPage, CreatePage[Connector]):
    """Create a connector, with a new secret if its value is entered, and test it."""

    def build_form(self) -> NewAwsConnectorForm | NewSiteConnectorForm | NewVaultConnectorForm:
        kinds = self.list_kinds()
        requested = self.request.GET.get("kind", "")
        kind = requested if requested in kinds else kinds[0]
        data, user, scopes = get_posted_data(self.request), self.request.user, self.get_scope_options()
        if kind == Connector.Kind.AWS:
            return NewAwsConnectorForm(data, person=user, **scopes)
        if kind == Connector.Kind.VAULT:
            return NewVaultConnectorForm(data, person=user, **scopes)
        return NewSiteConnectorForm(data, person=user, kind=kind, **scopes)

    def list_kinds(self) -> Sequence[str]:
        """Return the kinds that can be created here."""
        return (self.origin.kinds if self.origin else ()) or Connector.Kind.values

    def get_context(self, form: AnyConnectorForm) -> dict[str, Any]:
        kind, key = _get_kind(form), self.request.GET.get(ORIGIN_PARAMETER)
        links = [
            (
                value,
                Connector.Kind(value).label,
                urlencode({"kind": value} | ({ORIGIN_PARAMETER: key} if key else {})),
            )
            for value in self.list_kinds()
        ]
        return {"kind": kind, "kind_links": links, "heading": f"New {kind.label} connector"}

    def save(self, form: AnyConnectorForm) -> Connector:
        data = form.cleaned_data
        with transaction.atomic():
            return create_connector(
                actor=self.request.user,
                scope=data["in_scope"],
                identifier=data["identifier"],
                name=data["name"],
                kind=_get_kind(form),
                spec=form.spec(),
                secret=_get_or_create_secret(self.request, form, data["in_scope"], data["identifier"]),
                session_token=_get_session_token(form) or None,
            )


class EditConnector(ConnectorFormPage, ConnectorPage, EditPage[Connector]):
    """Edit a connector, and test it again."""

    def build_form(self) -> EditAwsConnectorForm | EditSiteConnectorForm | EditVaultConnectorForm:
        data, user, connector = get_posted_data(self.request), self.request.user, self.object
        if connector.kind == Connector.Kind.AWS:
            return EditAwsConnectorForm(data, person=user, connector=connector)
        if connector.kind == Connector.Kind.VAULT:
            return EditVaultConnectorForm(data, person=user, connector=connector)
        return EditSiteConnectorForm(data, person=user, kind=connector.kind, connector=connector)

    def save(self, form: EditAwsConnectorForm | EditSiteConnectorForm | EditVaultConnectorForm) -> Connector:
        with transaction.atomic():
            locked = _get_connector(self.request, self.object.pk, lock=True)
            if get_connector_version(locked) != form.cleaned_data["version"]:
                raise VersionConflict(
                    "Someone else changed this connector after you opened it. Reload the page, then make "
                    "your change."
                )
            return update_connector(
                actor=self.request.user,
                connector=locked,
                name=form.cleaned_data["name"],
                spec=form.spec(),
                secret=_get_or_create_secret(self.request, form, locked.scope, locked.identifier),
                session_token=_get_session_token(form),
            )


class DeleteConnector(ConnectorPage, DeletePage[Connector]):
    """Delete a connector without usages."""

    permission = DELETE_PERMISSION
    text = "Nothing uses it. Its secret stays."
    done = "Connector {name} deleted."

    def get_usages(self) -> ResourceUsages:
        return find_usages(self.object, self.request.user)

    def get_obstacle(self) -> Obstacle | None:
        if obstacle := super().get_obstacle():
            return obstacle
        records = describe_connector_records(self.object)
        return Obstacle(records) if records else None

    def perform(self, **values: Any) -> None:
        delete_connector(actor=self.request.user, connector=self.object)


def _get_kind(form: AnyConnectorForm) -> Connector.Kind:
    return Connector.Kind.AWS if isinstance(form, AwsConnectorForm) else form.kind


def _get_or_create_secret(
    request: PageRequest, form: AnyConnectorForm, scope: Scope, identifier: str
) -> Secret | None:
    """Return the selected secret, or a new one with the entered value."""
    data = form.cleaned_data
    if not form.needs_secret or not data["secret_value"]:
        return data["secret"] if form.needs_secret else None
    suffix, title = _SECRET_NAMES.get(_get_kind(form), ("login", "Login of"))
    return create_secret(
        actor=request.user,
        scope=scope,
        identifier=find_free_name(f"{identifier}_{suffix}", Secret.objects.filter(scope=scope), "identifier"),
        name=f"{title} {data['name']}"[:128],
        value=data["secret_value"],
    )


def _get_session_token(form: AnyConnectorForm) -> Secret | Literal[False] | None:
    """Return the selected session token, False if the present one was deselected, or None."""
    if isinstance(form, AwsConnectorForm) and form.removes_session_token:
        return False
    return form.cleaned_data.get("session_token") if form.needs_secret else None


def _list_testable(request: PageRequest, connectors: Sequence[Connector]) -> set[int]:
    """Return the connectors of a list that the reader may use, with their secrets."""
    secrets = get_permitted_ids(
        request,
        "core_secret_access",
        Secret,
        [secret for connector in connectors for secret in _list_secrets(connector)],
    )
    allowed = get_permitted_ids(request, ACCESS_PERMISSION, Connector, connectors)
    return {
        connector.pk
        for connector in connectors
        if connector.pk in allowed and all(secret.pk in secrets for secret in _list_secrets(connector))
    }


def _list_secrets(connector: Connector) -> list[Secret]:
    return [secret for secret in (connector.secret, connector.session_token) if secret is not None]


@require_sign_in
@require_get_or_post
def review_host_key(request: PageRequest, pk: int) -> HttpResponse:
    """Show the accepted and the offered host key, and accept the offered one."""
    connector = get_visible(request, "core_connector_view", Connector.objects.select_related("scope"), pk=pk)
    require(request.user, "core_connector_edit", connector)
    refusal = ""
    if request.method == "POST":
        try:
            accept_host_key(
                actor=request.user, connector=connector, fingerprint=request.POST.get("fingerprint", "")
            )
        except Problem as problem:
            refusal = problem.detail
        else:
            messages.success(request, f"New host key of {connector.name} accepted.")
            return redirect("connector", pk=pk)
    content = {"connector": connector, "server": get_known_server(connector), "refusal": refusal}
    return render(request, "connectors/host_key.html", content, status=409 if refusal else 200)
