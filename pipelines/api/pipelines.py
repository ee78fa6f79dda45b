"""REST routes of pipelines and of their JSON Schema."""

from typing import Any

from django.db import transaction
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from guards.limits import SPEC_BYTES
from pipelines.editor.suggestions import build_full_schema
from pipelines.models import Pipeline
from pipelines.operations import pipelines
from web.api.parameters import IF_MATCH_PARAMETER, LIST_PARAMETERS
from web.api.parsers import GuardedJSONParser, GuardedYAMLParser, LegacyYAMLParser
from web.api.views import BaseApiView, check_version, respond_with_etag

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
        rows = Pipeline.objects.select_related("scope")
        return self.get_visible(VIEW, rows.select_for_update(of=("self",)) if lock else rows, pk=pk)


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
        given, scope = self.get_validated_body(PipelineInput), self.get_named_scope()
        made = pipelines.save_pipeline(actor=self.principal, scope=scope, yaml=given["yaml"])
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
        found = self.pipeline(pk)
        return respond_with_etag(PipelineDocument(found).data, found.version)

    @extend_schema(
        parameters=[IF_MATCH_PARAMETER],
        request={"application/json": PipelineUpdateInput, "application/yaml": OpenApiTypes.STR},
        responses=PipelineDocument,
    )
    def put(self, request: Request, pk: int) -> Response:
        given = self.get_validated_body(PipelineUpdateInput)
        with transaction.atomic():
            found = self.pipeline(pk, lock=True)
            check_version(request, found.version)
            changed = pipelines.save_pipeline(
                actor=self.principal, scope=found.scope, yaml=given["yaml"], pipeline=found
            )
        return respond_with_etag(PipelineDocument(changed).data, changed.version)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        pipelines.delete_pipeline(actor=self.principal, pipeline=self.pipeline(pk))
        return Response(status=204)
