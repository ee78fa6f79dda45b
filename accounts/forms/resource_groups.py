"""Forms of resource groups."""

from collections.abc import Iterable
from typing import Any

from django import forms

from guards.limits import NAME_CHARACTERS
from rbac.permissions import RESOURCE_TYPES
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, ScopedForm, VersionField


class ResourceGroupForm(PageForm):
    """Form with the name of a resource group, and the types whose resources all belong to it."""

    name = forms.CharField(max_length=int(NAME_CHARACTERS))
    description = forms.CharField(required=False, max_length=400)
    types = forms.MultipleChoiceField(
        required=False,
        label="All resources of these types",
        choices=[(resource.identifier, resource.title) for resource in RESOURCE_TYPES],
        widget=forms.CheckboxSelectMultiple,
    )
    version = VersionField()

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, auto_id="group-%s", **kwargs)


class NewResourceGroupForm(ScopedForm, ResourceGroupForm):
    """Form for a new resource group."""

    in_scope = ScopeField(help_text="Role assignments in this scope and below can be limited to the group.")
    identifier = IdentifierField(
        help_text="Used in the API. It cannot be changed. Generated from the name if empty."
    )

    field_order = ("name", "in_scope", "identifier", "description", "types")


class GroupResourcesForm(PageForm):
    """Choice of resources to add to a resource group; only those with `identifiers` can be selected."""

    entries = forms.MultipleChoiceField(
        label="Resources",
        error_messages={
            "required": "Select at least one resource.",
            "invalid_choice": "%(value)s does not exist here, or you cannot view it.",
        },
    )

    def __init__(self, *args: Any, identifiers: Iterable[str], **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        field: Any = self.fields["entries"]
        field.choices = [(identifier, identifier) for identifier in identifiers]
