"""Routes about who has which role where."""

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.principals import KINDS, PrincipalField, PrincipalInput, principal_of
from rbac import operations
from rbac.models import ResourceGroup, Role, RoleAssignment, Scope
from rbac.policy import require
from web.asked import number_in
from web.problems import BadInput
from web.rest import LISTED, Route

OF_TYPE = OpenApiParameter("principal_type", OpenApiTypes.STR, enum=KINDS, description="Only to such.")
OF_ID = OpenApiParameter(
    "principal_id", OpenApiTypes.INT, description="Only to this one of `principal_type`."
)


class AssignmentDocument(serializers.Serializer[Any]):
    """Who has a role where; `resource_group` is null where it counts for everything in the scope."""

    id = serializers.IntegerField()
    principal = PrincipalField()
    role = serializers.CharField(source="role.identifier")
    role_id = serializers.IntegerField()
    scope = serializers.CharField(source="scope.path")
    resource_group = serializers.CharField(source="resource_group.identifier", allow_null=True, default=None)
    expires_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()


class AssignmentInput(serializers.Serializer[Any]):
    """A role, by its identifier, for a principal; on everything in the scope, or on a resource group."""

    principal = PrincipalInput()
    role = serializers.CharField(max_length=128)
    scope = serializers.CharField(max_length=400)
    resource_group = serializers.CharField(required=False, allow_null=True, default=None, max_length=128)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class RoleAssignments(Route):
    """Who has which role where."""

    @extend_schema(parameters=[*LISTED, OF_TYPE, OF_ID], responses=AssignmentDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = _to_asked_principal(request, _rows())
        if role := request.GET.get("identifier"):
            rows = rows.filter(role__identifier=role)
        return self.listed("core_user_view", rows, AssignmentDocument, by_identifier=False)

    @extend_schema(request=AssignmentInput, responses={201: AssignmentDocument})
    def post(self, request: Request) -> Response:
        given = self.given(AssignmentInput)
        scope = self.scope_at(given["scope"])
        # Asked first: the answers below tell which principals there are.
        require(self.principal, "core_user_manage", scope)
        made = operations.assign_role(
            actor=self.principal,
            scope=scope,
            role=_role(given["role"], scope),
            resource_group=_resource_group(given["resource_group"], scope),
            expires_at=given["expires_at"],
            **principal_of(self.principal, given["principal"], scope),
        )
        return Response(AssignmentDocument(_rows().get(pk=made.pk)).data, status=201)


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
        return self.one("core_user_view", _rows(), pk=pk)


def _rows() -> QuerySet[RoleAssignment]:
    return RoleAssignment.objects.select_related(
        "scope", "role", "user__service_account", "group", "resource_group"
    )


def _to_asked_principal(request: Request, rows: QuerySet[RoleAssignment]) -> QuerySet[RoleAssignment]:
    kind, pk = request.GET.get("principal_type", ""), number_in(request, "principal_id")
    columns = {"user": "user", "group": "group", "service_account": "user__service_account"}
    if not kind and pk is None:
        return rows
    if kind not in columns:
        message = f"must be one of {', '.join(KINDS)}"
        raise BadInput("The input is not valid.", errors=[{"path": "principal_type", "message": message}])
    rows = rows.filter(**{f"{columns[kind]}__isnull": False})
    if kind == "user":
        rows = rows.filter(user__service_account=None)
    return rows if pk is None else rows.filter(**{columns[kind]: pk})


def _role(identifier: str, scope: Scope) -> Role:
    roles = Role.objects.filter(
        Q(scope=None) | Q(scope__path__in=scope.ancestor_paths()), identifier=identifier
    )
    # A role of a nearer scope is meant before one further away.
    return _named(roles.select_related("scope").order_by("-builtin", "-scope__path"), "role")


def _resource_group(identifier: str | None, scope: Scope) -> ResourceGroup | None:
    if identifier is None:
        return None
    groups = ResourceGroup.objects.filter(scope__path__in=scope.ancestor_paths(), identifier=identifier)
    found: ResourceGroup = _named(groups.select_related("scope").order_by("-scope__path"), "resource_group")
    return found


def _named(rows: QuerySet[Any], what: str) -> Any:
    found = rows.first()
    if found is None:
        raise BadInput("The input is not valid.", errors=[{"path": what, "message": "is not known here"}])
    return found
