"""API of roles and role assignments."""

from typing import Any

from django.db import transaction
from django.db.models import Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.principals import PRINCIPAL_TYPES, PrincipalField, PrincipalInput, get_named_principal
from rbac import operations
from rbac.models import ResourceGroup, Role, RoleAssignment, Scope
from rbac.policy import require
from rbac.queries import list_visible_roles
from web.api.parameters import (
    FORCE_DELETE_PARAMETER,
    IF_MATCH_PARAMETER,
    LIST_PARAMETERS,
    parse_number,
)
from web.api.views import BaseApiView, check_version, filter_by_scope, respond_with_etag
from web.http.problems import BadInput


class RoleDocument(serializers.Serializer[Any]):
    """Role; `scope` is null for a built-in role."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    builtin = serializers.BooleanField()
    scope = serializers.CharField(source="scope.path", allow_null=True, default=None)
    permissions = serializers.SerializerMethodField()
    version = serializers.IntegerField()

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
        data = self.get_validated_body(RoleInput)
        role = operations.create_role(
            actor=self.principal,
            scope=self.get_named_scope(),
            identifier=data["identifier"],
            name=data["name"],
            permissions=data["permissions"],
        )
        return respond_with_etag(RoleDocument(role).data, role.version, status=201)


class RoleDetailView(BaseRoleView):
    """Role."""

    @extend_schema(responses=RoleDocument)
    def get(self, request: Request, pk: int) -> Response:
        role = self.get_row(self.visible_roles(), pk=pk)
        return respond_with_etag(RoleDocument(role).data, role.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=RoleChange, responses=RoleDocument)
    def put(self, request: Request, pk: int) -> Response:
        data = self.get_validated_body(RoleChange)
        with transaction.atomic():
            role = self.get_row(self.visible_roles().select_for_update(of=("self",)), pk=pk)
            check_version(request, role.version)
            operations.update_role(actor=self.principal, role=role, **data)
        changed = Role.objects.select_related("scope").get(pk=pk)
        return respond_with_etag(RoleDocument(changed).data, changed.version)

    @extend_schema(parameters=[FORCE_DELETE_PARAMETER, IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Delete a role; with `although_used`, remove its assignments too."""
        although_used = self.is_flag_set("although_used")
        with transaction.atomic():
            role = self.get_row(self.visible_roles().select_for_update(of=("self",)), pk=pk)
            check_version(request, role.version)
            operations.delete_role(actor=self.principal, role=role, although_used=although_used)
        return Response(status=204)


PRINCIPAL_TYPE_PARAMETER = OpenApiParameter(
    "principal_type", OpenApiTypes.STR, enum=PRINCIPAL_TYPES, description="Filter by principal type."
)
PRINCIPAL_ID_PARAMETER = OpenApiParameter(
    "principal_id", OpenApiTypes.INT, description="Filter by principal; requires `principal_type`."
)


class AssignmentDocument(serializers.Serializer[Any]):
    """Role of a principal in a scope; `resource_group` is null if the role applies to the whole scope."""

    id = serializers.IntegerField()
    principal = PrincipalField()
    role = serializers.CharField(source="role.identifier")
    role_id = serializers.IntegerField()
    scope = serializers.CharField(source="scope.path")
    resource_group = serializers.CharField(source="resource_group.identifier", allow_null=True, default=None)
    expires_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class AssignmentInput(serializers.Serializer[Any]):
    """Role by identifier for a principal, on the whole scope or on a resource group."""

    principal = PrincipalInput()
    role = serializers.CharField(max_length=128)
    scope = serializers.CharField(max_length=400)
    resource_group = serializers.CharField(required=False, allow_null=True, default=None, max_length=128)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class RoleAssignmentListView(BaseApiView):
    """Role assignments."""

    @extend_schema(
        parameters=[*LIST_PARAMETERS, PRINCIPAL_TYPE_PARAMETER, PRINCIPAL_ID_PARAMETER],
        responses=AssignmentDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = _filter_by_principal(request, _list_assignments())
        if role := request.GET.get("identifier"):
            rows = rows.filter(role__identifier=role)
        return self.list_visible("core_user_view", rows, AssignmentDocument, by_identifier=False)

    @extend_schema(request=AssignmentInput, responses={201: AssignmentDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(AssignmentInput)
        scope = self.get_scope(data["scope"])
        # Checked first: the errors below reveal existing principals.
        require(self.principal, "core_user_manage", scope)
        assignment = operations.assign_role(
            actor=self.principal,
            scope=scope,
            role=_get_role(data["role"], scope),
            resource_group=_get_resource_group(data["resource_group"], scope),
            expires_at=data["expires_at"],
            **get_named_principal(self.principal, data["principal"], scope),
        )
        return Response(AssignmentDocument(_list_assignments().get(pk=assignment.pk)).data, status=201)


class RoleAssignmentDetailView(BaseApiView):
    """Role assignment; delete and recreate it to change it."""

    @extend_schema(responses=AssignmentDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(AssignmentDocument(self._get_assignment(pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.remove_assignment(actor=self.principal, assignment=self._get_assignment(pk))
        return Response(status=204)

    def _get_assignment(self, pk: int) -> RoleAssignment:
        return self.get_visible("core_user_view", _list_assignments(), pk=pk)


def _list_assignments() -> QuerySet[RoleAssignment]:
    return RoleAssignment.objects.select_related(
        "scope", "role", "user__service_account", "group", "resource_group"
    )


def _filter_by_principal(request: Request, rows: QuerySet[RoleAssignment]) -> QuerySet[RoleAssignment]:
    kind, pk = request.GET.get("principal_type", ""), parse_number(request, "principal_id")
    columns = {"user": "user", "group": "group", "service_account": "user__service_account"}
    if not kind and pk is None:
        return rows
    if kind not in columns:
        message = f"must be one of {', '.join(PRINCIPAL_TYPES)}"
        raise BadInput("The input is not valid.", errors=[{"path": "principal_type", "message": message}])
    rows = rows.filter(**{f"{columns[kind]}__isnull": False})
    if kind == "user":
        rows = rows.filter(user__service_account=None)
    return rows if pk is None else rows.filter(**{columns[kind]: pk})


def _get_role(identifier: str, scope: Scope) -> Role:
    roles = Role.objects.filter(
        Q(scope=None) | Q(scope__path__in=scope.ancestor_paths()), identifier=identifier
    )
    # A role of a nearer scope is meant before one further away.
    return _get_named(roles.select_related("scope").order_by("-builtin", "-scope__path"), "role")


def _get_resource_group(identifier: str | None, scope: Scope) -> ResourceGroup | None:
    if identifier is None:
        return None
    groups = ResourceGroup.objects.filter(scope__path__in=scope.ancestor_paths(), identifier=identifier)
    group: ResourceGroup = _get_named(
        groups.select_related("scope").order_by("-scope__path"), "resource_group"
    )
    return group


def _get_named(rows: QuerySet[Any], field: str) -> Any:
    row = rows.first()
    if row is None:
        raise BadInput(
            "The input is not valid.", errors=[{"path": field, "message": "does not exist in this scope"}]
        )
    return row
