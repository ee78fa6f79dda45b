"""Routes of what was deleted from the file store and can still be had back."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.api.files import VIEW, FileDocument
from connectors.models import FileDeletion
from web.rest import ORG, PAGED, PROJECT, Route, versioned


class DeletionDocument(serializers.Serializer[Any]):
    """One deletion of a file or folder; it is kept for 30 days."""

    id = serializers.IntegerField()
    path = serializers.CharField()
    is_folder = serializers.BooleanField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    at = serializers.DateTimeField()
    by = serializers.CharField(source="by.username", default=None, allow_null=True)


class FileDeletions(Route):
    """What was deleted, newest first."""

    @extend_schema(parameters=[ORG, PROJECT, *PAGED], responses=DeletionDocument(many=True))
    def get(self, request: Request) -> Response:
        rows = FileDeletion.objects.select_related("scope", "by")
        return self.listed(VIEW, rows, DeletionDocument, by_identifier=False)


class OneFileDeletion(Route):
    """One deletion."""

    @extend_schema(responses=DeletionDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(DeletionDocument(_found(self, pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Let go of it for ever."""
        operations.forget_deletion(actor=self.principal, deletion=_found(self, pk))
        return Response(status=204)


class FileUndeletion(Route):
    """Having back what was deleted."""

    @extend_schema(request=None, responses=FileDocument)
    def post(self, request: Request, pk: int) -> Response:
        node = operations.undelete_files(actor=self.principal, deletion=_found(self, pk))
        return versioned(FileDocument(node).data, node.version)


def _found(route: Route, pk: int) -> FileDeletion:
    return route.one(VIEW, FileDeletion.objects.select_related("scope", "by"), pk=pk)
