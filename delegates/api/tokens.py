"""Routes of delegate tokens; a value is returned on creation and on reveal only."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from delegates.models import DelegateToken
from delegates.operations import tokens as operations
from delegates.queries.delegates import list_tokens_with_use
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView
from web.http.problems import BadInput

VIEW = "core_delegate_view"
STATUS = OpenApiParameter(
    "status", OpenApiTypes.STR, enum=DelegateToken.Status.values, description="Filter by status."
)
NAME = OpenApiParameter("name", OpenApiTypes.STR, description="Filter by name.")


class DelegateTokenDocument(serializers.Serializer[Any]):
    """Delegate token without its value, with the number of open sessions."""

    id = serializers.IntegerField()
    name = serializers.CharField()
    prefix = serializers.CharField()
    status = serializers.ChoiceField(choices=DelegateToken.Status.choices)
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    delegates = serializers.IntegerField(source="delegate_count")
    instances = serializers.IntegerField(source="instance_count")
    created_by = serializers.CharField(source="created_by.username", default="")
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    revoked_by = serializers.CharField(source="revoked_by.username", default="")
    revoked_at = serializers.DateTimeField(allow_null=True)


class NewDelegateTokenDocument(DelegateTokenDocument):
    """Delegate token with its value."""

    token = serializers.CharField()


class ShownDelegateToken(serializers.Serializer[Any]):
    """Value of a delegate token."""

    token = serializers.CharField()


class DelegateTokenChange(serializers.Serializer[Any]):
    """Writable fields of a token."""

    name = serializers.CharField(max_length=128)


class DelegateTokenInput(DelegateTokenChange):
    """Fields of a new token."""

    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class DelegateTokens(BaseApiView):
    """Delegate tokens."""

    one_time_field = "token"

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, STATUS, NAME, *PAGE_PARAMETERS],
        responses=DelegateTokenDocument(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = list_tokens_with_use()
        if status := request.GET.get("status"):
            rows = rows.filter(status=_validate_status(status))
        if name := request.GET.get("name"):
            rows = rows.filter(name=name)
        return self.list_visible(VIEW, rows, DelegateTokenDocument, by_identifier=False)

    @extend_schema(
        request=DelegateTokenInput,
        responses={201: NewDelegateTokenDocument},
        examples=[
            OpenApiExample(
                "Token of a project",
                {"name": "build", "org": "default", "project": "shop"},
                request_only=True,
            )
        ],
    )
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(DelegateTokenInput)
        made = operations.create_token(
            actor=self.principal,
            scope=self.get_named_scope(),
            name=body["name"],
            expires_at=body["expires_at"],
        )
        content = DelegateTokenDocument(list_tokens_with_use().get(pk=made.pk)).data
        return Response({**content, "token": made.value}, status=201)


class DelegateTokenDetail(BaseApiView):
    """Delegate token."""

    @extend_schema(responses=DelegateTokenDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(DelegateTokenDocument(_get_token(self, pk)).data)

    @extend_schema(request=DelegateTokenChange, responses=DelegateTokenDocument)
    def patch(self, request: Request, pk: int) -> Response:
        name = self.get_validated_body(DelegateTokenChange)["name"]
        operations.rename_token(actor=self.principal, token=_get_token(self, pk), name=name)
        return Response(DelegateTokenDocument(_get_token(self, pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_token(actor=self.principal, token=_get_token(self, pk))
        return Response(status=204)


class DelegateTokenReveal(BaseApiView):
    """Value of a token; the audit trail records each reader."""

    @extend_schema(request=None, responses=ShownDelegateToken)
    def post(self, request: Request, pk: int) -> Response:
        value = operations.reveal_token(actor=self.principal, token=_get_token(self, pk))
        return Response({"token": value}, headers={"Cache-Control": "no-store"})


class DelegateTokenRevocation(BaseApiView):
    """Revocation of a token, which ends its sessions."""

    @extend_schema(request=None, responses=DelegateTokenDocument)
    def post(self, request: Request, pk: int) -> Response:
        operations.revoke_token(actor=self.principal, token=_get_token(self, pk))
        return Response(DelegateTokenDocument(_get_token(self, pk)).data)


def _get_token(route: BaseApiView, pk: int) -> DelegateToken:
    return route.get_visible(VIEW, list_tokens_with_use(), pk=pk)


def _validate_status(status: str) -> str:
    if status in DelegateToken.Status.values:
        return status
    message = f"is one of {', '.join(DelegateToken.Status.values)}"
    raise BadInput("The status of a token is not known.", errors=[{"path": "status", "message": message}])
