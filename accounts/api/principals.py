"""Representation of principals in the API: users, groups and service accounts."""

from typing import Any, TypedDict

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from rbac.models import RoleAssignment, Scope, ServiceAccount, User, UserGroup
from rbac.policy import Principal, filter_visible
from rbac.queries import list_visible_users
from web.http.problems import BadInput

PRINCIPAL_TYPES = ("user", "group", "service_account")


class PrincipalInput(serializers.Serializer[Any]):
    """Principal by type and key; a service account has its own key, not that of its user."""

    type = serializers.ChoiceField(choices=PRINCIPAL_TYPES)
    id = serializers.IntegerField(min_value=1)


class PrincipalDocument(serializers.Serializer[Any]):
    """Principal of a role assignment."""

    type = serializers.ChoiceField(choices=PRINCIPAL_TYPES)
    id = serializers.IntegerField()
    name = serializers.CharField()


class AssignmentTarget(TypedDict, total=False):
    """Assignment target in the format of the operation."""

    user: User
    group: UserGroup


@extend_schema_field(PrincipalDocument)
class PrincipalField(serializers.Field[Any, Any, Any, Any]):
    """Principal of a role assignment, loaded with `user__service_account` and `group`."""

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(source="*", read_only=True, **kwargs)

    def to_representation(self, value: RoleAssignment) -> dict[str, Any]:
        return build_principal_document(value.user or value.group)


def build_principal_document(principal: User | UserGroup | None) -> dict[str, Any]:
    """Return the document of a user, of a service account or of a group."""
    if isinstance(principal, UserGroup):
        return {"type": "group", "id": principal.pk, "name": principal.name}
    if principal is None:
        raise TypeError("An assignment needs a principal.")
    account = getattr(principal, "service_account", None)
    if account is not None:
        return {"type": "service_account", "id": account.pk, "name": account.name}
    return {"type": "user", "id": principal.pk, "name": principal.username}


def get_named_principal(asker: Principal, reference: dict[str, Any], scope: Scope) -> AssignmentTarget:
    """Return the named principal if `asker` may view it, or if it belongs to `scope` or a scope above.

    Raises `BadInput` if there is none.
    """
    if reference["type"] == "user":
        return {"user": _get_row(list_visible_users(asker), reference["id"])}
    if reference["type"] == "group":
        return {
            "group": _get_assignable_row(
                asker, "core_usergroup_view", UserGroup.objects.all(), reference["id"], scope
            )
        }
    accounts = ServiceAccount.objects.select_related("user")
    return {
        "user": _get_assignable_row(asker, "core_serviceaccount_view", accounts, reference["id"], scope).user
    }


def _get_assignable_row(asker: Principal, permission: str, rows: QuerySet[Any], pk: int, scope: Scope) -> Any:
    above = rows.filter(scope__path__in=scope.ancestor_paths())
    return _get_row(above | filter_visible(asker, permission, rows), pk)


def _get_row(rows: QuerySet[Any], pk: int) -> Any:
    row = rows.filter(pk=pk).first()
    if row is None:
        errors = [{"path": "principal.id", "message": "does not exist in this scope"}]
        raise BadInput("The input is not valid.", errors=errors)
    return row
