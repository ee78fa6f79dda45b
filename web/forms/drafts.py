"""Drafts of forms: creation of a resource from within the form that needs it.

A button beside a field posts the form with `create_for`, the name of that field. The page keeps the entered
values as a draft and redirects to the form of the new resource, whose address names the draft in `for`.
After saving or canceling there, the first form is shown again, by the draft in its address, with the new
resource selected.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, Final
from urllib.parse import urlencode
from uuid import UUID

from django.db import transaction
from django.db.models import Model, Q
from django.http import HttpRequest, QueryDict
from django.urls import reverse

from guards.limits import FORM_DRAFT_HOURS, FORM_DRAFTS
from rbac.encryption import DecryptionFailed
from rbac.models import Scope, User
from rbac.policy import Forbidden, build_below_filter, list_permitted_scopes
from web.clock import get_database_time
from web.models import FormDraft
from web.retention import RetentionRule

CREATE_NAME: Final = "create_for"
DRAFT_PARAMETER: Final = "draft"
ORIGIN_PARAMETER: Final = "for"
MAX_AGE: Final = timedelta(hours=FORM_DRAFT_HOURS)
DRAFT_RETENTION: Final = (RetentionRule("Form drafts", FormDraft.objects.all(), "created_at", MAX_AGE),)
# Posted names that are no input of the form.
_PROTOCOL_NAMES: Final = frozenset({"csrfmiddlewaretoken", CREATE_NAME})


class Selection(StrEnum):
    """What the created resource does with the values that were entered in its field before."""

    REPLACE = "replace"
    # Of a list of checkboxes, or of a text with commas.
    ADD_CHOICE = "add choice"
    ADD_WORD = "add word"


@dataclass(frozen=True)
class NewResource:
    """A resource that can be created for a field; the field takes its `value_attribute`.

    `kinds` are those that the field accepts, of resources with a kind. The resource must be visible from the
    scope of the form, or with `is_inside`, belong to it or to a scope below.
    """

    noun: str
    url_name: str
    permission: str
    value_attribute: str = "pk"
    kinds: tuple[str, ...] = ()
    selection: Selection = Selection.REPLACE
    is_inside: bool = False


class DraftData(QueryDict):
    """Entered values from a draft; a form shows them without errors."""


@dataclass(frozen=True)
class OpenDraft:
    """A draft of the signed-in user."""

    row: FormDraft
    content: Mapping[str, Any]

    @property
    def return_url(self) -> str:
        """Return the address of the first form with this draft."""
        path, _, query = str(self.content["path"]).partition("?")
        parameters = QueryDict(query, mutable=True)
        parameters[DRAFT_PARAMETER] = str(self.row.pk)
        return f"{path}?{parameters.urlencode()}"

    @property
    def scope(self) -> Scope | None:
        """Return the scope of the first form."""
        return Scope.objects.filter(path=self.content["scope"]).first()

    @property
    def scope_filter(self) -> Q:
        """Return the condition for the scopes that the new resource can belong to."""
        return _build_scope_filter(self.scope, is_inside=bool(self.content["is_inside"]))

    @property
    def kinds(self) -> tuple[str, ...]:
        """Return the accepted kinds of the new resource; empty for all."""
        return tuple(self.content["kinds"])

    @property
    def created_name(self) -> str:
        """Return the name of the created resource, empty before."""
        return str(self.content.get("created") or "")

    @property
    def has_omitted(self) -> bool:
        """Return whether a secret or a file was entered that the draft does not keep."""
        return bool(self.content["has_omitted"])

    @property
    def field(self) -> str:
        """Return the posted name of the field that gets the new resource."""
        return str(self.content["field"])

    @property
    def data(self) -> DraftData:
        """Return the entered values."""
        data = DraftData(mutable=True)
        for name, values in self.content["data"].items():
            data.setlist(name, values)
        return data

    def add_created(self, resource: Model) -> None:
        """Select the created resource in the field that it was created for."""
        value = str(getattr(resource, self.content["value_attribute"]))
        entered = self.content["data"]
        selected = _select(Selection(self.content["selection"]), entered.get(self.field, []), value)
        data = {**entered, self.field: selected}
        content = {**self.content, "data": data, "created": str(getattr(resource, "name", resource))}
        with transaction.atomic():
            # Another window may have saved the form, which deletes its draft.
            row = FormDraft.objects.select_for_update().filter(pk=self.row.pk).first()
            if row is not None:
                row.content = json.dumps(content)
                row.save(update_fields=["content"])


def list_creation_scopes(user: User, resource: NewResource, scope: Scope | None) -> Any:
    """Return the scopes where the user may create a resource for a form of `scope`."""
    scopes = list_permitted_scopes(user, resource.permission)
    return scopes.filter(_build_scope_filter(scope, is_inside=resource.is_inside))


def save_draft(
    request: HttpRequest,
    resource: NewResource,
    *,
    user: User,
    field: str,
    scope: Scope | None,
    path: str,
    omitted: Collection[str] = (),
) -> str:
    """Keep the posted values without the `omitted` fields, and return the address of the next form.

    Raises `Forbidden` if the user cannot create the resource where the form could use it.
    """
    if not list_creation_scopes(user, resource, scope).exists():
        raise Forbidden(resource.permission)
    posted = {name: values for name, values in request.POST.lists() if name not in _PROTOCOL_NAMES}
    content = {
        "path": path,
        "field": field,
        "value_attribute": resource.value_attribute,
        "scope": scope.path if scope else "",
        "kinds": resource.kinds,
        "selection": resource.selection,
        "is_inside": resource.is_inside,
        "data": {name: values for name, values in posted.items() if name not in omitted},
        "has_omitted": bool(request.FILES) or any(any(posted.get(name, ())) for name in omitted),
    }
    row = FormDraft.objects.create(user=user, noun=resource.noun, content=json.dumps(content))
    _delete_surplus(user)
    query = {"kind": resource.kinds[0]} if resource.kinds else {}
    return f"{reverse(resource.url_name)}?{urlencode(query | {ORIGIN_PARAMETER: str(row.pk)})}"


def get_draft(user: User, key: str, *, noun: str = "", path: str = "") -> OpenDraft | None:
    """Return a draft of the user; None for an expired, foreign or unreadable one.

    A draft for another resource than `noun`, or of another page than `path`, counts as missing.
    """
    try:
        pk = UUID(key)
    except ValueError:
        return None
    rows = FormDraft.objects.filter(pk=pk, user=user, created_at__gt=get_database_time() - MAX_AGE)
    row = rows.filter(noun=noun).first() if noun else rows.first()
    if row is None:
        return None
    try:
        content = json.loads(row.content)
    except DecryptionFailed:
        return None
    draft = OpenDraft(row, content)
    return None if path and content["path"].partition("?")[0] != path.partition("?")[0] else draft


def delete_draft(user: User, key: str) -> None:
    """Delete a draft of the user after its form was saved."""
    try:
        FormDraft.objects.filter(pk=UUID(key), user=user).delete()
    except ValueError:
        return


def get_form_path(request: HttpRequest) -> str:
    """Return the address of the requested form, without its draft."""
    parameters = request.GET.copy()
    parameters.pop(DRAFT_PARAMETER, None)
    query = parameters.urlencode()
    return f"{request.path}?{query}" if query else request.path


def _build_scope_filter(scope: Scope | None, *, is_inside: bool) -> Q:
    if scope is None:
        return Q()
    return build_below_filter(scope, "pk") if is_inside else Q(path__in=scope.ancestor_paths())


def _select(selection: Selection, values: list[str], value: str) -> list[str]:
    """Return the posted values of a field with the created resource."""
    if selection == Selection.ADD_CHOICE:
        return [*values, value]
    words = [word for text in values for word in text.replace(",", " ").split()]
    return [", ".join([*words, value])] if selection == Selection.ADD_WORD else [value]


def _delete_surplus(user: User) -> None:
    """Delete the oldest drafts above the limit."""
    newest = FormDraft.objects.filter(user=user).order_by("-created_at", "-pk").values_list("pk", flat=True)
    FormDraft.objects.filter(pk__in=list(newest[FORM_DRAFTS:])).delete()
