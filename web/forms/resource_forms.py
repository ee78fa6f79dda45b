"""Form bases for resources with a name, an identifier and a scope."""

import re
from typing import Any

from django import forms

from guards.limits import NAME_CHARACTERS
from rbac.models import Scope
from rbac.policy import Principal
from web.forms.page_forms import PageForm, ScopeField

_FORBIDDEN_CHARACTERS = re.compile(r"[^A-Za-z0-9_$]+")


def suggest_identifier(name: str) -> str:
    """Return the identifier that a name suggests: "My app" is my_app. It is empty if nothing can be used."""
    found = _FORBIDDEN_CHARACTERS.sub("_", name.strip().lower()).strip("_")[:100]
    return f"_{found}" if found[:1].isdigit() else found


class ResourceForm(PageForm):
    """A resource with a name and a description; `version` is the one that the form was opened with."""

    name = forms.CharField(max_length=NAME_CHARACTERS)
    description = forms.CharField(
        required=False, max_length=4096, widget=forms.Textarea(attrs={"class": "input area", "rows": 2})
    )
    version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)


class IdentifierForm(PageForm):
    """A new resource, which takes its identifier from its name unless it is given one."""

    identifier = forms.CharField(
        required=False,
        max_length=NAME_CHARACTERS,
        help_text="Pipelines and the API refer to it. It cannot be changed. Made from the name if empty.",
        widget=forms.TextInput(
            attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        ),
    )

    def clean_identifier(self) -> str:
        """Return the given identifier, or the one that the name suggests."""
        given: str = self.cleaned_data["identifier"]
        return given or suggest_identifier(self.data.get(self.add_prefix("name"), ""))


class ScopedForm(PageForm):
    """A new resource in a scope; it offers the scopes where the person may create one."""

    in_scope = ScopeField(help_text="The scope and those below it can use it.")

    def __init__(
        self, *args: Any, person: Principal, permission: str, scope: Scope | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.offer(person, permission, scope)
