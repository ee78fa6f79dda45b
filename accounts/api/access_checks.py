"""API that checks and explains a principal's access to a resource."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.principals import (
    PrincipalDocument,
    PrincipalInput,
    build_principal_document,
    get_named_principal,
)
from accounts.api.roles import AssignmentDocument
from accounts.queries.access_checks import get_member_scope, get_resource_by_id, get_resource_by_identifier
from accounts.queries.granted_roles import VIEW_USERS
from rbac.models import Scope, User, UserGroup
from rbac.permissions import PERMISSION_IDENTIFIERS
from rbac.policy import Forbidden, HasScope, NotVisible, PermissionVerdict, can, explain_permissions
from rbac.policy.resources import get_resource_models
from web.api.views import BaseApiView

RESOURCE_NOT_FOUND = "Not found, or you cannot view it."


@extend_schema_field({"oneOf": [{"type": "string", "maxLength": 64}, {"type": "integer"}]})
class ResourceIdField(serializers.CharField):
    """Id of a resource: an integer or a UUID."""


class CheckedResourceInput(serializers.Serializer[Any]):
    """Resource by type and id; by type, identifier and scope; or a scope by its path alone."""

    type = serializers.ChoiceField(choices=(), required=False)
    id = ResourceIdField(required=False, max_length=64)
    identifier = serializers.CharField(required=False, max_length=1024)
    scope = serializers.CharField(required=False, max_length=400)

    def get_fields(self) -> dict[str, Any]:
        # The apps above register the types, once all of them are loaded.
        types = serializers.ChoiceField(choices=sorted(get_resource_models()), required=False)
        return {**super().get_fields(), "type": types}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if set(attrs) not in ({"scope"}, {"type", "id"}, {"type", "identifier", "scope"}):
            raise serializers.ValidationError(
                "Enter a scope alone, a type and an id, or a type, an identifier and a scope."
            )
        return attrs


class CheckedResourceDocument(serializers.Serializer[Any]):
    """Resource of the request."""

    type = serializers.CharField(required=False)
    id = serializers.CharField(required=False)
    identifier = serializers.CharField(required=False)
    scope = serializers.CharField(required=False)


class AccessCheckInput(serializers.Serializer[Any]):
    """Check of a `permission` on a `resource` for a `principal`, by default the caller."""

    principal = PrincipalInput(required=False)
    permission = serializers.ChoiceField(choices=PERMISSION_IDENTIFIERS)
    resource = CheckedResourceInput()


class AccessVerdictDocument(serializers.Serializer[Any]):
    """Verdict with the assignment that grants it, or null if access is denied."""

    permitted = serializers.BooleanField()
    permission = serializers.CharField()
    principal = PrincipalDocument()
    resource = CheckedResourceDocument()
    assignment = AssignmentDocument(allow_null=True)
    reason = serializers.CharField()


class AccessCheckView(BaseApiView):
    """Access check of a principal; checks of other principals need permission to view them."""

    @extend_schema(request=AccessCheckInput, responses=AccessVerdictDocument)
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(AccessCheckInput)
        thing = self._thing(data["resource"])
        subject = self._subject(data.get("principal"), thing)
        verdict = PermissionVerdict(data["permission"], is_granted=False, reason=RESOURCE_NOT_FOUND)
        if thing is not None:
            (verdict,) = explain_permissions(subject, thing, [data["permission"]])
        by = verdict.assignments[0] if verdict.assignments else None
        answer = {
            "permitted": verdict.is_granted,
            "permission": verdict.permission,
            "principal": build_principal_document(subject),
            "resource": dict(data["resource"]),
            "assignment": None if by is None else AssignmentDocument(by).data,
            "reason": verdict.reason,
        }
        return Response(answer)

    def _thing(self, resource: dict[str, Any]) -> HasScope | None:
        if "type" not in resource:
            return get_member_scope(self.principal, resource["scope"])
        if "id" in resource:
            return get_resource_by_id(self.principal, resource["type"], resource["id"])
        return get_resource_by_identifier(
            self.principal, resource["type"], resource["identifier"], resource["scope"]
        )

    def _subject(self, principal: dict[str, Any] | None, thing: HasScope | None) -> User | UserGroup:
        me = build_principal_document(self.principal)
        if principal is None or {**principal, "name": me["name"]} == me:
            return self.principal
        if thing is None:
            raise NotVisible(RESOURCE_NOT_FOUND)
        scope = thing if isinstance(thing, Scope) else thing.scope
        if not can(self.principal, VIEW_USERS, scope):
            raise Forbidden(VIEW_USERS)
        target = get_named_principal(self.principal, principal, scope)
        return target["group"] if "group" in target else target["user"]
