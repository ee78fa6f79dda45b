"""The form of a role: its permissions in a table, grouped by resource."""

from typing import Any

from django import forms

from rbac.models import Role
from rbac.permission_table import role_permissions


class RoleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A role with its permissions."""

    granted = role_permissions()

    class Meta:
        model = Role
        fields = ("scope", "identifier", "name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["granted"] = list(self.instance.permissions.values_list("permission", flat=True))
        if "scope" in self.fields:
            self.fields["scope"].required = True
