"""Routes of one file by its id: its history, what changed, moving it, and who uses it."""

from typing import Any

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors import operations
from connectors.api.files import VIEW, FileDocument
from connectors.api.uses import UsesDocument
from connectors.file_checks import FileText, check_file, clean_up_file
from connectors.files import clean_content, clean_path
from connectors.models import FileNode, FileVersion
from connectors.uses import uses_of
from guards.limits import PATH_CHARACTERS
from rbac.policy import require
from web.problems import BadInput
from web.rest import IF_MATCH, PAGED, Route, check_version, versioned
from web.text_diff import diff


class VersionEntry(serializers.Serializer[Any]):
    """A version of a file in its history."""

    version = serializers.IntegerField()
    note = serializers.CharField()
    at = serializers.DateTimeField()
    by = serializers.CharField(source="by.username", allow_null=True, default=None)


class FileVersionDocument(VersionEntry):
    """A version of a file with its content."""

    content = serializers.CharField()


class DiffDocument(serializers.Serializer[Any]):
    """What changed between two versions, as a unified diff without file names."""

    added = serializers.IntegerField()
    removed = serializers.IntegerField()
    unified = serializers.CharField()


class MoveInput(serializers.Serializer[Any]):
    """Where a file or folder goes within its scope."""

    path = serializers.CharField(max_length=int(PATH_CHARACTERS))
    although_used = serializers.BooleanField(required=False, default=False)


class RestoreInput(serializers.Serializer[Any]):
    """Which version becomes the newest again."""

    version = serializers.IntegerField(min_value=1, max_value=2**31 - 1)


class CheckInput(serializers.Serializer[Any]):
    """A text that may become the content of the file at `path`."""

    path = serializers.CharField(max_length=int(PATH_CHARACTERS))
    content = serializers.CharField(allow_blank=True, trim_whitespace=False)
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class CheckProblem(serializers.Serializer[Any]):
    """One thing wrong with a text; line and column count from 1."""

    message = serializers.CharField()
    path = serializers.CharField()
    line = serializers.IntegerField(allow_null=True)
    column = serializers.IntegerField(allow_null=True)


class CheckDocument(serializers.Serializer[Any]):
    """What came of a check; `note` says as what the text was checked."""

    def get_fields(self) -> dict[str, Any]:
        # A class attribute of this name would hide the serializer's own.
        return {"errors": CheckProblem(many=True), **super().get_fields()}

    warnings = CheckProblem(many=True)
    note = serializers.CharField()


class FileCleanUpInput(CheckInput):
    """A manifest to clean up; `service_name` becomes its serviceName where it has none."""

    service_name = serializers.RegexField(
        r"^[A-Za-z0-9_-]*$", required=False, allow_blank=True, max_length=255, default=""
    )


class CleanUpDocument(serializers.Serializer[Any]):
    """A manifest as AWS takes it, with a sentence for each change; nothing is saved."""

    content = serializers.CharField()
    changes = serializers.ListField(child=serializers.CharField())
    diff = DiffDocument()


NUMBER = {"type": "integer", "minimum": 1, "maximum": 999_999_999}
FROM = OpenApiParameter("from", NUMBER, required=True, description="The older version.")
TO = OpenApiParameter("to", NUMBER, description="The newer version; the newest if not given.")


class NodeRoute(Route):
    """The base of routes about one file or folder."""

    def _found(self, pk: int) -> FileNode:
        return self.one(VIEW, FileNode.objects.select_related("scope", "updated_by"), pk=pk)

    def _version(self, pk: int, version: int) -> FileVersion:
        rows = FileVersion.objects.filter(node__deletion=None).select_related("by", "node__scope")
        return self.one(VIEW, rows, node=pk, version=version)


class FileVersions(NodeRoute):
    """The history of a file, newest first."""

    order = "version"

    @extend_schema(parameters=PAGED, responses=VersionEntry(many=True))
    def get(self, request: Request, pk: int) -> Response:
        rows = FileVersion.objects.filter(node=self._found(pk)).defer("content").select_related("by")
        return self.page(rows, VersionEntry)


class OneFileVersion(NodeRoute):
    """What a file held at one version."""

    @extend_schema(responses=FileVersionDocument)
    def get(self, request: Request, pk: int, version: int) -> Response:
        return Response(FileVersionDocument(self._version(pk, version)).data)


class FileDiff(NodeRoute):
    """What changed between two versions of a file."""

    @extend_schema(parameters=[FROM, TO], responses=DiffDocument)
    def get(self, request: Request, pk: int) -> Response:
        node = self._found(pk)
        older = self._version(pk, version_number(request, "from"))
        newer = self._version(pk, version_number(request, "to") if "to" in request.GET else node.version)
        return Response(DiffDocument(diff(older.content, newer.content)).data)


class FileRestore(NodeRoute):
    """Making an earlier version the newest one."""

    @extend_schema(request=RestoreInput, responses=FileDocument)
    def post(self, request: Request, pk: int) -> Response:
        node = self._found(pk)
        version = self.given(RestoreInput)["version"]
        restored = operations.restore_file(actor=self.principal, node=node, version=version)
        return versioned(FileDocument(restored).data, restored.version)


class FileMove(NodeRoute):
    """Renaming or moving a file or folder."""

    @extend_schema(parameters=[IF_MATCH], request=MoveInput, responses=FileDocument)
    def post(self, request: Request, pk: int) -> Response:
        node, given = self._found(pk), self.given(MoveInput)
        check_version(request, node.version)
        moved = operations.move_file(actor=self.principal, node=node, **given)
        return versioned(FileDocument(moved).data, moved.version)


class FileUses(NodeRoute):
    """What refers to a file or folder."""

    @extend_schema(responses=UsesDocument)
    def get(self, request: Request, pk: int) -> Response:
        return Response(UsesDocument(uses_of(self._found(pk), self.principal)).data)


class FileChecks(Route):
    """Checking a text before it is saved; nothing is kept."""

    @extend_schema(request=CheckInput, responses=CheckDocument)
    def post(self, request: Request) -> Response:
        given, scope = self.given(CheckInput), self.scope_named()
        require(self.principal, VIEW, scope)
        text = FileText(scope, clean_path(given["path"]), clean_content(given["content"]))
        return Response(check_file(text).to_json())


class FileCleanUps(Route):
    """Cleaning up a manifest that was copied from AWS or another tool; nothing is kept."""

    @extend_schema(request=FileCleanUpInput, responses=CleanUpDocument)
    def post(self, request: Request) -> Response:
        given, scope = self.given(FileCleanUpInput), self.scope_named()
        require(self.principal, VIEW, scope)
        text = FileText(scope, clean_path(given["path"]), clean_content(given["content"]))
        return Response(CleanUpDocument(clean_up_file(text, self.principal, given["service_name"])).data)


def version_number(request: Request, name: str) -> int:
    """The version that a parameter of the address names. Raises `BadInput`."""
    text = request.GET.get(name, "")
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadInput("Name a version by its number.", errors=[{"path": name, "message": "is no number"}])
    return int(text)
