"""Forms of roles: a name, and permissions as a table of checkboxes."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from django import forms

from guards.limits import NAME_CHARACTERS
from rbac.permissions import ALWAYS_GRANTED, PERMISSIONS, RESOURCE_TYPES
from web.forms.page_forms import PageForm, ScopeField
from web.forms.resource_forms import IdentifierField, IdentifierForm, ScopedForm, VersionField


@dataclass(frozen=True)
class PermissionChoice:
    """Checkbox of a permission; a locked one cannot be changed."""

    identifier: str
    words: str
    is_checked: bool
    is_locked: bool


@dataclass(frozen=True)
class PermissionChoices:
    """Row of the table: the permissions on one type of resource."""

    title: str
    choices: list[PermissionChoice]


class RoleForm(PageForm):
    """Form with the name and the permissions of a role; only `grantable` permissions can be selected."""

    name = forms.CharField(max_length=int(NAME_CHARACTERS))
    permissions = forms.MultipleChoiceField(
        required=False, choices=[(each.identifier, each.words) for each in PERMISSIONS.values()]
    )
    version = VersionField()

    def __init__(self, *args: Any, grantable: Collection[str], **kwargs: Any) -> None:
        super().__init__(*args, auto_id="role-%s", **kwargs)
        self._locked = {*PERMISSIONS.keys() - set(grantable), ALWAYS_GRANTED}

    @property
    def has_locked(self) -> bool:
        """Return whether the user lacks permissions, besides the one that is always granted."""
        return len(self._locked) > 1

    def list_permission_rows(self) -> list[PermissionChoices]:
        """Return the table of permissions, in the order of the catalog."""
        checked = {*(self["permissions"].value() or ()), ALWAYS_GRANTED}
        return [
            PermissionChoices(
                resource.title,
                [
                    PermissionChoice(
                        each.identifier,
                        each.words,
                        each.identifier in checked,
                        each.identifier in self._locked,
                    )
                    for each in resource.permissions
                ],
            )
            for resource in RESOURCE_TYPES
        ]

    def clean_permissions(self) -> set[str]:
        """Return the permissions with the one that is always granted (R080)."""
        return {*self.cleaned_data["permissions"], ALWAYS_GRANTED}


class NewRoleForm(IdentifierForm, ScopedForm, RoleForm):
    """Form for a new role."""

    in_scope = ScopeField(help_text="The role can be assigned in this scope and below.")
    identifier = IdentifierField(
        help_text="Used in the API. It cannot be changed. Generated from the name if empty."
    )

    field_order = ("name", "in_scope", "identifier", "permissions")
