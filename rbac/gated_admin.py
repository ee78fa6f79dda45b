"""The base of every admin form: it asks the policy, row by row, instead of the framework's permissions."""

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.db.models import ForeignKey, Model, QuerySet
from django.forms import ModelChoiceField
from django.http import HttpRequest

from rbac.models import Scope, User
from rbac.policy import can, can_anywhere, scopes_where, visible_to

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Any]
else:
    ModelAdmin = admin.ModelAdmin


class GatedAdmin(ModelAdmin):
    """Asks the policy instead of the framework's permissions, row by row."""

    view_permission = ""
    add_permission = ""
    change_permission = ""
    delete_permission = ""

    def has_module_permission(self, request: HttpRequest) -> bool:
        return self._may(request, self.view_permission, None)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.view_permission, obj)

    def has_add_permission(self, request: HttpRequest) -> bool:
        return self._may(request, self.add_permission, None)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.change_permission, obj)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return self._may(request, self.delete_permission, obj)

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        return visible_to(principal_of(request), self.view_permission, super().get_queryset(request))

    def formfield_for_foreignkey(
        self, db_field: "ForeignKey[Any, Any]", request: HttpRequest, **kwargs: Any
    ) -> "ModelChoiceField[Any] | None":
        if db_field.name == "scope" and self.add_permission:
            kwargs["queryset"] = scopes_where(principal_of(request), self.add_permission).order_by("path")
        return super().formfield_for_foreignkey(db_field, request, **kwargs)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        # Rows are changed one by one, through operations that write the audit trail.
        return {}

    def _may(self, request: HttpRequest, permission: str, obj: Model | None) -> bool:
        if not permission:
            return False
        principal = principal_of(request)
        return (
            can_anywhere(principal, permission) if obj is None else self._may_on(principal, permission, obj)
        )

    def _may_on(self, principal: User, permission: str, obj: Any) -> bool:
        return can(principal, permission, obj)


def principal_of(request: HttpRequest) -> User:
    """Return who uses the admin site; it lets nobody else in."""
    if not isinstance(request.user, User):
        raise TypeError("The admin site serves signed-in users only.")
    return request.user


class AccountAdmin(GatedAdmin):
    """Things that belong to the account as a whole, like users."""

    def _may(self, request: HttpRequest, permission: str, obj: Model | None) -> bool:
        return bool(permission) and can(principal_of(request), permission, Scope.objects.account())

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        rows: QuerySet[Any] = self.model._default_manager.all()
        return rows if self._may(request, self.view_permission, None) else rows.none()
