"""Routes about who has which role where."""

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import operations
from rbac.models import Role, RoleAssignment, User, UserGroup
from rbac.policy import require
from web.problems import BadInput
from web.rest import LISTED, Route


class AssignmentDocument(serializers.Serializer[Any]):
    """Who has a role where."""

    id = serializers.IntegerField()
    scope = serializers.CharField(source="scope.path")
    role = serializers.CharField(source="role.identifier")
    role_id = serializers.IntegerField()
    user = serializers.CharField(source="user.username", allow_null=True, default=None)
    group = serializers.CharField(source="group.identifier", allow_null=True, default=None)
    expires_at = serializers.DateTimeField(allow_null=True)


class AssignmentInput(serializers.Serializer[Any]):
    """A role for a user (by user name) or for a group (by identifier)."""

    role = serializers.CharField(max_length=128)
    user = serializers.CharField(required=False, max_length=150)
    group = serializers.CharField(required=False, max_length=128)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class RoleAssignments(Route):
    """Who has which role where."""

    @extend_schema(parameters=LISTED, responses=AssignmentDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = RoleAssignment.objects.select_related("scope", "role", "user", "group")
        if role := request.GET.get("identifier"):
            rows = rows.filter(role__identifier=role)
        return self.listed("core_user_view", rows, AssignmentDocument, by_identifier=False)

    @extend_schema(request=AssignmentInput, responses={201: AssignmentDocument})
    def post(self, request: Request) -> Response:
        given, scope = self.given(AssignmentInput), self.scope_named()
        # Asked first: the answers below tell which users and groups there are.
        require(self.principal, "core_user_manage", scope)
        above = scope.ancestor_paths()
        roles = Role.objects.filter(Q(scope=None) | Q(scope__path__in=above), identifier=given["role"])
        made = operations.assign_role(
            actor=self.principal,
            scope=scope,
            # A role of a nearer scope is meant before a built-in one of the same name.
            role=_named(roles.select_related("scope").order_by("builtin", "-scope__path"), "role"),
            user=_named(User.objects.filter(username=given["user"]), "user") if "user" in given else None,
            group=_named(UserGroup.objects.filter(identifier=given["group"], scope__path__in=above), "group")
            if "group" in given
            else None,
            expires_at=given["expires_at"],
        )
        return Response(AssignmentDocument(made).data, status=201)


class OneRoleAssignment(Route):
    """One role assignment; it is removed and made anew, never changed."""

    @extend_schema(responses=AssignmentDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(AssignmentDocument(self._found(pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.remove_assignment(actor=self.principal, assignment=self._found(pk))
        return Response(status=204)

    def _found(self, pk: int) -> RoleAssignment:
        rows = RoleAssignment.objects.select_related("scope", "role", "user", "group")
        return self.one("core_user_view", rows, pk=pk)


def _named(rows: QuerySet[Any], what: str) -> Any:
    found = rows.first()
    if found is None:
        raise BadInput("The input is not valid.", errors=[{"path": what, "message": "is not known here"}])
    return found
