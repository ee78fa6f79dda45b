"""API of service accounts."""

from typing import Any

from django.db.models import QuerySet
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import operations
from rbac.models import ServiceAccount
from web.api.parameters import LIST_PARAMETERS
from web.api.views import BaseApiView

VIEW = "core_serviceaccount_view"


class ServiceAccountDocument(serializers.Serializer[Any]):
    """Program with its own roles; executions and the audit trail show its `username`."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    username = serializers.CharField(source="user.username")
    created_at = serializers.DateTimeField()


class ServiceAccountInput(serializers.Serializer[Any]):
    """Fields of a new service account; by default the identifier is derived from the name."""

    name = serializers.CharField(max_length=128)
    scope = serializers.CharField(max_length=400)
    identifier = serializers.CharField(required=False, default="", max_length=128)
    description = serializers.CharField(required=False, default="", allow_blank=True, max_length=400)


class ServiceAccountChange(serializers.Serializer[Any]):
    """Writable fields of a service account."""

    name = serializers.CharField(required=False, max_length=128)
    description = serializers.CharField(required=False, allow_blank=True, max_length=400)


class ServiceAccountListView(BaseApiView):
    """Service accounts: programs that have their own roles and authenticate by API key."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=ServiceAccountDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, _list_service_accounts(), ServiceAccountDocument)

    @extend_schema(request=ServiceAccountInput, responses={201: ServiceAccountDocument})
    def post(self, request: Request) -> Response:
        data = self.get_validated_body(ServiceAccountInput)
        scope = self.get_scope(data.pop("scope"))
        account = operations.create_service_account(actor=self.principal, scope=scope, **data)
        return Response(ServiceAccountDocument(account).data, status=201)


class ServiceAccountDetailView(BaseApiView):
    """Service account."""

    @extend_schema(responses=ServiceAccountDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(ServiceAccountDocument(self._get_account(pk)).data)

    @extend_schema(request=ServiceAccountChange, responses=ServiceAccountDocument)
    def patch(self, request: Request, pk: int) -> Response:
        account = self._get_account(pk)
        data = self.get_validated_body(ServiceAccountChange)
        changed = operations.update_service_account(actor=self.principal, account=account, **data)
        return Response(ServiceAccountDocument(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Delete the service account, revoke its keys and remove its roles."""
        operations.delete_service_account(actor=self.principal, account=self._get_account(pk))
        return Response(status=204)

    def _get_account(self, pk: int) -> ServiceAccount:
        return self.get_visible(VIEW, _list_service_accounts(), pk=pk)


def _list_service_accounts() -> QuerySet[ServiceAccount]:
    return ServiceAccount.objects.select_related("scope", "user")
