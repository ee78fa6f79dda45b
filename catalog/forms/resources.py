"""Form bases for resources with a name, an identifier and a scope."""

import re
from typing import Any

from django import forms

from rbac.models import Scope
from rbac.policy import Principal
from web.forms.page_forms import PageForm, ScopeField

MOST_NAME_CHARACTERS = 128
_FORBIDDEN_CHARACTERS = re.compile(r"[^A-Za-z0-9_$]+")


def suggest_identifier(name: str) -> str:
    """Suggest an identifier for a name: "My app" becomes my_app."""
    found = _FORBIDDEN_CHARACTERS.sub("_", name.strip().lower()).strip("_")
    return f"_{found}" if found[:1].isdigit() else found


class ResourceForm(PageForm):
    """Form of a resource with name and description; `version` is the version being edited."""

    name = forms.CharField(max_length=MOST_NAME_CHARACTERS)
    description = forms.CharField(
        required=False, max_length=4096, widget=forms.Textarea(attrs={"class": "input area", "rows": 2})
    )
    version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)


class IdentifierForm(PageForm):
    """Form for a new resource; its identifier defaults to one made from the name."""

    identifier = forms.CharField(
        required=False,
        max_length=MOST_NAME_CHARACTERS,
        help_text="Used in pipelines. It cannot be changed. Generated from the name if empty.",
        widget=forms.TextInput(
            attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        ),
    )

    def clean_identifier(self) -> str:
        """Return the submitted identifier, or one made from the name."""
        given: str = self.cleaned_data["identifier"]
        return given or suggest_identifier(self.data.get(self.add_prefix("name"), ""))


class ScopedForm(PageForm):
    """Form for a new resource in a scope; offers the scopes where the user may create one."""

    in_scope = ScopeField(help_text="Pipelines in this scope and below can use it.")

    def __init__(
        self, *args: Any, person: Principal, permission: str, scope: Scope | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.set_choices(person, permission, scope)


class OverrideVersionForm(PageForm):
    """The version of the overrides being edited; 0 if there are none yet."""

    version = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput)
