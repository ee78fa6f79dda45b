"""Forms of organizations and projects."""

from typing import Any

from django import forms

from guards.limits import NAME_CHARACTERS
from web.forms.resource_forms import IdentifierField, IdentifierForm, RenameForm


class NewScopeForm(IdentifierForm):
    """An organization or a project that is not there yet."""

    name = forms.CharField(
        max_length=int(NAME_CHARACTERS), help_text="The display name. You can change it later."
    )
    identifier = IdentifierField(
        help_text="Used in the API and in URLs. It cannot be changed. Generated from the name if empty."
    )

    field_order = ("name", "identifier")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="scope-%s", **kwargs)


class RenameScopeForm(RenameForm):
    """Form for a new name of the account, an organization or a project."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="scope-%s", **kwargs)
