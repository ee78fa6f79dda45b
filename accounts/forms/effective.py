"""Who and what a page of effective access is about."""

from typing import Any

from django import forms
from django.core.exceptions import ValidationError

from accounts.asked import scope_asked, thing_by_identifier
from accounts.subjects import subject_named
from rbac.models import Scope, User, UserGroup
from rbac.policy import Scoped, can
from rbac.policy.thing_types import named_kinds
from web.page_forms import PageForm

SEE_PEOPLE = "core_user_view"
NOTHING = "There is no such thing in this scope, or you may not see it."


class EffectiveAccessForm(PageForm):
    """Somebody, and a thing or a whole scope; about others asks who may see users there."""

    who = forms.CharField(
        max_length=600,
        widget=forms.TextInput(attrs={"list": "subjects"}),
        help_text="A user name, or a group as group:account/default/operators.",
    )
    scope = forms.CharField(max_length=400, widget=forms.TextInput(attrs={"list": "scopes"}))
    kind = forms.ChoiceField(
        required=False, choices=lambda: [("", "Everything in it"), *named_kinds()], label="What"
    )
    identifier = forms.CharField(
        required=False,
        max_length=1024,
        help_text="Of one thing: a file goes by its path, a delegate by its name.",
    )
    depending = frozenset({"kind", "identifier"})

    def __init__(self, data: dict[str, str], *, asker: User) -> None:
        super().__init__(data)
        self._asker = asker

    def clean(self) -> dict[str, Any]:
        found = super().clean() or {}
        if self.errors:
            return found
        scope = scope_asked(self._asker, found["scope"])
        if scope is None:
            raise ValidationError({"scope": "There is no such scope for you."})
        return {**found, "thing": self._thing(scope), "subject": self._subject(scope)}

    def _thing(self, scope: Scope) -> Scoped:
        kind, identifier = self.cleaned_data["kind"], self.cleaned_data["identifier"]
        if bool(kind) != bool(identifier):
            place = "identifier" if kind else "kind"
            raise ValidationError({place: "Name one thing by what it is and its identifier, or leave both."})
        if not kind:
            return scope
        thing = thing_by_identifier(self._asker, kind, identifier, scope.path)
        if thing is None:
            raise ValidationError({"identifier": NOTHING})
        return thing

    def _subject(self, scope: Scope) -> User | UserGroup:
        name = self.cleaned_data["who"]
        if name == self._asker.username:
            return self._asker
        if not can(self._asker, SEE_PEOPLE, scope):
            raise ValidationError({"who": f"You need the permission {SEE_PEOPLE} there to ask about others."})
        subject = subject_named(self._asker, name)
        if subject is None:
            raise ValidationError({"who": "There is nobody of this name, or you may not see them."})
        return subject
