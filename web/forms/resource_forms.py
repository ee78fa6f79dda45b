"""Form bases of resources with a name, an identifier and a scope."""

import re
from typing import Any

from django import forms
from django.db.models import Q

from guards.limits import NAME_CHARACTERS
from rbac.models import Scope
from rbac.policy import Principal
from web.forms.page_forms import PageForm, ScopeField

_FORBIDDEN_CHARACTERS = re.compile(r"[^A-Za-z0-9_$]+")


def suggest_identifier(name: str) -> str:
    """Suggest an identifier for a name: "My app" becomes my_app. It is empty if no character can be used."""
    identifier = _FORBIDDEN_CHARACTERS.sub("_", name.strip().lower()).strip("_")[:100]
    return f"_{identifier}" if identifier[:1].isdigit() else identifier


class VersionField(forms.IntegerField):
    """The version of the resource that the form was opened with."""

    def __init__(self) -> None:
        super().__init__(min_value=1, required=False, widget=forms.HiddenInput)


class ResourceForm(PageForm):
    """Form of a resource with name and description; `version` is the version being edited."""

    name = forms.CharField(max_length=int(NAME_CHARACTERS))
    description = forms.CharField(
        required=False, max_length=4096, widget=forms.Textarea(attrs={"class": "input area", "rows": 2})
    )
    version = VersionField()


class IdentifierField(forms.CharField):
    """The identifier of a new resource."""

    def __init__(self, *, help_text: str) -> None:
        attributes = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        super().__init__(
            required=False,
            max_length=int(NAME_CHARACTERS),
            help_text=help_text,
            widget=forms.TextInput(attrs=attributes),
        )


class IdentifierForm(PageForm):
    """Form for a new resource; its identifier defaults to one made from the name."""

    identifier = IdentifierField(
        help_text="Used in pipelines. It cannot be changed. Generated from the name if empty."
    )

    def clean_identifier(self) -> str:
        """Return the submitted identifier, or one made from the name."""
        identifier: str = self.cleaned_data["identifier"]
        return identifier or suggest_identifier(self.data.get(self.add_prefix("name"), ""))


class ScopedForm(PageForm):
    """Form for a new resource in a scope; offers the scopes where the user may create one."""

    in_scope = ScopeField(help_text="Pipelines in this scope and below can use it.")

    def __init__(
        self,
        *args: Any,
        person: Principal,
        permission: str,
        scope: Scope | None,
        among: Q | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.set_choices(person, permission, scope, among=among)


class RenameForm(PageForm):
    """Form for a new name of a resource."""

    name = forms.CharField(max_length=int(NAME_CHARACTERS))
