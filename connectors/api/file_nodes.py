"""API of files by id: versions, diff, restore, move, usages, checks and clean-up."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.api.files import FILE_VIEW_PERMISSION, FileDocument
from connectors.api.usages import UsesDocument
from connectors.file_kinds import FileText, check_file, clean_up_file
from connectors.file_store import normalize_content, normalize_path
from connectors.models import FileNode, FileVersion
from connectors.usages import find_usages
from guards.limits import PATH_CHARACTERS
from rbac.policy import require
from web.api.parameters import IF_MATCH_PARAMETER, PAGE_PARAMETERS
from web.api.views import BaseApiView, check_version, respond_with_etag
from web.http.problems import BadInput
from web.text_diffs import compare_texts


class VersionEntry(serializers.Serializer[Any]):
    """File version in a history."""

    version = serializers.IntegerField()
    note = serializers.CharField()
    at = serializers.DateTimeField()
    by = serializers.CharField(source="by.username", allow_null=True, default=None)


class FileVersionDocument(VersionEntry):
    """File version with its content."""

    content = serializers.CharField()


class DiffDocument(serializers.Serializer[Any]):
    """Difference between two versions, as a unified diff without file names."""

    added = serializers.IntegerField()
    removed = serializers.IntegerField()
    unified = serializers.CharField()


class MoveInput(serializers.Serializer[Any]):
    """New location of a file or folder within its scope."""

    path = serializers.CharField(max_length=int(PATH_CHARACTERS))
    although_used = serializers.BooleanField(required=False, default=False)


class RestoreInput(serializers.Serializer[Any]):
    """Version that becomes the newest one again."""

    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


class CheckInput(serializers.Serializer[Any]):
    """Text to validate as the content of the file at `path`."""

    path = serializers.CharField(max_length=int(PATH_CHARACTERS))
    content = serializers.CharField(allow_blank=True, trim_whitespace=False)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class CheckProblem(serializers.Serializer[Any]):
    """Problem in a text; line and column count from 1."""

    message = serializers.CharField()
    path = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    column = serializers.IntegerField(allow_null=True)


class CheckDocument(serializers.Serializer[Any]):
    """Validation result of a text; `note` names the detected file type."""

    def get_fields(self) -> dict[str, Any]:
        # A class attribute of this name would hide the serializer's own.
        return {"errors": CheckProblem(many=True), **super().get_fields()}

    warnings = CheckProblem(many=True)
    note = serializers.CharField()


class FileCleanUpInput(CheckInput):
    """Manifest to clean up; `service_name` becomes its serviceName if it has none."""

    service_name = serializers.RegexField(
        r"^[A-Za-z0-9_-]*$", required=False, allow_blank=True, max_length=255, default=""
    )


class CleanUpDocument(serializers.Serializer[Any]):
    """Manifest in the format of AWS, with a sentence for each change; nothing is saved."""

    content = serializers.CharField()
    changes = serializers.ListField(child=serializers.CharField())
    diff = DiffDocument()


VERSION_SCHEMA = {"type": "integer", "minimum": 1, "maximum": 999_999_999}
FROM_VERSION = OpenApiParameter("from", VERSION_SCHEMA, required=True, description="Older version.")
TO_VERSION = OpenApiParameter("to", VERSION_SCHEMA, description="Newer version; by default the newest.")


class FileNodeRoute(BaseApiView):
    """Base of the routes of one file or folder."""

    def _get_node(self, pk: int) -> FileNode:
        return self.get_visible(
            FILE_VIEW_PERMISSION, FileNode.objects.select_related("scope", "updated_by"), pk=pk
        )

    def _get_version(self, pk: int, version: int) -> FileVersion:
        rows = FileVersion.objects.filter(node__deletion=None).select_related("by", "node__scope")
        return self.get_visible(FILE_VIEW_PERMISSION, rows, node=pk, version=version)


class FileVersions(FileNodeRoute):
    """History of a file, newest first."""

    order = "version"

    @extend_schema(parameters=PAGE_PARAMETERS, responses=VersionEntry(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rows = FileVersion.objects.filter(node=self._get_node(pk)).defer("content").select_related("by")
        return self.paginate(rows, VersionEntry)


class FileVersionDetail(FileNodeRoute):
    """Content of a file at one version."""

    @extend_schema(responses=FileVersionDocument)
    def get(self, request: Request, pk: int, version: int) -> Response:
        return Response(FileVersionDocument(self._get_version(pk, version)).data)


class FileDiff(FileNodeRoute):
    """Difference between two versions of a file."""

    @extend_schema(parameters=[FROM_VERSION, TO_VERSION], responses=DiffDocument)
    def get(self, request: Request, pk: int) -> Response:
        node = self._get_node(pk)
        older = self._get_version(pk, parse_version_parameter(request, "from"))
        newer = self._get_version(
            pk, parse_version_parameter(request, "to") if "to" in request.GET else node.version
        )
        return Response(DiffDocument(compare_texts(older.content, newer.content)).data)


class FileRestore(FileNodeRoute):
    """Restoration of an earlier version of a file."""

    @extend_schema(request=RestoreInput, responses=FileDocument)
    def post(self, request: Request, pk: int) -> Response:
        node = self._get_node(pk)
        version = self.get_validated_body(RestoreInput)["version"]
        restored = operations.restore_file(actor=self.principal, node=node, version=version)
        return respond_with_etag(FileDocument(restored).data, restored.version)


class FileMove(FileNodeRoute):
    """Rename or move of a file or folder."""

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=MoveInput, responses=FileDocument)
    def post(self, request: Request, pk: int) -> Response:
        node, body = self._get_node(pk), self.get_validated_body(MoveInput)
        check_version(request, node.version)
        moved = operations.move_file(actor=self.principal, node=node, **body)
        return respond_with_etag(FileDocument(moved).data, moved.version)


class FileUsages(FileNodeRoute):
    """References to a file or folder."""

    @extend_schema(responses=UsesDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(UsesDocument(find_usages(self._get_node(pk), self.principal)).data)


class FileChecks(BaseApiView):
    """Validation of a text before it is saved; nothing is created."""

    @extend_schema(request=CheckInput, responses=CheckDocument)
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(CheckInput), self.get_named_scope()
        require(self.principal, FILE_VIEW_PERMISSION, scope)
        text = FileText(scope, normalize_path(body["path"]), normalize_content(body["content"]))
        return Response(check_file(text).to_json())


class FileCleanUps(BaseApiView):
    """Cleanup of a manifest that was copied from AWS or another tool; nothing is created."""

    @extend_schema(request=FileCleanUpInput, responses=CleanUpDocument)
    def post(self, request: Request) -> Response:
        body, scope = self.get_validated_body(FileCleanUpInput), self.get_named_scope()
        require(self.principal, FILE_VIEW_PERMISSION, scope)
        text = FileText(scope, normalize_path(body["path"]), normalize_content(body["content"]))
        return Response(CleanUpDocument(clean_up_file(text, self.principal, body["service_name"])).data)


def parse_version_parameter(request: Request, name: str) -> int:
    """Return the version in a query parameter. Raises `BadInput`."""
    text = request.GET.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadInput(
            "The version must be a number.", errors=[{"path": name, "message": ("must be a number")}]
        )
    return int(text)
