"""Routes of connectors."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations, queries
from connectors.api.uses import UsesDocument
from connectors.models import Connector, Secret
from connectors.uses import uses_of
from rbac.models import Scope
from rbac.policy import visible_to
from web.problems import BadInput
from web.rest import IF_MATCH, LISTED, SHARED, Route, check_version, versioned

VIEW = "core_connector_view"


class ConnectorDocument(serializers.Serializer[Any]):
    """A connector; `secret` is the identifier of its secret, whose value is never shown."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Connector.Kind.choices)
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    spec = serializers.JSONField()
    secret = serializers.CharField(source="secret.identifier", allow_null=True, default=None)
    last_tested_at = serializers.DateTimeField(allow_null=True)
    last_test_ok = serializers.BooleanField(allow_null=True)
    last_test_message = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ConnectorChange(serializers.Serializer[Any]):
    """What can be changed of a connector; a spec is given whole."""

    name = serializers.CharField(max_length=128, required=False)
    spec = serializers.DictField(required=False)
    secret = serializers.CharField(max_length=128, required=False, allow_null=True)


class ConnectorInput(ConnectorChange):
    """What a connector is made of."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    kind = serializers.ChoiceField(choices=Connector.Kind.choices, default=Connector.Kind.AWS)
    spec = serializers.DictField()
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class Connectors(Route):
    """Connectors."""

    @extend_schema(parameters=[*LISTED, SHARED], responses=ConnectorDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.listed(VIEW, Connector.objects.select_related("scope", "secret"), ConnectorDocument)

    @extend_schema(request=ConnectorInput, responses={201: ConnectorDocument})
    def post(self, request: Request) -> Response:
        given, scope = self.given(ConnectorInput), self.scope_named()
        made = operations.create_connector(
            actor=self.principal,
            scope=scope,
            identifier=given["identifier"],
            name=given["name"],
            kind=given["kind"],
            spec=given["spec"],
            secret=_secret_named(self, scope, given.get("secret")),
        )
        return versioned(ConnectorDocument(made).data, _version(made), status=201)


class ConnectorUses(Route):
    """What uses a connector."""

    @extend_schema(responses=UsesDocument)
    def get(self, request: Request, pk: int) -> Response:
        found = self.one(VIEW, Connector.objects.select_related("scope"), pk=pk)
        return Response(UsesDocument(uses_of(found, self.principal)).data)


class OneConnector(Route):
    """One connector."""

    @extend_schema(responses=ConnectorDocument)
    def get(self, request: Request, pk: int) -> Response:
        found = self._found(pk)
        return versioned(ConnectorDocument(found).data, _version(found))

    @extend_schema(parameters=[IF_MATCH], request=ConnectorChange, responses=ConnectorDocument)
    def patch(self, request: Request, pk: int) -> Response:
        given = self.given(ConnectorChange)
        with transaction.atomic():
            found = self._found(pk, lock=True)
            check_version(request, _version(found))
            changed = operations.update_connector(
                actor=self.principal,
                connector=found,
                name=given.get("name"),
                spec=given.get("spec"),
                secret=_secret_named(self, found.scope, given.get("secret")),
            )
        return versioned(ConnectorDocument(changed).data, _version(changed))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        operations.delete_connector(actor=self.principal, connector=self._found(pk))
        return Response(status=204)

    def _found(self, pk: int, *, lock: bool = False) -> Connector:
        rows = Connector.objects.select_related("scope", "secret")
        return self.one(VIEW, rows.select_for_update(of=("self",)) if lock else rows, pk=pk)


def _version(connector: Connector) -> str:
    return f"{connector.updated_at.timestamp():.6f}"


def _secret_named(route: Route, scope: Scope, identifier: str | None) -> Secret | None:
    """Return the nearest secret of that name that `scope` may point at."""
    if not identifier:
        return None
    visible = visible_to(route.principal, "core_secret_view", queries.secrets_for(scope))
    found = visible.filter(identifier=identifier).order_by("-scope__path").first()
    if found is None:
        message = f"There is no secret {identifier} here or above."
        raise BadInput(message, errors=[{"path": "secret", "message": message}])
    return found
