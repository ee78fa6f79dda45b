"""Pages of connectors: the list, one of them, making, changing and deleting one."""

from collections.abc import Sequence
from typing import Any, Final

from django.contrib import messages
from django.db import transaction
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.views.decorators.http import require_http_methods, require_safe

from connectors.downstream import lacking, needs_of_connector
from connectors.forms.connectors import ConnectorForm, EditConnectorForm, NewConnectorForm
from connectors.forms.entrances import version_of
from connectors.forms.sites import EditSiteForm, NewSiteForm, SiteForm
from connectors.host_keys import is_ssh, known_server
from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret, delete_connector, update_connector
from connectors.uses import uses_of
from rbac.models import Scope
from rbac.policy import can_anywhere, permissions_at, require
from web.lists import granted, visible_here
from web.page_forms import posted
from web.pages import PageRequest, get_visible, page
from web.paging import keyset
from web.problems import ChangedMeanwhile, Problem

VIEW: Final = "core_connector_view"
ACCESS: Final = "core_connector_access"
EDIT: Final = "core_connector_edit"
DELETE: Final = "core_connector_delete"
GET_OR_POST: Final = ["GET", "HEAD", "POST"]
# In the session: the connector that was just saved, which its page tests at once.
JUST_SAVED: Final = "connector_just_saved"

AnyForm = ConnectorForm | SiteForm
# What the form of a new connector calls what is asked for in place of a secret.
_SECRET_OF: Final = {Connector.Kind.AWS: ("secret_key", "Secret access key of")}


@page
@require_safe
def connectors(request: PageRequest) -> HttpResponse:
    """This will list connectors with the result of their last test."""
    found = visible_here(request, VIEW, Connector.objects.select_related("scope", "secret"))
    shown = keyset(found, request)
    content = {
        "page": shown,
        "testable": _testable(request, shown.items),
        "can_add": can_anywhere(request.user, EDIT),
    }
    return render(request, "connectors/connectors.html", content)


@page
@require_safe
def connector(request: PageRequest, pk: int) -> HttpResponse:
    """This will show one connector, what came of its last test, and what uses it."""
    found = _found(request, pk)
    rights = permissions_at(request.user, found)
    lacks = lacking(request.user, needs_of_connector(found))
    content = {
        "connector": found,
        "uses": uses_of(found, request.user),
        "rights": rights,
        "server": known_server(found) if is_ssh(found) else None,
        "can_test": not lacks,
        "lacks": lacks,
        "tests_now": not lacks and request.session.pop(JUST_SAVED, None) == found.pk,
    }
    return render(request, "connectors/connector.html", content)


@page
@require_http_methods(GET_OR_POST)
def new_connector(request: PageRequest) -> HttpResponse:
    """This will make a connector, with a new secret where its value was given, and test it."""
    kind = request.GET.get("kind", Connector.Kind.AWS)
    form = _new_form(request, kind if kind in Connector.Kind.values else Connector.Kind.AWS)
    if request.method == "POST" and form.is_valid():
        given = form.cleaned_data
        try:
            with transaction.atomic():
                made = create_connector(
                    actor=request.user,
                    scope=given["in_scope"],
                    identifier=given["identifier"],
                    name=given["name"],
                    kind=_kind_of(form),
                    spec=form.spec(),
                    secret=_secret(request, form, given["in_scope"], given["identifier"]),
                )
        except Problem as problem:
            form.refuse(problem)
        else:
            return _saved(request, made)
    return _form_page(request, form)


@page
@require_http_methods(GET_OR_POST)
def edit_connector(request: PageRequest, pk: int) -> HttpResponse:
    """This will change a connector and test it anew."""
    found = _found(request, pk)
    require(request.user, EDIT, found)
    form = _edit_form(request, found)
    if request.method == "POST" and form.is_valid():
        try:
            with transaction.atomic():
                changed = _change(request, form, pk)
        except Problem as problem:
            form.refuse(problem)
        else:
            return _saved(request, changed)
    return _form_page(request, form, connector=found)


@page
@require_http_methods(GET_OR_POST)
def remove_connector(request: PageRequest, pk: int) -> HttpResponse:
    """This will delete a connector that nothing uses."""
    found = _found(request, pk)
    require(request.user, DELETE, found)
    refusal = ""
    if request.method == "POST":
        try:
            delete_connector(actor=request.user, connector=found)
        except Problem as problem:
            refusal = problem.detail
        else:
            messages.success(request, f"The connector {found.name} is deleted.")
            return redirect("connectors")
    content = {"connector": found, "uses": uses_of(found, request.user), "refusal": refusal}
    return render(request, "connectors/delete_connector.html", content, status=409 if refusal else 200)


def _found(request: PageRequest, pk: int, *, lock: bool = False) -> Connector:
    rows = Connector.objects.select_related("scope", "secret__scope")
    return get_visible(request, VIEW, rows.select_for_update(of=("self",)) if lock else rows, pk=pk)


def _new_form(request: PageRequest, kind: str) -> NewConnectorForm | NewSiteForm:
    if kind == Connector.Kind.AWS:
        return NewConnectorForm(posted(request), person=request.user, scope=request.current_scope)
    return NewSiteForm(posted(request), person=request.user, kind=kind, scope=request.current_scope)


def _edit_form(request: PageRequest, found: Connector) -> EditConnectorForm | EditSiteForm:
    if found.kind == Connector.Kind.AWS:
        return EditConnectorForm(posted(request), person=request.user, connector=found)
    return EditSiteForm(posted(request), person=request.user, kind=found.kind, connector=found)


def _kind_of(form: AnyForm) -> Connector.Kind:
    return form.kind if isinstance(form, SiteForm) else Connector.Kind.AWS


def _change(request: PageRequest, form: EditConnectorForm | EditSiteForm, pk: int) -> Connector:
    """Change a connector if it is still the one that was shown. Raises `ChangedMeanwhile` otherwise."""
    locked = _found(request, pk, lock=True)
    if version_of(locked) != form.cleaned_data["version"]:
        raise ChangedMeanwhile(
            "Somebody changed this connector after you opened it. Open it again, then make your change."
        )
    return update_connector(
        actor=request.user,
        connector=locked,
        name=form.cleaned_data["name"],
        spec=form.spec(),
        secret=_secret(request, form, locked.scope, locked.identifier),
    )


def _secret(request: PageRequest, form: AnyForm, scope: Scope, identifier: str) -> Secret | None:
    """The secret that was chosen, or a new one with the value that was given."""
    given = form.cleaned_data
    if not form.needs_secret or not given["secret_value"]:
        return given["secret"] if form.needs_secret else None
    suffix, title = _SECRET_OF.get(_kind_of(form), ("login", "Login of"))
    return create_secret(
        actor=request.user,
        scope=scope,
        identifier=_free_identifier(scope, f"{identifier}_{suffix}"),
        name=f"{title} {given['name']}"[:128],
        value=given["secret_value"],
    )


def _free_identifier(scope: Scope, wanted: str) -> str:
    taken = set(Secret.objects.filter(scope=scope).values_list("identifier", flat=True))
    numbered = (wanted if number == 1 else f"{wanted}_{number}" for number in range(1, len(taken) + 2))
    return next(one for one in numbered if one not in taken)


def _saved(request: PageRequest, connector: Connector) -> HttpResponse:
    request.session[JUST_SAVED] = connector.pk
    return redirect("connector", pk=connector.pk)


def _form_page(request: PageRequest, form: AnyForm, **more: Any) -> HttpResponse:
    content = {"form": form, "kind": _kind_of(form), "kinds": Connector.Kind.choices}
    return render(request, "connectors/connector_form.html", content | more, status=form.http_status)


def _testable(request: PageRequest, shown: Sequence[Connector]) -> set[int]:
    """Which connectors of a list the reader may use, with the secrets that they enter with."""
    secrets = granted(request, "core_secret_access", Secret, [one.secret for one in shown if one.secret])
    allowed = granted(request, ACCESS, Connector, shown)
    return {one.pk for one in shown if one.pk in allowed and one.secret_id in {None, *secrets}}
