"""API of the current user and their permissions."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac.policy import get_permissions
from web.api.parameters import ORG_PARAMETER, PROJECT_PARAMETER
from web.api.views import BaseApiView


class MeDocument(serializers.Serializer[Any]):
    """User of the API key or session."""

    id = serializers.IntegerField()
    username = serializers.CharField()
    email = serializers.CharField()
    name = serializers.CharField(source="get_full_name")


class PermissionsDocument(serializers.Serializer[Any]):
    """Permissions of the caller in a scope."""

    scope = serializers.CharField()
    permissions = serializers.ListField(child=serializers.CharField())


class CurrentUserView(BaseApiView):
    """Current user."""

    @extend_schema(responses=MeDocument)
    def get(self, request: Request) -> Response:
        return Response(MeDocument(self.principal).data)


class CurrentUserPermissionsView(BaseApiView):
    """Permissions of the caller in a scope: the account, or the one of ?org= and ?project=."""

    @extend_schema(parameters=[ORG_PARAMETER, PROJECT_PARAMETER], responses=PermissionsDocument)
    def get(self, request: Request) -> Response:
        scope = self.get_named_scope()
        granted = sorted(get_permissions(self.principal, scope))
        return Response({"scope": scope.path, "permissions": granted})
