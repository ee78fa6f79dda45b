"""API of connectors and of the host keys of their SSH servers."""

from collections.abc import Mapping
from typing import Any, Literal

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations, queries
from connectors.api.usages import UsesDocument
from connectors.host_keys import get_known_server
from connectors.models import Connector, Secret
from connectors.usages import find_usages
from rbac.models import Scope
from rbac.policy import filter_visible
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS, SHARED_PARAMETER
from web.api.views import BaseApiView, check_version, respond_with_etag
from web.http.problems import BadInput

CONNECTOR_VIEW_PERMISSION = "core_connector_view"


class ConnectorDocument(serializers.Serializer[Any]):
    """Connector; `secret` is the identifier of its secret, whose value is never shown."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    kind = serializers.ChoiceField(choices=Connector.Kind.choices)
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    spec = serializers.JSONField()
    secret = serializers.CharField(source="secret.identifier", allow_null=True, default=None)
    session_token = serializers.CharField(
        source="session_token.identifier",
        allow_null=True,
        default=None,
        help_text="Secret of a temporary key.",
    )
    last_tested_at = serializers.DateTimeField(allow_null=True)
    last_test_ok = serializers.BooleanField(allow_null=True)
    last_test_message = serializers.CharField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class ConnectorChange(serializers.Serializer[Any]):
    """Writable fields of a connector; `spec` replaces the current one."""

    name = serializers.CharField(max_length=128, required=False)
    spec = serializers.DictField(required=False)
    secret = serializers.CharField(
        max_length=128,
        required=False,
        allow_null=True,
        help_text="Secret of the credentials; null in a change removes it, unless the spec needs one.",
    )
    session_token = serializers.CharField(
        max_length=128,
        required=False,
        allow_null=True,
        help_text="Secret of a temporary key; null in a change removes it.",
    )


class ConnectorInput(ConnectorChange):
    """Fields of a new connector."""

    identifier = serializers.CharField(max_length=128)
    name = serializers.CharField(max_length=128)
    kind = serializers.ChoiceField(choices=Connector.Kind.choices, default=Connector.Kind.AWS)
    spec = serializers.DictField()
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class Connectors(BaseApiView):
    """Connectors."""

    @extend_schema(parameters=[*LIST_PARAMETERS, SHARED_PARAMETER], responses=ConnectorDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(
            CONNECTOR_VIEW_PERMISSION,
            Connector.objects.select_related("scope", "secret", "session_token"),
            ConnectorDocument,
        )

    @extend_schema(request=ConnectorInput, responses={201: ConnectorDocument})
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(ConnectorInput), self.get_named_scope()
        made = operations.create_connector(
            actor=self.principal,
            scope=scope,
            identifier=body["identifier"],
            name=body["name"],
            kind=body["kind"],
            spec=body["spec"],
            secret=_find_secret(self, scope, body.get("secret")),
            session_token=_find_secret(self, scope, body.get("session_token"), path="session_token"),
        )
        return respond_with_etag(ConnectorDocument(made).data, _get_version(made), status=201)


class ConnectorUsages(BaseApiView):
    """References to a connector."""

    @extend_schema(responses=UsesDocument)
    def get(self, request: Request, pk: int) -> Response:
        connector = self.get_visible(
            CONNECTOR_VIEW_PERMISSION, Connector.objects.select_related("scope"), pk=pk
        )
        return Response(UsesDocument(find_usages(connector, self.principal)).data)


class ConnectorDetail(BaseApiView):
    """Connector."""

    @extend_schema(responses=ConnectorDocument)
    def get(self, request: Request, pk: int) -> Response:
        connector = self._get_connector(pk)
        return respond_with_etag(ConnectorDocument(connector).data, _get_version(connector))

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=ConnectorChange, responses=ConnectorDocument)
    def patch(self, request: Request, pk: int) -> Response:
        body = self.get_validated_body(ConnectorChange)
        with transaction.atomic():
            connector = self._get_connector(pk, lock=True)
            check_version(request, _get_version(connector))
            changed = operations.update_connector(
                actor=self.principal,
                connector=connector,
                name=body.get("name"),
                spec=body.get("spec"),
                secret=_find_changed_secret(self, connector, body, "secret"),
                session_token=_find_changed_secret(self, connector, body, "session_token"),
            )
        return respond_with_etag(ConnectorDocument(changed).data, _get_version(changed))

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            connector = self._get_connector(pk, lock=True)
            check_version(request, _get_version(connector))
            operations.delete_connector(actor=self.principal, connector=connector)
        return Response(status=204)

    def _get_connector(self, pk: int, *, lock: bool = False) -> Connector:
        rows = Connector.objects.select_related("scope", "secret", "session_token")
        return self.get_visible(CONNECTOR_VIEW_PERMISSION, rows, lock=lock, pk=pk)


def _get_version(connector: Connector) -> str:
    return f"{connector.updated_at.timestamp():.6f}"


def _find_secret(
    route: BaseApiView, scope: Scope, identifier: str | None, *, path: str = "secret"
) -> Secret | None:
    """Return the nearest secret with that identifier that `scope` may use."""
    if not identifier:
        return None
    visible = filter_visible(route.principal, "core_secret_view", queries.list_secrets(scope))
    secret = visible.filter(identifier=identifier).order_by("-scope__path").first()
    if secret is None:
        message = f"No secret {identifier} in this scope or above."
        raise BadInput(message, errors=[{"path": path, "message": message}])
    return secret


def _find_changed_secret(
    route: BaseApiView, connector: Connector, body: Mapping[str, Any], field: str
) -> Secret | Literal[False] | None:
    """Return the secret that a change names, False to remove the current one, or None to keep it."""
    if secret := _find_secret(route, connector.scope, body.get(field), path=field):
        return secret
    is_removed = field in body and getattr(connector, field) is not None
    return False if is_removed else None


HOST_KEY_VIEW_PERMISSION = "core_connector_view"


class HostKeyDocument(serializers.Serializer[Any]):
    """Public host key of a server, with its SSH fingerprint."""

    type = serializers.CharField()
    key = serializers.CharField(source="body")
    fingerprint = serializers.CharField()


class KnownServerDocument(serializers.Serializer[Any]):
    """Host keys of a server: those of the connector's spec, else the first one that the server presented."""

    given = HostKeyDocument(many=True, source="configured")
    seen = HostKeyDocument(allow_null=True)
    seen_at = serializers.DateTimeField(allow_null=True)
    offered = HostKeyDocument(
        allow_null=True,
        help_text="A new key offered by the server; nothing is fetched until it is accepted.",
    )
    offered_at = serializers.DateTimeField(allow_null=True)


class AcceptedKey(serializers.Serializer[Any]):
    """Fingerprint of the offered key, after comparison with the server's own."""

    fingerprint = serializers.CharField(max_length=128)


class ConnectorHostKey(BaseApiView):
    """Host key of a connector's SSH server."""

    @extend_schema(responses=KnownServerDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(KnownServerDocument(get_known_server(self._get_connector(pk))).data)

    @extend_schema(request=AcceptedKey, responses=KnownServerDocument)
    def post(self, request: Request, pk: int) -> Response:
        changed = operations.accept_host_key(
            actor=self.principal,
            connector=self._get_connector(pk),
            fingerprint=self.get_validated_body(AcceptedKey)["fingerprint"],
        )
        return Response(KnownServerDocument(get_known_server(changed)).data)

    def _get_connector(self, pk: int) -> Connector:
        return self.get_visible(HOST_KEY_VIEW_PERMISSION, Connector.objects.select_related("scope"), pk=pk)
