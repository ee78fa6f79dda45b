"""The route that says whether somebody may do something, and by which assignment."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.api.assignments import AssignmentDocument
from accounts.api.principals import PrincipalDocument, PrincipalInput, principal_document, principal_of
from accounts.asked import scope_asked, thing_by_id, thing_by_identifier
from rbac.models import Scope, User, UserGroup
from rbac.permissions import IDENTIFIERS
from rbac.policy import Forbidden, NotVisible, Scoped, Verdict, can, explain
from rbac.policy.thing_types import thing_types
from web.rest import Route

NOTHING = "There is no such thing, or you may not see it."
SEE_PEOPLE = "core_user_view"


@extend_schema_field({"oneOf": [{"type": "string", "maxLength": 64}, {"type": "integer"}]})
class AskedId(serializers.CharField):
    """The id of a thing: a number, or the text of a UUID."""


class AskedResourceInput(serializers.Serializer[Any]):
    """A thing by its type and id, or by its type, identifier and scope; or a scope by its path alone."""

    type = serializers.ChoiceField(choices=(), required=False)
    id = AskedId(required=False, max_length=64)
    identifier = serializers.CharField(required=False, max_length=1024)
    scope = serializers.CharField(required=False, max_length=400)

    def get_fields(self) -> dict[str, Any]:
        # The apps above say which types there are, once all of them are loaded.
        types = serializers.ChoiceField(choices=sorted(thing_types()), required=False)
        return {**super().get_fields(), "type": types}

    def validate(self, attrs: dict[str, Any]) -> dict[str, Any]:
        if set(attrs) not in ({"scope"}, {"type", "id"}, {"type", "identifier", "scope"}):
            raise serializers.ValidationError(
                "Give a scope alone, a type and an id, or a type, an identifier and a scope."
            )
        return attrs


class AskedResourceDocument(serializers.Serializer[Any]):
    """The thing as it was asked for."""

    type = serializers.CharField(required=False)
    id = serializers.CharField(required=False)
    identifier = serializers.CharField(required=False)
    scope = serializers.CharField(required=False)


class AccessCheckInput(serializers.Serializer[Any]):
    """May `principal` (oneself, if left out) do what `permission` says with `resource`?"""

    principal = PrincipalInput(required=False)
    permission = serializers.ChoiceField(choices=IDENTIFIERS)
    resource = AskedResourceInput()


class AccessVerdictDocument(serializers.Serializer[Any]):
    """The verdict, with the assignment that it comes from; null where it is no."""

    permitted = serializers.BooleanField()
    permission = serializers.CharField()
    principal = PrincipalDocument()
    resource = AskedResourceDocument()
    assignment = AssignmentDocument(allow_null=True)
    reason = serializers.CharField()


class AccessCheck(Route):
    """Answers whether somebody may do something, and why; about others to who may see them there."""

    @extend_schema(request=AccessCheckInput, responses=AccessVerdictDocument)
    def post(self, request: Request) -> Response:
        given = self.given(AccessCheckInput)
        thing = self._thing(given["resource"])
        subject = self._subject(given.get("principal"), thing)
        verdict = Verdict(given["permission"], permitted=False, reason=NOTHING)
        if thing is not None:
            (verdict,) = explain(subject, thing, [given["permission"]])
        by = verdict.assignments[0] if verdict.assignments else None
        answer = {
            "permitted": verdict.permitted,
            "permission": verdict.permission,
            "principal": principal_document(subject),
            "resource": dict(given["resource"]),
            "assignment": None if by is None else AssignmentDocument(by).data,
            "reason": verdict.reason,
        }
        return Response(answer)

    def _thing(self, resource: dict[str, Any]) -> Scoped | None:
        if "type" not in resource:
            return scope_asked(self.principal, resource["scope"])
        if "id" in resource:
            return thing_by_id(self.principal, resource["type"], resource["id"])
        return thing_by_identifier(
            self.principal, resource["type"], resource["identifier"], resource["scope"]
        )

    def _subject(self, principal: dict[str, Any] | None, thing: Scoped | None) -> User | UserGroup:
        me = principal_document(self.principal)
        if principal is None or {**principal, "name": me["name"]} == me:
            return self.principal
        if thing is None:
            raise NotVisible(NOTHING)
        scope = thing if isinstance(thing, Scope) else thing.scope
        if not can(self.principal, SEE_PEOPLE, scope):
            raise Forbidden(SEE_PEOPLE)
        found = principal_of(self.principal, principal, scope)
        return found["group"] if "group" in found else found["user"]
