"""API of deleted files."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.api.files import FILE_VIEW_PERMISSION, FileDocument
from connectors.models import FileDeletion
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView, respond_with_etag


class DeletionDocument(serializers.Serializer[Any]):
    """Deletion of a file or folder; it can be undone for 30 days."""

    id = serializers.IntegerField()
    path = serializers.CharField()
    is_folder = serializers.BooleanField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    at = serializers.DateTimeField()
    by = serializers.CharField(source="by.username", default=None, allow_null=True)


class FileDeletions(BaseApiView):
    """Deleted files and folders, newest first."""

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, *PAGE_PARAMETERS], responses=DeletionDocument(many=True)
    )
    def get(self, request: Request) -> Response:
        rows = FileDeletion.objects.select_related("scope", "by")
        return self.list_visible(FILE_VIEW_PERMISSION, rows, DeletionDocument, by_identifier=False)


class FileDeletionDetail(BaseApiView):
    """Deletion."""

    @extend_schema(responses=DeletionDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(DeletionDocument(_get_deletion(self, pk)).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Delete the files permanently."""
        operations.purge_deletion(actor=self.principal, deletion=_get_deletion(self, pk))
        return Response(status=204)


class FileDeletionUndo(BaseApiView):
    """Restoration of a deleted file or folder."""

    @extend_schema(request=None, responses=FileDocument)
    def post(self, request: Request, pk: int) -> Response:
        node = operations.undelete_files(actor=self.principal, deletion=_get_deletion(self, pk))
        return respond_with_etag(FileDocument(node).data, node.version)


def _get_deletion(route: BaseApiView, pk: int) -> FileDeletion:
    return route.get_visible(FILE_VIEW_PERMISSION, FileDeletion.objects.select_related("scope", "by"), pk=pk)
