"""Form field that shows permissions as a table of checkboxes."""

from dataclasses import dataclass
from typing import Any, Final

from django import forms
from django.template.loader import render_to_string
from django.utils.safestring import SafeString

from rbac.permissions import ALWAYS_GRANTED, RESOURCE_TYPES, Permission, ResourceType

ACTION_COLUMNS: Final = ("view", "edit", "delete", "access", "execute")
COLUMN_TITLES: Final = ("View", "Create/Edit", "Delete", "Access", "Execute")


@dataclass(frozen=True)
class PermissionCheckbox:
    """One permission of the table."""

    permission: Permission
    label: str
    checked: bool
    locked: bool


@dataclass(frozen=True)
class PermissionRow:
    """Row of the permission table for one resource type: common columns, then its special permissions."""

    title: str
    boxes: tuple[PermissionCheckbox | None, ...]
    others: tuple[PermissionCheckbox, ...]


class PermissionTable(forms.CheckboxSelectMultiple):
    """Ticks permissions in a table; `always` is ticked and locked, or everything is where it is only read."""

    def __init__(self, *, always: str = "", read_only: bool = False) -> None:
        super().__init__()
        self.always, self.read_only = always, read_only

    def render(
        self, name: str, value: Any, attrs: dict[str, Any] | None = None, renderer: Any = None
    ) -> SafeString:
        ticked = frozenset(value or ()) | {self.always}
        lines = [self._line(resource, ticked) for resource in RESOURCE_TYPES]
        context = {
            "name": name,
            "lines": lines,
            "titles": COLUMN_TITLES,
            "id": (attrs or {}).get("id", f"id_{name}"),
        }
        return render_to_string("admin/rbac/permissions.html", context)

    def _line(self, resource: ResourceType, ticked: frozenset[str]) -> PermissionRow:
        boxes = {p.action: self._box(resource, p, ticked) for p in resource.permissions}
        other_boxes = tuple(box for action, box in boxes.items() if action not in ACTION_COLUMNS)
        return PermissionRow(
            resource.title, tuple(boxes.get(action) for action in ACTION_COLUMNS), other_boxes
        )

    def _box(
        self, resource: ResourceType, permission: Permission, ticked: frozenset[str]
    ) -> PermissionCheckbox:
        locked = self.read_only or permission.identifier == self.always
        label = f"{resource.title}: {permission.title}"
        return PermissionCheckbox(permission, label, permission.identifier in ticked, locked)


class PermissionsField(forms.MultipleChoiceField):
    """Permissions of the catalogue."""

    def __init__(self, *, label: str, help_text: str = "", always: str = "") -> None:
        super().__init__(
            label=label,
            help_text=help_text,
            required=False,
            widget=PermissionTable(always=always),
            choices=[(p.identifier, p.title) for r in RESOURCE_TYPES for p in r.permissions],
        )


def build_role_permissions_field() -> PermissionsField:
    """Return the field of a role's permissions; every role includes viewing delegates (R080)."""
    hint = "Every user with a role can view delegates: this permission is always granted."
    return PermissionsField(label="Permissions", help_text=hint, always=ALWAYS_GRANTED)
