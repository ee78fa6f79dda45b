"""REST routes of pipeline versions, diffs and checks."""

from typing import Any

from django.db import transaction
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
from pipelines.api.pipelines import VIEW, PipelineDocument, PipelineInput, PipelineRoute
from pipelines.models import PipelineVersion
from pipelines.operations import pipelines
from rbac.policy import require
from web.api.parameters import IF_MATCH_PARAMETER, PAGE_PARAMETERS
from web.api.views import BaseApiView, check_version, respond_with_etag
from web.text_diffs import compare_texts


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

    @extend_schema(parameters=[IF_MATCH_PARAMETER], request=None, responses=PipelineDocument)
    def post(self, request: Request, pk: int, number: int) -> Response:
        with transaction.atomic():
            found = self.pipeline(pk, lock=True)
            check_version(request, found.version)
            changed = pipelines.restore_version(actor=self.principal, pipeline=found, number=number)
        return respond_with_etag(PipelineDocument(changed).data, changed.version)


class PipelineDiff(PipelineRoute):
    """Diff of two versions of a pipeline."""

    @extend_schema(parameters=[FROM_VERSION, TO_VERSION], responses=DiffDocument)
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self.pipeline(pk)
        newer = parse_version_parameter(request, "to") if "to" in request.GET else pipeline.version
        rows = pipeline.versions.all()
        texts = [
            self.get_row(rows, number=one).yaml for one in (parse_version_parameter(request, "from"), newer)
        ]
        return Response(DiffDocument(compare_texts(*texts)).data)


class PipelineCheckRoute(BaseApiView):
    """Check of a pipeline before it is saved; nothing is stored."""

    @extend_schema(request=PipelineInput, responses=CheckDocument)
    def post(self, request: Request) -> Response:
        given, scope = self.get_validated_body(PipelineInput), self.get_named_scope()
        require(self.principal, VIEW, scope)
        return Response(pipelines.check_pipeline(given["yaml"], scope, self.principal))
