"""Forms of organizations and projects."""

from django import forms

from guards.limits import NAME_CHARACTERS
from web.forms.resource_forms import IdentifierForm


class NewScopeForm(IdentifierForm):
    """An organization or a project that is not there yet."""

    name = forms.CharField(max_length=NAME_CHARACTERS, help_text="It can be changed later.")

    field_order = ("name", "identifier")
