"""API of imports from other tools: preview and creation."""

from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import IMPORT_BYTES, VALUE_CHARACTERS
from pipelines.imports.operations import create_import, preview_import
from pipelines.imports.proposals import TOOLS, ImportProposal, ImportSpec
from web.api.views import BaseApiView
from web.http.problems import BadInput


class ImportFileFields(serializers.Serializer[Any]):
    """A file by its path in the imported folder."""

    path = serializers.CharField(max_length=255, trim_whitespace=False)
    content = serializers.CharField(allow_blank=True, trim_whitespace=False, max_length=int(IMPORT_BYTES))


class ImportPreviewInput(serializers.Serializer[Any]):
    """Files of ecspresso or PipeCD, and where their service is deployed to.

    An environment that does not exist is created with an infrastructure of the connector. `values` are
    environment variables that the files name, `approver_group` the group of WAIT_APPROVAL stages. What is
    empty is derived from the files.
    """

    tool = serializers.ChoiceField(choices=list(TOOLS))
    files = ImportFileFields(many=True)
    environment = serializers.CharField(max_length=128)
    infrastructure = serializers.CharField(max_length=128, allow_blank=True, default="")
    connector = serializers.CharField(max_length=256, allow_blank=True, default="")
    service = serializers.CharField(max_length=128, allow_blank=True, default="")
    region = serializers.CharField(max_length=64, allow_blank=True, default="")
    cluster = serializers.CharField(max_length=255, allow_blank=True, default="")
    approver_group = serializers.CharField(max_length=256, allow_blank=True, default="")
    values = serializers.DictField(
        child=serializers.CharField(
            allow_blank=True, trim_whitespace=False, max_length=int(VALUE_CHARACTERS)
        ),
        default=dict,
    )
    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class ImportInput(ImportPreviewInput):
    """The input of a preview, with the `digest` of its answer."""

    digest = serializers.CharField(max_length=64)


class ImportNoticeDocument(serializers.Serializer[Any]):
    """Part of a file that the import changes or leaves out."""

    file = serializers.CharField()
    line = serializers.IntegerField()
    message = serializers.CharField()


class ImportedManifestDocument(serializers.Serializer[Any]):
    """Manifest of the service."""

    identifier = serializers.CharField()
    kind = serializers.CharField()
    content = serializers.CharField()


class ImportPreviewDocument(serializers.Serializer[Any]):
    """Service, infrastructure and pipeline that the import would create."""

    digest = serializers.CharField()
    service = serializers.CharField(source="identifier")
    name = serializers.CharField(source="service.name")
    image = serializers.CharField(source="service.image")
    tag = serializers.CharField(source="service.tag")
    variables = serializers.DictField(source="service.variables")
    manifests = ImportedManifestDocument(many=True, source="service.manifests")
    environment = serializers.CharField()
    infrastructure = serializers.CharField()
    region = serializers.CharField()
    cluster = serializers.CharField()
    pipeline = serializers.CharField()
    notices = ImportNoticeDocument(many=True)
    takeovers = serializers.ListField(
        child=serializers.CharField(),
        help_text="Pipelines that use it in place of resources of scopes above.",
    )


class ImportDocument(serializers.Serializer[Any]):
    """Keys of the service, infrastructure and pipeline of an import."""

    service = serializers.IntegerField(source="service.pk")
    environment = serializers.IntegerField(source="infrastructure.environment_id")
    infrastructure = serializers.IntegerField(source="infrastructure.pk")
    pipeline = serializers.IntegerField(source="pipeline.pk")
    takeovers = serializers.ListField(
        child=serializers.CharField(),
        help_text="Pipelines that use it in place of resources of scopes above.",
    )


class ImportPreviewRoute(BaseApiView):
    """Preview of an import; nothing is created."""

    @extend_schema(request=ImportPreviewInput, responses=ImportPreviewDocument)
    def post(self, request: Request) -> Response:
        spec = _build_spec(self.get_validated_body(ImportPreviewInput))
        proposal: ImportProposal = preview_import(
            actor=self.principal, scope=self.get_named_scope(), spec=spec
        )
        return Response(ImportPreviewDocument(proposal).data)


class ImportRoute(BaseApiView):
    """Imports from other tools."""

    @extend_schema(request=ImportInput, responses={201: ImportDocument})
    def post(self, request: Request) -> Response:
        body = self.get_validated_body(ImportInput)
        created = create_import(
            actor=self.principal,
            scope=self.get_named_scope(),
            spec=_build_spec(body),
            digest=body["digest"],
        )
        return Response(ImportDocument(created).data, status=201)


def _build_spec(body: dict[str, Any]) -> ImportSpec:
    files = {file["path"]: file["content"] for file in body["files"]}
    if len(files) < len(body["files"]):
        message = "a path is there twice"
        raise BadInput("The import is not valid.", errors=[{"path": "files", "message": message}])
    return ImportSpec.from_answers(files, body)
