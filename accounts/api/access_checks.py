"""API that checks and explains a principal's access to a resource, and lists who has access."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
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
from accounts.forms.access_checks import AccessQuestionForm, EffectiveAccessForm
from accounts.queries.access_checks import (
    get_member_scope,
    get_resource_by_id,
    get_resource_by_identifier,
    require_checks_of_others,
)
from accounts.queries.access_questions import ACCESS_ACTIONS, answer_access_question, list_holders
from rbac.models import Scope, User, UserGroup
from rbac.permissions import PERMISSION_IDENTIFIERS
from rbac.policy import HasScope, NotVisible, PermissionHolder, PermissionVerdict, explain_permissions
from rbac.policy.resources import get_resource_models
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView
from web.http.problems import BadInput

RESOURCE_NOT_FOUND = "Not found, or you cannot view it."


@extend_schema_field({"oneOf": [{"type": "string", "maxLength": 64}, {"type": "integer"}]})
class ResourceIdField(serializers.CharField):
    """Id of a resource: an integer or a UUID."""

    def to_internal_value(self, data: Any) -> str:
        """Return the id as a text. Raises `ValidationError` for what is neither a text nor a number."""
        return str(super().to_internal_value(data))


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


class MissingPermissionDocument(serializers.Serializer[Any]):
    """Permission that is missing, why, and the built-in roles that would grant it."""

    permission = serializers.CharField()
    reason = serializers.CharField()
    granting_roles = serializers.ListField(child=serializers.CharField())


class AccessAnswerDocument(serializers.Serializer[Any]):
    """Answer to a question with the assignments that grant access, or the permissions that are missing."""

    permitted = serializers.BooleanField()
    question = serializers.CharField(help_text="The question in words: what can be done, and where.")
    principal = PrincipalDocument()
    assignments = AssignmentDocument(many=True)
    missing = MissingPermissionDocument(many=True)


class AccessHolderDocument(serializers.Serializer[Any]):
    """User or service account with access, and the assignments that grant it."""

    principal = PrincipalDocument()
    assignments = AssignmentDocument(many=True)


def _build_parameter(name: str, description: str, **options: Any) -> OpenApiParameter:
    return OpenApiParameter(name, OpenApiTypes.STR, description=description, **options)


# The same as in the addresses of the pages.
QUESTION_PARAMETERS = [
    _build_parameter("action", "Permission, or `deploy`.", required=True, enum=tuple(ACCESS_ACTIONS)),
    _build_parameter("scope", "Path of a scope.", required=True),
    _build_parameter("kind", "Type of a resource in the scope; requires `identifier`."),
    _build_parameter("identifier", "Identifier of a resource in the scope; requires `kind`."),
]
WHO_PARAMETER = _build_parameter(
    "who", "User name, or group such as `group:account/default/operators`; by default the caller."
)


def _read_query(view: BaseApiView) -> dict[str, str]:
    """Return the query of a question. Raises `NotVisible` (404) for a scope that the caller cannot view."""
    query: dict[str, str] = view.request.GET.dict()
    if path := query.get("scope"):
        view.get_scope(path)
    return query


class AccessCheckView(BaseApiView):
    """Access check of a principal; checks of other principals need permission to view them."""

    @extend_schema(parameters=[WHO_PARAMETER, *QUESTION_PARAMETERS], responses=AccessAnswerDocument)
    def get(self, request: Request) -> Response:
        """Answer whether a principal can do something, and why; about others with `core_user_view` there.

        Deploying needs several permissions, which different assignments may grant.
        """
        query = {"who": self.principal.username, **_read_query(self)}
        data = EffectiveAccessForm(query, asker=self.principal).require_valid()
        if data["action"] is None:
            errors = [{"path": "action", "message": "This field is required."}]
            raise BadInput("The input is not valid.", errors=errors)
        answer = answer_access_question(self.principal, data["subject"], data["action"], data["thing"])
        document = {
            "permitted": answer.is_granted,
            "question": answer.question,
            "principal": build_principal_document(answer.subject),
            "assignments": [ground.assignment for ground in answer.grounds],
            "missing": answer.missing,
        }
        return Response(AccessAnswerDocument(document).data)

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
        require_checks_of_others(self.principal, thing)
        scope = thing if isinstance(thing, Scope) else thing.scope
        target = get_named_principal(self.principal, principal, scope)
        return target["group"] if "group" in target else target["user"]


class AccessHolderListView(BaseApiView):
    """Users and service accounts that can do something, by the role assignments that the caller may view."""

    @extend_schema(
        parameters=[*QUESTION_PARAMETERS, *PAGE_PARAMETERS], responses=AccessHolderDocument(many=True)
    )
    def get(self, request: Request) -> Response:
        data = AccessQuestionForm(_read_query(self), asker=self.principal).require_valid()
        holders = list_holders(self.principal, data["action"], data["thing"])
        return self.paginate_items(holders, _build_holder_document, key=lambda holder: holder.user.username)


def _build_holder_document(holder: PermissionHolder) -> dict[str, Any]:
    document = {"principal": build_principal_document(holder.user), "assignments": holder.assignments}
    return AccessHolderDocument(document).data
