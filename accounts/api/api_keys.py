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
    """API key without its token; `service_account` is null for a user's key.

    `scope` and `permissions` restrict the key. With null and an empty list it has all permissions of its
    user.
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
    """API key with its token, which is shown only once."""

    key = serializers.CharField()


class KeyInput(serializers.Serializer[Any]):
    """Fields of a new API key; without a service account it belongs to the caller."""

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
    """Grace period in which the previous token stays valid."""

    grace_seconds = serializers.IntegerField(
        required=False, default=0, min_value=0, max_value=int(KEY_GRACE_SECONDS)
    )


class BaseApiKeyView(BaseApiView):
    """Base of the API key routes."""

    def accounts(self) -> QuerySet[ServiceAccount]:
        """Return the visible service accounts."""
        rows = ServiceAccount.objects.select_related("user", "scope")
        return filter_visible(self.principal, VIEW, rows)

    def get_api_key(self, pk: int) -> ApiKey:
        """Return the caller's own key, or a key of a visible service account."""
        key_filter = Q(user=self.principal) | Q(user__service_account__in=self.accounts().values("pk"))
        return self.get_row(_list_api_keys().filter(key_filter), pk=pk)


class ApiKeyListView(BaseApiKeyView):
    """API keys of the caller, or of a service account."""

    one_time_field = "key"

    @extend_schema(parameters=[OWNER_PARAMETER, *PAGE_PARAMETERS], responses=KeyDocument(many=True))
    def get(self, request: Request) -> Response:
        account_id = parse_number(request, "service_account")
        if account_id is None:
            return self.paginate(_list_api_keys().filter(user=self.principal), KeyDocument)
        account = self.get_row(self.accounts(), pk=account_id)
        return self.paginate(_list_api_keys().filter(user=account.user), KeyDocument)

    @extend_schema(request=KeyInput, responses={201: ShownKeyDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(KeyInput)
        account, path = data.pop("service_account"), data.pop("scope")
        key, token = operations.create_api_key(
            actor=self.principal,
            user=self.principal if account is None else self.get_row(self.accounts(), pk=account).user,
            scope=None if path is None else self.get_scope(path),
            **data,
        )
        return _respond_with_token(key, token, status=201)


class ApiKeyDetailView(BaseApiKeyView):
    """API key."""

    @extend_schema(responses=KeyDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(KeyDocument(self.get_api_key(pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Revoke the key permanently. Its row stays. Each key may revoke itself."""
        used_key = request.auth if isinstance(request.auth, ApiKey) else None
        operations.revoke_api_key(actor=self.principal, key=self.get_api_key(pk), used_key=used_key)
        return Response(status=204)


class ApiKeyRotationView(BaseApiKeyView):
    """Rotation of an API key's token."""

    @extend_schema(request=ApiKeyRotationInput, responses=ShownKeyDocument)
    def post(self, request: Request, pk: int) -> Response:
        """Create a new token for the key; the previous token stays valid for the grace period."""
        key, data = self.get_api_key(pk), self.get_validated_body(ApiKeyRotationInput)
        token = operations.rotate_api_key(actor=self.principal, key=key, **data)
        return _respond_with_token(key, token)


def _respond_with_token(key: ApiKey, token: str, *, status: int = 200) -> Response:
    # Not to be kept anywhere on the way.
    headers = {"Cache-Control": "no-store"}
    return Response({**KeyDocument(key).data, "key": token}, status=status, headers=headers)


def _list_api_keys() -> QuerySet[ApiKey]:
    return ApiKey.objects.select_related("user__service_account", "scope")
