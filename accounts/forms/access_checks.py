"""Forms of questions about access."""

from collections.abc import Mapping
from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from accounts.queries.access_checks import (
    get_member_scope,
    get_principal_by_name,
    get_resource_by_identifier,
    require_checks_of_others,
)
from accounts.queries.access_questions import ACCESS_ACTIONS, list_action_choices
from rbac.models import Scope, User, UserGroup
from rbac.policy import HasScope
from rbac.policy.resources import list_identifiable_types
from web.forms.page_forms import PageForm

RESOURCE_NOT_FOUND = "Not found in this scope, or you cannot view it."


class AccessQuestionForm(PageForm):
    """Form with an action, and a resource or scope."""

    action = forms.ChoiceField(choices=list_action_choices, label="Can")
    scope = forms.CharField(
        max_length=400, label="In", widget=forms.TextInput(attrs={"list": "scopes", "spellcheck": "false"})
    )
    kind = forms.ChoiceField(
        required=False, choices=lambda: [("", "All resources"), *list_identifiable_types()], label="On"
    )
    identifier = forms.CharField(
        required=False,
        max_length=1024,
        help_text="The identifier of one resource: for a file its path, for a delegate its name.",
    )
    conditional_fields = frozenset({"kind", "identifier"})

    def __init__(
        self,
        data: Mapping[str, str] | None = None,
        *,
        asker: User,
        initial: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(data, initial=initial, auto_id="check-%s")
        self._asker = asker

    def clean(self) -> dict[str, Any]:
        """Return the input with the resource as `thing`."""
        cleaned = super().clean() or {}
        if self.errors:
            return cleaned
        scope = get_member_scope(self._asker, cleaned["scope"])
        if scope is None:
            raise ValidationError({"scope": "This scope does not exist, or you cannot view it."})
        thing, action = self._thing(scope), ACCESS_ACTIONS.get(cleaned["action"])
        if action is not None and not action.applies_to(thing):
            raise ValidationError({"action": "This action is for another type of resource."})
        return {**cleaned, "thing": thing, "action": action}

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


class EffectiveAccessForm(AccessQuestionForm):
    """Form with a principal and a question; other principals need permission to view users."""

    who = forms.CharField(
        max_length=600,
        widget=forms.TextInput(
            attrs={
                "list": "subjects",
                "spellcheck": "false",
                "autocapitalize": "none",
                "placeholder": "User, service account or group",
            }
        ),
        help_text="A user name, or a group as group:account/default/operators.",
    )
    action = forms.ChoiceField(
        required=False, choices=lambda: [("", "All permissions"), *list_action_choices()], label="Can"
    )
    conditional_fields = frozenset({"action", "kind", "identifier"})
    field_order = ("who", "action", "scope", "kind", "identifier")

    def clean(self) -> dict[str, Any]:
        """Return the input with the principal as `subject`. Raises `Forbidden`, also from `is_valid`."""
        cleaned = super().clean()
        return cleaned if self.errors else {**cleaned, "subject": self._subject(cleaned["thing"])}

    def _subject(self, thing: HasScope) -> User | UserGroup:
        name = self.cleaned_data["who"]
        if name == self._asker.username:
            return self._asker
        require_checks_of_others(self._asker, thing)
        subject = get_principal_by_name(self._asker, name)
        if subject is None:
            raise ValidationError({"who": "There is no user or group with this name, or you cannot view it."})
        return subject
