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
    """The identifier that a name suggests: "My app" is my_app."""
    found = _FORBIDDEN_CHARACTERS.sub("_", name.strip().lower()).strip("_")
    return f"_{found}" if found[:1].isdigit() else found


class ResourceForm(PageForm):
    """A thing with a name and a description; `version` is the one that the writer began from."""

    name = forms.CharField(max_length=MOST_NAME_CHARACTERS)
    description = forms.CharField(
        required=False, max_length=4096, widget=forms.Textarea(attrs={"class": "input area", "rows": 2})
    )
    version = forms.IntegerField(min_value=1, required=False, widget=forms.HiddenInput)


class IdentifierForm(PageForm):
    """A new thing, which takes its identifier from its name unless it is given one."""

    identifier = forms.CharField(
        required=False,
        max_length=MOST_NAME_CHARACTERS,
        help_text="Used in pipelines. It cannot be changed. Generated from the name if empty.",
        widget=forms.TextInput(
            attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        ),
    )

    def clean_identifier(self) -> str:
        """What was given, or what the name suggests."""
        given: str = self.cleaned_data["identifier"]
        return given or suggest_identifier(self.data.get(self.add_prefix("name"), ""))


class ScopedForm(PageForm):
    """A new thing that lies in a scope; offered are those where the person may make one."""

    in_scope = ScopeField(help_text="Pipelines in this scope and below can use it.")

    def __init__(
        self, *args: Any, person: Principal, permission: str, scope: Scope | None, **kwargs: Any
    ) -> None:
        super().__init__(*args, **kwargs)
        field = self.fields["in_scope"]
        if isinstance(field, ScopeField):
            field.set_choices(person, permission, scope)


class OverrideVersionForm(PageForm):
    """Which version of the overrides the writer began from; 0 where there were none."""

    version = forms.IntegerField(min_value=0, required=False, widget=forms.HiddenInput)
