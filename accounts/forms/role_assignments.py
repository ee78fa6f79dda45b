"""Form that assigns a role."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from django import forms
from django.db.models import Q, QuerySet
from django.utils import timezone

from rbac.models import ResourceGroup, Role, Scope
from rbac.policy import (
    Forbidden,
    Principal,
    build_below_filter,
    filter_visible,
    list_permitted_scopes,
)
from web.forms.drafts import NewResource
from web.forms.page_forms import ScopeField
from web.forms.resource_forms import ScopedForm


def list_assignable_roles(principal: Principal, permission: str) -> QuerySet[Role]:
    """Return the built-in roles and those of the scopes where `permission` is granted."""
    scope_ids = list_permitted_scopes(principal, permission).values("pk")
    roles = Role.objects.filter(Q(scope=None) | Q(scope__in=scope_ids)).select_related("scope")
    return roles.order_by("-builtin", "name")


class RoleField(forms.ModelChoiceField):
    """A role by its key; the built-in ones first."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})" if obj.scope else str(obj.name)


class ResourceGroupField(forms.ModelChoiceField):
    """A resource group by its key."""

    def label_from_instance(self, obj: Any) -> str:
        return f"{obj.name} ({obj.scope.path})"


EXPIRY_CHOICES: Final = (
    ("", "Never"),
    ("1", "In a day"),
    ("7", "In a week"),
    ("30", "In 30 days"),
    ("90", "In 90 days"),
    ("365", "In a year"),
)


NEW_ROLE: Final = NewResource("role", "new-role", "core_role_edit")


class RoleAssignmentForm(ScopedForm):
    """Form with role, scope, resource group and expiry; `below` limits the scopes."""

    new_resources: ClassVar[Mapping[str, NewResource]] = {
        "role": NEW_ROLE,
        "resource_group": NewResource("resource group", "new-resource-group", "core_resourcegroup_edit"),
    }
    role = RoleField(
        Role.objects.none(), empty_label=None, help_text="You can assign roles whose permissions you have."
    )
    in_scope = ScopeField(help_text="The role applies in this scope and below.")
    resource_group = ResourceGroupField(
        ResourceGroup.objects.none(),
        required=False,
        empty_label="All resources",
        help_text="Limits the role to the resources of this group.",
    )
    expires = forms.ChoiceField(choices=EXPIRY_CHOICES, required=False)

    def __init__(
        self, *args: Any, person: Principal, permission: str, below: Scope | None = None, **kwargs: Any
    ) -> None:
        super().__init__(*args, person=person, permission=permission, **kwargs)
        fields: dict[str, Any] = self.fields
        if below is not None:
            scopes = fields["in_scope"].queryset.filter(build_below_filter(below, "pk"))
            if not scopes.exists():
                raise Forbidden(permission)
            fields["in_scope"].queryset = scopes
        fields["role"].queryset = list_assignable_roles(person, permission)
        # Default to the role with the fewest permissions, so that nobody grants more by mistake.
        fields["role"].initial = Role.objects.filter(identifier="viewer", scope=None).first()
        groups = ResourceGroup.objects.select_related("scope").order_by("name")
        fields["resource_group"].queryset = filter_visible(person, "core_resourcegroup_view", groups)

    @property
    def expires_at(self) -> datetime | None:
        """Return the end of the assignment, or None."""
        days = self.cleaned_data["expires"]
        return timezone.now() + timedelta(days=int(days)) if days else None
