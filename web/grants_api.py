"""Routes about roles, who has them, API keys, and the audit trail."""

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import keys, operations
from rbac.models import ApiKey, AuditEntry, Role, RoleAssignment, User, UserGroup
from rbac.policy import can_anywhere, require, scopes_where, visible_below
from web.problems import BadInput
from web.rest import LISTED, PAGED, Route, narrowed


class RoleDocument(serializers.Serializer[Any]):
    """A role; `scope` is null where it is built in."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    builtin = serializers.BooleanField()
    scope = serializers.CharField(source="scope.path", allow_null=True, default=None)
    permissions = serializers.SerializerMethodField()

    def get_permissions(self, role: Role) -> list[str]:
        return sorted(granted.permission for granted in role.permissions.all())


class RoleInput(serializers.Serializer[Any]):
    """What a role is made of."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    permissions = serializers.ListField(child=serializers.CharField(max_length=64), max_length=500)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class RoleChange(serializers.Serializer[Any]):
    """What can be changed of a role."""

    name = serializers.CharField(max_length=128)
    permissions = serializers.ListField(child=serializers.CharField(max_length=64), max_length=500)


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


class KeyDocument(serializers.Serializer[Any]):
    """An API key; its token is shown by the answer that makes it and never again."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewKeyDocument(KeyDocument):
    """An API key with its token."""

    token = serializers.CharField()


class KeyInput(serializers.Serializer[Any]):
    """What an API key is made of."""

    name = serializers.CharField(max_length=128)
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class AuditDocument(serializers.Serializer[Any]):
    """One entry of the audit trail."""

    id = serializers.IntegerField()
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor_name")
    api_key_prefix = serializers.CharField()
    action = serializers.CharField()
    thing_type = serializers.CharField()
    thing_id = serializers.CharField()
    thing_name = serializers.CharField()
    scope = serializers.CharField(source="scope.path", allow_null=True, default=None)
    before = serializers.JSONField()
    after = serializers.JSONField()
    source = serializers.CharField()  # type: ignore[assignment]
    request_id = serializers.CharField()
    address = serializers.CharField()


class RolesRoute(Route):
    """The base of both routes about roles."""

    def visible_roles(self) -> QuerySet[Role]:
        """Return the built-in roles and those of scopes whose roles one may see."""
        if not can_anywhere(self.principal, "core_role_view"):
            return Role.objects.none()
        scopes = scopes_where(self.principal, "core_role_view").values("pk")
        mine = Role.objects.filter(Q(builtin=True) | Q(scope__in=scopes))
        return mine.select_related("scope").prefetch_related("permissions")


class Roles(RolesRoute):
    """Roles."""

    @extend_schema(parameters=LISTED, responses=RoleDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.page(narrowed(request, self.visible_roles()), RoleDocument)

    @extend_schema(request=RoleInput, responses={201: RoleDocument})
    def post(self, request: Request) -> Response:
        given = self.given(RoleInput)
        made = operations.create_role(
            actor=self.principal,
            scope=self.scope_named(),
            identifier=given["identifier"],
            name=given["name"],
            permissions=given["permissions"],
        )
        return Response(RoleDocument(made).data, status=201)


class OneRole(RolesRoute):
    """One role."""

    @extend_schema(responses=RoleDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(RoleDocument(self.one_of(self.visible_roles(), pk=pk)).data)

    @extend_schema(request=RoleChange, responses=RoleDocument)
    def put(self, request: Request, pk: int) -> Response:
        role = self.one_of(self.visible_roles(), pk=pk)
        changed = operations.update_role(actor=self.principal, role=role, **self.given(RoleChange))
        return Response(RoleDocument(Role.objects.get(pk=changed.pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_role(actor=self.principal, role=self.one_of(self.visible_roles(), pk=pk))
        return Response(status=204)


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


class ApiKeys(Route):
    """One's own API keys."""

    @extend_schema(parameters=PAGED, responses=KeyDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.page(ApiKey.objects.filter(user=self.principal), KeyDocument)

    @extend_schema(request=KeyInput, responses={201: NewKeyDocument})
    def post(self, request: Request) -> Response:
        made, token = keys.create_api_key(actor=self.principal, user=self.principal, **self.given(KeyInput))
        return Response({**KeyDocument(made).data, "token": token}, status=201)


class OneApiKey(Route):
    """One of one's own API keys."""

    @extend_schema(responses=KeyDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(KeyDocument(self.one_of(ApiKey.objects.filter(user=self.principal), pk=pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke the key: it opens nothing from now on. Its row stays."""
        key = self.one_of(ApiKey.objects.filter(user=self.principal), pk=pk)
        keys.revoke_api_key(actor=self.principal, key=key)
        return Response(status=204)


class Audit(Route):
    """The audit trail of the scopes where one may read it, newest first."""

    @extend_schema(parameters=LISTED, responses=AuditDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = AuditEntry.objects.select_related("scope")
        visible = visible_below(self.principal, "core_audit_view", rows)
        return self.page(narrowed(request, visible, by_identifier=False), AuditDocument)


def _named(rows: QuerySet[Any], what: str) -> Any:
    found = rows.first()
    if found is None:
        raise BadInput("The input is not valid.", errors=[{"path": what, "message": "is not known here"}])
    return found
