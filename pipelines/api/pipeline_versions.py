"""Routes of the versions of a pipeline, and of checking a text before it becomes one."""

from typing import Any

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from connectors.api.file_nodes import FROM, TO, CheckDocument, DiffDocument, version_number
from pipelines.api.pipelines import VIEW, PipelineDocument, PipelineInput, PipelineRoute
from pipelines.models import PipelineVersion
from pipelines.operations import pipelines
from rbac.policy import require
from web.rest import IF_MATCH, PAGED, Route, check_version, versioned
from web.text_diff import diff


class VersionSummary(serializers.Serializer[Any]):
    """One saved version of a pipeline; `saved_by` is null where nobody is known."""

    number = serializers.IntegerField()
    saved_by = serializers.CharField(source="saved_by.username", allow_null=True, default=None)
    saved_at = serializers.DateTimeField()


class VersionDocument(VersionSummary):
    """One saved version of a pipeline with its YAML."""

    yaml = serializers.CharField()


class PipelineVersions(PipelineRoute):
    """The versions of a pipeline, newest first."""

    @extend_schema(parameters=PAGED, responses=VersionSummary(many=True))
    def get(self, request: Request, pk: int) -> Response:
        return self.page(self.pipeline(pk).versions.select_related("saved_by").defer("yaml"), VersionSummary)


class OnePipelineVersion(PipelineRoute):
    """One version of a pipeline."""

    @extend_schema(responses=VersionDocument)
    def get(self, request: Request, pk: int, number: int) -> Response:
        rows = PipelineVersion.objects.select_related("saved_by")
        return Response(VersionDocument(self.one_of(rows, pipeline=self.pipeline(pk), number=number)).data)


class RestorePipelineVersion(PipelineRoute):
    """Bringing an older version of a pipeline back."""

    @extend_schema(parameters=[IF_MATCH], request=None, responses=PipelineDocument)
    def post(self, request: Request, pk: int, number: int) -> Response:
        with transaction.atomic():
            found = self.pipeline(pk, lock=True)
            check_version(request, found.version)
            changed = pipelines.restore_version(actor=self.principal, pipeline=found, number=number)
        return versioned(PipelineDocument(changed).data, changed.version)


class PipelineDiff(PipelineRoute):
    """What changed between two versions of a pipeline."""

    @extend_schema(parameters=[FROM, TO], responses=DiffDocument)
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self.pipeline(pk)
        newer = version_number(request, "to") if "to" in request.GET else pipeline.version
        rows = pipeline.versions.all()
        texts = [self.one_of(rows, number=one).yaml for one in (version_number(request, "from"), newer)]
        return Response(DiffDocument(diff(*texts)).data)


class PipelineChecks(Route):
    """Checking a pipeline before it is saved; nothing is kept."""

    @extend_schema(request=PipelineInput, responses=CheckDocument)
    def post(self, request: Request) -> Response:
        given, scope = self.given(PipelineInput), self.scope_named()
        require(self.principal, VIEW, scope)
        return Response(pipelines.checked(given["yaml"], scope, self.principal))
