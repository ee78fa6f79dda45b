"""API of roles."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import operations
from rbac.models import Role
from rbac.queries import list_visible_roles
from web.api.parameters import LIST_PARAMETERS
from web.api.views import BaseApiView, filter_by_scope


class RoleDocument(serializers.Serializer[Any]):
    """Role; `scope` is null for a built-in role."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    builtin = serializers.BooleanField()
    scope = serializers.CharField(source="scope.path", allow_null=True, default=None)
    permissions = serializers.SerializerMethodField()

    def get_permissions(self, role: Role) -> list[str]:
        return sorted(granted.permission for granted in role.permissions.all())


class RoleInput(serializers.Serializer[Any]):
    """Fields of a new role."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    permissions = serializers.ListField(child=serializers.CharField(max_length=64), max_length=500)
    scope = serializers.CharField(required=False, write_only=True, max_length=400)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class RoleChange(serializers.Serializer[Any]):
    """Writable fields of a role."""

    name = serializers.CharField(max_length=128)
    permissions = serializers.ListField(child=serializers.CharField(max_length=64), max_length=500)


class BaseRoleView(BaseApiView):
    """Base of the role routes."""

    def visible_roles(self) -> QuerySet[Role]:
        """Return the built-in roles and the roles of scopes whose roles the caller may view."""
        return list_visible_roles(self.principal).select_related("scope").prefetch_related("permissions")


class RoleListView(BaseRoleView):
    """Roles."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=RoleDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.paginate(filter_by_scope(request, self.visible_roles()), RoleDocument)

    @extend_schema(request=RoleInput, responses={201: RoleDocument})
    def post(self, request: Request) -> Response:
        given = self.get_validated_body(RoleInput)
        made = operations.create_role(
            actor=self.principal,
            scope=self.get_named_scope(),
            identifier=given["identifier"],
            name=given["name"],
            permissions=given["permissions"],
        )
        return Response(RoleDocument(made).data, status=201)


class RoleDetailView(BaseRoleView):
    """Role."""

    @extend_schema(responses=RoleDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(RoleDocument(self.get_row(self.visible_roles(), pk=pk)).data)

    @extend_schema(request=RoleChange, responses=RoleDocument)
    def put(self, request: Request, pk: int) -> Response:
        role = self.get_row(self.visible_roles(), pk=pk)
        changed = operations.update_role(
            actor=self.principal, role=role, **self.get_validated_body(RoleChange)
        )
        return Response(RoleDocument(Role.objects.get(pk=changed.pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_role(actor=self.principal, role=self.get_row(self.visible_roles(), pk=pk))
        return Response(status=204)
