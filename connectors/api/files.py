"""API of files by path and scope."""

from typing import Any

from django.db import transaction
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.file_store import filter_folder_contents, normalize_path
from connectors.models import FileNode
from connectors.operations.files import NOTE_CHARACTERS
from guards.limits import PATH_CHARACTERS
from rbac.policy import filter_visible
from web.api.parameters import (
    FORCE_DELETE_PARAMETER,
    IF_MATCH_PARAMETER,
    ORG_PARAMETER,
    PAGE_PARAMETERS,
    PROJECT_PARAMETER,
)
from web.api.views import BaseApiView, check_version, filter_by_scope, respond_with_etag
from web.http.problems import BadInput

FILE_VIEW_PERMISSION = "core_file_view"
FOLDER = OpenApiParameter("folder", OpenApiTypes.STR, description="Files in this folder and its subfolders.")
PATH = OpenApiParameter("path", OpenApiTypes.STR, description="File or folder with this path.")
WITH_CONTENT = OpenApiParameter(
    "with_content", OpenApiTypes.BOOL, description="Delete a folder even if it is not empty."
)


class FileEntry(serializers.Serializer[Any]):
    """File or folder in a list."""

    id = serializers.IntegerField()
    path = serializers.CharField()
    is_folder = serializers.BooleanField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    version = serializers.IntegerField()
    updated_at = serializers.DateTimeField()
    updated_by = serializers.CharField(source="updated_by.username", allow_null=True, default=None)


class FileDocument(FileEntry):
    """File or folder with its content."""

    content = serializers.CharField()


class FileContent(serializers.Serializer[Any]):
    """Text of a file."""

    content = serializers.CharField(allow_blank=True, trim_whitespace=False)
    note = serializers.CharField(allow_blank=True, required=False, default="", max_length=NOTE_CHARACTERS)


class FileInput(serializers.Serializer[Any]):
    """Fields of a new file or folder."""

    path = serializers.CharField(max_length=int(PATH_CHARACTERS))
    content = serializers.CharField(allow_blank=True, trim_whitespace=False, required=False, default="")
    is_folder = serializers.BooleanField(required=False, default=False)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class Files(BaseApiView):
    """Files and folders without their contents."""

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, FOLDER, PATH, *PAGE_PARAMETERS],
        responses=FileEntry(many=True),
    )
    def get(self, request: Request) -> Response:
        rows = FileNode.objects.defer("content").select_related("scope", "updated_by")
        nodes = filter_by_scope(
            request, filter_visible(self.principal, FILE_VIEW_PERMISSION, rows), by_identifier=False
        )
        if folder := request.GET.get("folder"):
            nodes = filter_folder_contents(nodes, folder.rstrip("/"))
        if path := request.GET.get("path"):
            nodes = nodes.filter(path=path)
        return self.paginate(nodes, FileEntry)

    @extend_schema(request=FileInput, responses={201: FileDocument})
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(FileInput), self.get_named_scope()
        if body["is_folder"] and body["content"]:
            raise BadInput(
                "A folder has no content.", errors=[{"path": "content", "message": "must be empty"}]
            )
        if body["is_folder"]:
            made = operations.create_folder(actor=self.principal, scope=scope, path=body["path"])
        else:
            made = operations.save_file(
                actor=self.principal,
                scope=scope,
                path=body["path"],
                content=body["content"],
                expected_version=0,
            )
        return respond_with_etag(FileDocument(made).data, made.version, status=201)


class FileDetail(BaseApiView):
    """File or folder."""

    @extend_schema(parameters=[ORG_PARAMETER, PROJECT_PARAMETER], responses=FileDocument)
    def get(self, request: Request, path: str) -> Response:
        node = self._get_node(path)
        return respond_with_etag(FileDocument(node).data, node.version)

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, IF_MATCH_PARAMETER],
        request=FileContent,
        responses=FileDocument,
    )
    def put(self, request: Request, path: str) -> Response:
        """Create the file or replace its content."""
        body, scope = self.get_validated_body(FileContent), self.get_named_scope()
        saved = operations.save_file(
            actor=self.principal,
            scope=scope,
            path=f"/{path}",
            content=body["content"],
            note=body["note"],
            expected_version=self._expected_version(path),
        )
        return respond_with_etag(FileDocument(saved).data, saved.version)

    @extend_schema(
        parameters=[
            ORG_PARAMETER,
            PROJECT_PARAMETER,
            WITH_CONTENT,
            FORCE_DELETE_PARAMETER,
            IF_MATCH_PARAMETER,
        ],
        responses={204: None},
    )
    def delete(self, request: Request, path: str) -> Response:
        with transaction.atomic():
            node = self._get_node(path, lock=True)
            check_version(request, node.version)
            operations.delete_file(
                actor=self.principal,
                node=node,
                with_content=self.is_flag_set("with_content"),
                although_used=self.is_flag_set("although_used"),
            )
        return Response(status=204)

    def _expected_version(self, path: str) -> int | None:
        """Return the version in If-Match, which the operation compares in its transaction."""
        if "If-Match" not in self.request.headers:
            return None
        node = self._get_node(path)
        check_version(self.request, node.version)
        return node.version

    def _get_node(self, path: str, *, lock: bool = False) -> FileNode:
        rows = FileNode.objects.select_related("scope", "updated_by")
        lookup = {"scope": self.get_named_scope(), "path": normalize_path(f"/{path}")}
        return self.get_visible(FILE_VIEW_PERMISSION, rows, lock=lock, **lookup)
