"""Routes about API keys."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from rbac import keys
from rbac.models import ApiKey
from web.rest import PAGED, Route


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
