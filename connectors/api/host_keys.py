"""Routes of the keys that SSH servers of connectors are known by."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.host_keys import known_server
from connectors.models import Connector
from web.rest import Route

VIEW = "core_connector_view"


class HostKeyDocument(serializers.Serializer[Any]):
    """One public key of a server, with the fingerprint that ssh shows of it."""

    type = serializers.CharField()
    key = serializers.CharField(source="body")
    fingerprint = serializers.CharField()


class KnownServerDocument(serializers.Serializer[Any]):
    """How a server is known: by keys of the connector's spec, else by the first one that it showed."""

    given = HostKeyDocument(many=True)
    seen = HostKeyDocument(allow_null=True)
    seen_at = serializers.DateTimeField(allow_null=True)
    offered = HostKeyDocument(
        allow_null=True,
        help_text="Another key, shown since; nothing is fetched until it is accepted.",
    )
    offered_at = serializers.DateTimeField(allow_null=True)


class AcceptedKey(serializers.Serializer[Any]):
    """The fingerprint of the offered key, as it was compared with the server's own."""

    fingerprint = serializers.CharField(max_length=128)


class ConnectorHostKey(Route):
    """The key of a connector's SSH server."""

    @extend_schema(responses=KnownServerDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(KnownServerDocument(known_server(self._found(pk))).data)

    @extend_schema(request=AcceptedKey, responses=KnownServerDocument)
    def post(self, request: Request, pk: int) -> Response:
        changed = operations.accept_host_key(
            actor=self.principal,
            connector=self._found(pk),
            fingerprint=self.given(AcceptedKey)["fingerprint"],
        )
        return Response(KnownServerDocument(known_server(changed)).data)

    def _found(self, pk: int) -> Connector:
        return self.one(VIEW, Connector.objects.select_related("scope"), pk=pk)
