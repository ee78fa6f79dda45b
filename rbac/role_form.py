"""The form of a role: its permissions as boxes to tick, grouped by resource."""

from typing import Any

from django import forms

from rbac.models import Role
from rbac.permissions import ALWAYS_GRANTED, RESOURCES


class PermissionBoxes(forms.CheckboxSelectMultiple):
    """Permissions grouped by resource; the one that every member has is ticked and locked (R080)."""

    def create_option(
        self,
        name: str,
        value: Any,
        label: int | str,
        selected: bool,
        index: int,
        subindex: int | None = None,
        attrs: dict[str, Any] | None = None,
    ) -> dict[str, Any]:
        locked = value == ALWAYS_GRANTED
        option = super().create_option(name, value, label, selected or locked, index, subindex, attrs)
        if locked:
            option["attrs"] |= {"disabled": True, "checked": True}
        return option


class RoleForm(forms.ModelForm):  # type: ignore[type-arg]
    """A role with its permissions."""

    granted = forms.MultipleChoiceField(
        label="Permissions",
        required=False,
        widget=PermissionBoxes,
        choices=[(r.title, [(p.identifier, p.title) for p in r.permissions]) for r in RESOURCES],
    )

    class Meta:
        model = Role
        fields = ("scope", "identifier", "name")

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.instance.pk:
            self.initial["granted"] = list(self.instance.permissions.values_list("permission", flat=True))
        if "scope" in self.fields:
            self.fields["scope"].required = True
