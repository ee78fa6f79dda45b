"""API of API keys of users and service accounts."""

from typing import Any

from django.db.models import Q, QuerySet
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import KEY_GRACE_SECONDS
from rbac import operations
from rbac.models import ApiKey, ServiceAccount
from rbac.permissions import PERMISSION_IDENTIFIERS
from rbac.policy import filter_visible
from web.api.parameters import PAGE_PARAMETERS, parse_number
from web.api.views import BaseApiView

VIEW = "core_serviceaccount_view"
OWNER_PARAMETER = OpenApiParameter(
    "service_account",
    OpenApiTypes.INT,
    description="List the keys of this service account instead of your own.",
)


class KeyDocument(serializers.Serializer[Any]):
    """An API key without what signs in; `service_account` is null where it is a person's.

    `scope` and `permissions` narrow what the key is good for; null and none leave all that its user may.
    """

    id = serializers.IntegerField()
    service_account = serializers.IntegerField(
        source="user.service_account.pk", allow_null=True, default=None
    )
    name = serializers.CharField()
    prefix = serializers.CharField()
    scope = serializers.CharField(source="scope.path", allow_null=True, default=None)
    permissions = serializers.ListField(child=serializers.CharField())
    created_at = serializers.DateTimeField()
    rotated_at = serializers.DateTimeField(allow_null=True)
    previous_until = serializers.DateTimeField(allow_null=True)
    expires_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    revoked_at = serializers.DateTimeField(allow_null=True)


class ShownKeyDocument(KeyDocument):
    """An API key with what signs in, which is shown this once."""

    key = serializers.CharField()


class KeyInput(serializers.Serializer[Any]):
    """What an API key is made of; without a service account it is one's own."""

    service_account = serializers.IntegerField(required=False, allow_null=True, default=None, min_value=1)
    name = serializers.CharField(max_length=128)
    scope = serializers.CharField(required=False, allow_null=True, default=None, max_length=400)
    permissions = serializers.ListField(
        child=serializers.ChoiceField(choices=PERMISSION_IDENTIFIERS),
        required=False,
        default=list,
        max_length=len(PERMISSION_IDENTIFIERS),
    )
    expires_at = serializers.DateTimeField(required=False, allow_null=True, default=None)


class ApiKeyRotationInput(serializers.Serializer[Any]):
    """How long the token before the rotation opens still."""

    grace_seconds = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=int(KEY_GRACE_SECONDS)
    )


class BaseApiKeyView(BaseApiView):
    """The base of the routes about keys."""

    def accounts(self) -> QuerySet[ServiceAccount]:
        """Return the service accounts that one may see."""
        rows = ServiceAccount.objects.select_related("user", "scope")
        return filter_visible(self.principal, VIEW, rows)

    def found(self, pk: int) -> ApiKey:
        """Return one's own key, or one of a service account that one may see."""
        mine = Q(user=self.principal) | Q(user__service_account__in=self.accounts().values("pk"))
        return self.get_row(_list_api_keys().filter(mine), pk=pk)


class ApiKeyListView(BaseApiKeyView):
    """One's own API keys, or those of a service account."""

    @extend_schema(parameters=[OWNER_PARAMETER, *PAGE_PARAMETERS], responses=KeyDocument(many=True))
    def get(self, request: Request) -> Response:
        asked = parse_number(request, "service_account")
        if asked is None:
            return self.paginate(_list_api_keys().filter(user=self.principal), KeyDocument)
        account = self.get_row(self.accounts(), pk=asked)
        return self.paginate(_list_api_keys().filter(user=account.user), KeyDocument)

    @extend_schema(request=KeyInput, responses={201: ShownKeyDocument})
    def post(self, request: Request) -> Response:
        given = self.get_validated_body(KeyInput)
        account, path = given.pop("service_account"), given.pop("scope")
        made, token = operations.create_api_key(
            actor=self.principal,
            user=self.principal if account is None else self.get_row(self.accounts(), pk=account).user,
            scope=None if path is None else self.get_scope(path),
            **given,
        )
        return _respond_with_token(made, token, status=201)


class ApiKeyDetailView(BaseApiKeyView):
    """One API key."""

    @extend_schema(responses=KeyDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(KeyDocument(self.found(pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke the key: it opens nothing from now on. Its row stays."""
        operations.revoke_api_key(actor=self.principal, key=self.found(pk))
        return Response(status=204)


class ApiKeyRotationView(BaseApiKeyView):
    """A new token for an API key."""

    @extend_schema(request=ApiKeyRotationInput, responses=ShownKeyDocument)
    def post(self, request: Request, pk: int) -> Response:
        """Give the key a new token; the one before opens for the seconds of grace still."""
        key, given = self.found(pk), self.get_validated_body(ApiKeyRotationInput)
        token = operations.rotate_api_key(actor=self.principal, key=key, **given)
        return _respond_with_token(key, token)


def _respond_with_token(key: ApiKey, token: str, *, status: int = 200) -> Response:
    # Not to be kept anywhere on the way.
    headers = {"Cache-Control": "no-store"}
    return Response({**KeyDocument(key).data, "key": token}, status=status, headers=headers)


def _list_api_keys() -> QuerySet[ApiKey]:
    return ApiKey.objects.select_related("user__service_account", "scope")
