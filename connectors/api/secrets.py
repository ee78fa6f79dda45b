"""API of secrets; values are write-only."""

from typing import Any

from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations, queries
from connectors.api.usages import UsesDocument
from connectors.models import Secret
from connectors.secret_managers.base import SecretReference, get_managers
from connectors.usages import find_usages
from guards.masks import MIN_SECRET_CHARACTERS
from rbac.models import Scope
from rbac.policy import can
from web.api.parameters import LIST_PARAMETERS, SHARED_PARAMETER
from web.api.views import BaseApiView
from web.http.problems import BadInput

SECRET_VIEW_PERMISSION = "core_secret_view"  # noqa: S105 - no password


class ReferenceDocument(serializers.Serializer[Any]):
    """Place of a value in a secret manager."""

    manager = serializers.CharField()
    connector = serializers.CharField(source="manager_connector.identifier")
    path = serializers.CharField(source="reference_path")
    key = serializers.CharField(source="reference_key")
    version = serializers.CharField(source="reference_version")


class ReferenceInput(serializers.Serializer[Any]):
    """Place of a value in a secret manager; `connector` is a reference such as `account.aws`."""

    manager = serializers.CharField(max_length=32)
    connector = serializers.CharField(max_length=140)
    path = serializers.CharField(max_length=2048)
    key = serializers.CharField(max_length=255, required=False, default="", allow_blank=True)
    version = serializers.CharField(max_length=128, required=False, default="", allow_blank=True)


class SecretDocument(serializers.Serializer[Any]):
    """Secret without its value."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Secret.Kind.choices)
    file_name = serializers.CharField()
    version = serializers.IntegerField()
    rotated_at = serializers.DateTimeField()
    reference = serializers.SerializerMethodField()
    last_read_at = serializers.DateTimeField(allow_null=True)
    last_read_by = serializers.CharField()
    last_read_problem = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()

    @extend_schema_field(ReferenceDocument(allow_null=True))
    def get_reference(self, secret: Secret) -> dict[str, Any] | None:
        return ReferenceDocument(secret).data if secret.is_reference else None


class SecretChange(serializers.Serializer[Any]):
    """Writable fields of a secret; `value` and `reference` replace each other."""

    name = serializers.CharField(max_length=128, required=False)
    value = serializers.CharField(
        min_length=MIN_SECRET_CHARACTERS, required=False, write_only=True, trim_whitespace=False
    )
    file_name = serializers.CharField(max_length=255, required=False, default="")
    reference = ReferenceInput(required=False)


class SecretInput(SecretChange):
    """Fields of a new secret: a value or a reference."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class Secrets(BaseApiView):
    """Secrets."""

    @extend_schema(parameters=[*LIST_PARAMETERS, SHARED_PARAMETER], responses=SecretDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = Secret.objects.defer("value").select_related("scope", "manager_connector")
        return self.list_visible(SECRET_VIEW_PERMISSION, rows, SecretDocument)

    @extend_schema(request=SecretInput, responses={201: SecretDocument})
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(SecretInput), self.get_named_scope()
        made = operations.create_secret(
            actor=self.principal,
            scope=scope,
            identifier=body["identifier"],
            name=body["name"],
            value=body.get("value"),
            file_name=body["file_name"],
            reference=_find_reference(self, scope, body.get("reference")),
        )
        return Response(SecretDocument(made).data, status=201)


class SecretUsages(BaseApiView):
    """References to a secret."""

    @extend_schema(responses=UsesDocument)
    def get(self, request: Request, pk: int) -> Response:
        secret = self.get_visible(
            SECRET_VIEW_PERMISSION,
            Secret.objects.defer("value").select_related("scope", "manager_connector"),
            pk=pk,
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
        secret = self._get_secret(pk)
        reference = _find_reference(self, secret.scope, body.pop("reference", None))
        changed = operations.update_secret(actor=self.principal, secret=secret, reference=reference, **body)
        return Response(SecretDocument(changed).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_secret(actor=self.principal, secret=self._get_secret(pk))
        return Response(status=204)

    def _get_secret(self, pk: int) -> Secret:
        return self.get_visible(
            SECRET_VIEW_PERMISSION,
            Secret.objects.defer("value").select_related("scope", "manager_connector"),
            pk=pk,
        )


class SecretTestDocument(serializers.Serializer[Any]):
    """Result of reading a secret; the value is never part of it."""

    ok = serializers.BooleanField()
    message = serializers.CharField()
    characters = serializers.IntegerField(allow_null=True)
    milliseconds = serializers.IntegerField()


class SecretTestRoute(BaseApiView):
    """Test of a secret: its value is read now, in its manager if it is a reference."""

    @extend_schema(request=None, responses=SecretTestDocument)
    def post(self, request: Request, pk: int) -> Response:
        secret = self.get_visible(SECRET_VIEW_PERMISSION, Secret.objects.select_related("scope"), pk=pk)
        return Response(
            SecretTestDocument(operations.run_secret_test(actor=self.principal, secret=secret)).data
        )


def _find_reference(route: BaseApiView, scope: Scope, body: dict[str, str] | None) -> SecretReference | None:
    """Return the reference of a body, with the nearest connector that the user may view."""
    if body is None:
        return None
    kinds = {manager.connector_kind for manager in get_managers().values()}
    connector = queries.find_connector(scope, body["connector"], *sorted(kinds))
    if connector is None or not can(route.principal, "core_connector_view", connector):
        message = f"No connector {body['connector']} to a secret manager in this scope or above."
        raise BadInput(message, errors=[{"path": "reference.connector", "message": message}])
    return SecretReference(body["manager"], connector, body["path"], body["key"], body["version"])
