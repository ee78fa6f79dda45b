"""Form of the effective access page."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from accounts.queries.access_checks import get_member_scope, get_principal_by_name, get_resource_by_identifier
from rbac.models import Scope, User, UserGroup
from rbac.policy import HasScope, can
from rbac.policy.resources import list_identifiable_types
from web.forms.page_forms import PageForm

VIEW_USERS = "core_user_view"
RESOURCE_NOT_FOUND = "Not found in this scope, or you cannot view it."


class EffectiveAccessForm(PageForm):
    """Form with a principal, and a resource or scope; other principals need permission to view users."""

    who = forms.CharField(
        max_length=600,
        widget=forms.TextInput(attrs={"list": "subjects"}),
        help_text="A user name, or a group as group:account/default/operators.",
    )
    scope = forms.CharField(max_length=400, widget=forms.TextInput(attrs={"list": "scopes"}))
    kind = forms.ChoiceField(
        required=False, choices=lambda: [("", "All resources"), *list_identifiable_types()], label="What"
    )
    identifier = forms.CharField(
        required=False,
        max_length=1024,
        help_text="The identifier of one resource: for a file its path, for a delegate its name.",
    )
    conditional_fields = frozenset({"kind", "identifier"})

    def __init__(self, data: dict[str, str], *, asker: User) -> None:
        super().__init__(data)
        self._asker = asker

    def clean(self) -> dict[str, Any]:
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        scope = get_member_scope(self._asker, cleaned["scope"])
        if scope is None:
            raise ValidationError({"scope": "This scope does not exist, or you cannot view it."})
        return {**cleaned, "thing": self._thing(scope), "subject": self._subject(scope)}

    def _thing(self, scope: Scope) -> HasScope:
        kind, identifier = self.cleaned_data["kind"], self.cleaned_data["identifier"]
        if bool(kind) != bool(identifier):
            place = "identifier" if kind else "kind"
            raise ValidationError(
                {place: "Enter both the type and the identifier of a resource, or neither."}
            )
        if not kind:
            return scope
        thing = get_resource_by_identifier(self._asker, kind, identifier, scope.path)
        if thing is None:
            raise ValidationError({"identifier": RESOURCE_NOT_FOUND})
        return thing

    def _subject(self, scope: Scope) -> User | UserGroup:
        name = self.cleaned_data["who"]
        if name == self._asker.username:
            return self._asker
        if not can(self._asker, VIEW_USERS, scope):
            raise ValidationError(
                {"who": f"You need the permission {VIEW_USERS} there to check the access of others."}
            )
        subject = get_principal_by_name(self._asker, name)
        if subject is None:
            raise ValidationError({"who": "There is no user or group with this name, or you cannot view it."})
        return subject
