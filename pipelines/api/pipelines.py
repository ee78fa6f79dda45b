"""API of pipelines and their versions."""

from typing import Any

from django.db import transaction
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors.api.file_nodes import (
    FROM_VERSION,
    TO_VERSION,
    CheckDocument,
    DiffDocument,
    parse_version_parameter,
)
from guards.limits import SPEC_BYTES
from pipelines.editor.suggestions import build_full_schema
from pipelines.models import Pipeline, PipelineVersion
from pipelines.operations import pipelines
from rbac.policy import require
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS, PAGE_PARAMETERS
from web.api.parsers import GuardedJSONParser, GuardedYAMLParser, LegacyYAMLParser
from web.api.proposed_changes import ProposedChangeDocument
from web.api.views import BaseApiView, check_version, respond_with_etag
from web.text_diffs import compare_texts

VIEW = "core_pipeline_view"


class PipelineDocument(serializers.Serializer[Any]):
    """Pipeline; `yaml` is its complete definition."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    yaml = serializers.CharField()
    version = serializers.IntegerField()
    created_at = serializers.DateTimeField()
    updated_at = serializers.DateTimeField()


class PipelineUpdateInput(serializers.Serializer[Any]):
    """A pipeline as YAML; identifier and name are read from it."""

    yaml = serializers.CharField(trim_whitespace=False, max_length=int(SPEC_BYTES))


class PipelineInput(PipelineUpdateInput):
    """A new pipeline as YAML."""

    org = serializers.CharField(required=False, write_only=True)
    project = serializers.CharField(required=False, write_only=True)


class PipelineRoute(BaseApiView):
    """Base of routes that accept a pipeline as YAML, or as JSON that wraps YAML."""

    parser_classes = (GuardedJSONParser, GuardedYAMLParser, LegacyYAMLParser)

    def pipeline(self, pk: int, *, lock: bool = False) -> Pipeline:
        """Return the pipeline in the URL."""
        return self.get_visible(VIEW, Pipeline.objects.select_related("scope"), lock=lock, pk=pk)


class PipelineList(PipelineRoute):
    """List of pipelines."""

    @extend_schema(parameters=LIST_PARAMETERS, responses=PipelineDocument(many=True))
    def get(self, request: Request) -> Response:
        return self.list_visible(VIEW, Pipeline.objects.select_related("scope"), PipelineDocument)

    @extend_schema(
        request={"application/json": PipelineInput, "application/yaml": OpenApiTypes.STR},
        responses={201: PipelineDocument},
    )
    def post(self, request: Request) -> Response:
        data, scope = self.get_validated_body(PipelineInput), self.get_named_scope()
        made = pipelines.save_pipeline(actor=self.principal, scope=scope, yaml=data["yaml"])
        return respond_with_etag(PipelineDocument(made).data, made.version, status=201)


class PipelineSchema(BaseApiView):
    """The JSON Schema of a pipeline's YAML, for editors."""

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request) -> Response:
        return Response(build_full_schema())


class PipelineDetail(PipelineRoute):
    """Pipeline."""

    @extend_schema(responses=PipelineDocument)
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self.pipeline(pk)
        return respond_with_etag(PipelineDocument(pipeline).data, pipeline.version)

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER],
        request={"application/json": PipelineUpdateInput, "application/yaml": OpenApiTypes.STR},
        responses={200: PipelineDocument, 202: ProposedChangeDocument},
    )
    def put(self, request: Request, pk: int) -> Response:
        data = self.get_validated_body(PipelineUpdateInput)
        with transaction.atomic():
            pipeline = self.pipeline(pk, lock=True)
            check_version(request, pipeline.version)
            changed = pipelines.save_pipeline(
                actor=self.principal, scope=pipeline.scope, yaml=data["yaml"], pipeline=pipeline
            )
        return respond_with_etag(PipelineDocument(changed).data, changed.version)

    @extend_schema(parameters=[IF_MATCH_PARAMETER], responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        with transaction.atomic():
            pipeline = self.pipeline(pk, lock=True)
            check_version(request, pipeline.version)
            pipelines.delete_pipeline(actor=self.principal, pipeline=pipeline)
        return Response(status=204)


class PipelineVersionSummary(serializers.Serializer[Any]):
    """A saved version of a pipeline; `saved_by` is null if unknown."""

    number = serializers.IntegerField()
    saved_by = serializers.CharField(source="saved_by.username", allow_null=True, default=None)
    saved_at = serializers.DateTimeField()


class PipelineVersionDocument(PipelineVersionSummary):
    """A saved version of a pipeline with its YAML."""

    yaml = serializers.CharField()


class PipelineVersionList(PipelineRoute):
    """The versions of a pipeline, newest first."""

    @extend_schema(parameters=PAGE_PARAMETERS, responses=PipelineVersionSummary(many=True))
    def get(self, request: Request, pk: int) -> Response:
        return self.paginate(
            self.pipeline(pk).versions.select_related("saved_by").defer("yaml"), PipelineVersionSummary
        )


class PipelineVersionDetail(PipelineRoute):
    """Version of a pipeline."""

    @extend_schema(responses=PipelineVersionDocument)
    def get(self, request: Request, pk: int, number: int) -> Response:
        rows = PipelineVersion.objects.select_related("saved_by")
        return Response(
            PipelineVersionDocument(self.get_row(rows, pipeline=self.pipeline(pk), number=number)).data
        )


class RestorePipelineVersion(PipelineRoute):
    """Restore of an older version of a pipeline."""

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER],
        request=None,
        responses={200: PipelineDocument, 202: ProposedChangeDocument},
    )
    def post(self, request: Request, pk: int, number: int) -> Response:
        with transaction.atomic():
            pipeline = self.pipeline(pk, lock=True)
            check_version(request, pipeline.version)
            changed = pipelines.restore_version(actor=self.principal, pipeline=pipeline, number=number)
        return respond_with_etag(PipelineDocument(changed).data, changed.version)


class PipelineDiff(PipelineRoute):
    """Diff of two versions of a pipeline."""

    @extend_schema(parameters=[FROM_VERSION, TO_VERSION], responses=DiffDocument)
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self.pipeline(pk)
        newer = parse_version_parameter(request, "to") if "to" in request.GET else pipeline.version
        rows = pipeline.versions.all()
        texts = [
            self.get_row(rows, number=number).yaml
            for number in (parse_version_parameter(request, "from"), newer)
        ]
        return Response(DiffDocument(compare_texts(*texts)).data)


class PipelineCheckRoute(BaseApiView):
    """Check of a pipeline before it is saved; nothing is stored."""

    @extend_schema(request=PipelineInput, responses=CheckDocument)
    def post(self, request: Request) -> Response:
        data, scope = self.get_validated_body(PipelineInput), self.get_named_scope()
        require(self.principal, VIEW, scope)
        return Response(pipelines.check_pipeline(data["yaml"], scope, self.principal))
