"""Forms of organizations and projects."""

from typing import Any

from django import forms

from guards.limits import NAME_CHARACTERS
from web.forms.page_forms import PageForm, build_identifier

MONOSPACE_ATTRIBUTES = {"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}


class NewScopeForm(PageForm):
    """An organization or a project that is not there yet."""

    name = forms.CharField(max_length=NAME_CHARACTERS, help_text="The display name. You can change it later.")
    identifier = forms.CharField(
        required=False,
        max_length=128,
        help_text="Used in the API and in URLs. It cannot be changed. Generated from the name if empty.",
        widget=forms.TextInput(
            attrs={"class": "input mono", "spellcheck": "false", "autocapitalize": "none"}
        ),
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="scope-%s", **kwargs)

    def clean_identifier(self) -> str:
        """Return the identifier, derived from the name by default."""
        given = str(self.cleaned_data["identifier"])
        return given or build_identifier(str(self.cleaned_data.get("name", "")))


class RenameScopeForm(PageForm):
    """Another name for the account, an organization or a project."""

    name = forms.CharField(max_length=NAME_CHARACTERS)

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="scope-%s", **kwargs)
