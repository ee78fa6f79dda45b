"""API of secrets; values are write-only."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.api.usages import UsesDocument
from connectors.models import Secret
from connectors.usages import find_usages
from guards.masks import MIN_SECRET_CHARACTERS
from web.api.parameters import LIST_PARAMETERS, SHARED_PARAMETER
from web.api.views import BaseApiView

SECRET_VIEW_PERMISSION = "core_secret_view"  # noqa: S105 - no password


class SecretDocument(serializers.Serializer[Any]):
    """Secret without its value."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Secret.Kind.choices)
    file_name = serializers.CharField()
    version = serializers.IntegerField()
    rotated_at = serializers.DateTimeField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class SecretChange(serializers.Serializer[Any]):
    """Writable fields of a secret."""

    name = serializers.CharField(max_length=128, required=False)
    value = serializers.CharField(
        min_length=MIN_SECRET_CHARACTERS, required=False, write_only=True, trim_whitespace=False
    )
    file_name = serializers.CharField(max_length=255, required=False, default="")


class SecretInput(SecretChange):
    """Fields of a new secret."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    value = serializers.CharField(min_length=MIN_SECRET_CHARACTERS, write_only=True, trim_whitespace=False)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class Secrets(BaseApiView):
    """Secrets."""

    @extend_schema(parameters=[*LIST_PARAMETERS, SHARED_PARAMETER], responses=SecretDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = Secret.objects.defer("value").select_related("scope")
        return self.list_visible(SECRET_VIEW_PERMISSION, rows, SecretDocument)

    @extend_schema(request=SecretInput, responses={201: SecretDocument})
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(SecretInput)
        made = operations.create_secret(
            actor=self.principal,
            scope=self.get_named_scope(),
            identifier=body["identifier"],
            name=body["name"],
            value=body["value"],
            file_name=body["file_name"],
        )
        return Response(SecretDocument(made).data, status=201)


class SecretUsages(BaseApiView):
    """References to a secret."""

    @extend_schema(responses=UsesDocument)
    def get(self, request: Request, pk: int) -> Response:
        secret = self.get_visible(
            SECRET_VIEW_PERMISSION, Secret.objects.defer("value").select_related("scope"), pk=pk
        )
        return Response(UsesDocument(find_usages(secret, self.principal)).data)


class SecretDetail(BaseApiView):
    """Secret."""

    @extend_schema(responses=SecretDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(SecretDocument(self._get_secret(pk)).data)

    @extend_schema(request=SecretChange, responses=SecretDocument)
    def patch(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(SecretChange)
        changed = operations.update_secret(actor=self.principal, secret=self._get_secret(pk), **body)
        return Response(SecretDocument(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_secret(actor=self.principal, secret=self._get_secret(pk))
        return Response(status=204)

    def _get_secret(self, pk: int) -> Secret:
        return self.get_visible(
            SECRET_VIEW_PERMISSION, Secret.objects.defer("value").select_related("scope"), pk=pk
        )
