"""Routes of what expressions may name: in a run with the last values, in a pipeline without."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pipelines.completion.names import State, listed
from pipelines.completion.of_text import names_of_pipeline
from pipelines.models import Pipeline
from web.rest import PAGED, Route

AT = OpenApiParameter(
    "at",
    OpenApiTypes.STR,
    description="The step whose view is meant, as STAGE/STEP by their identifiers; STAGE/ for what is known "
    "after the last step of a stage. Without it: of a run the step that began last, of a pipeline the first.",
)
SEARCH = OpenApiParameter(
    "q", OpenApiTypes.STR, description="A part of a name, of a value, or of its source."
)


class NameDocument(serializers.Serializer[Any]):
    """One name that an expression may use."""

    expression = serializers.CharField(help_text="As it is written: <+service.name>.")
    path = serializers.CharField()
    origin = serializers.CharField(source="source", help_text="Who sets it.")
    about = serializers.CharField()
    state = serializers.ChoiceField(
        choices=[one.value for one in State],
        help_text="KNOWN; SECRET: never shown; HIDDEN: you may not view what sets it; LATER: its step runs.",
    )


class PipelineExpressions(Route):
    """What expressions may name at a step of a pipeline; values are known to its runs alone."""

    @extend_schema(parameters=[AT, SEARCH, *PAGED], responses=NameDocument(many=True))
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self.one("core_pipeline_view", Pipeline.objects.select_related("scope"), pk=pk)
        _, found = names_of_pipeline(pipeline, request.GET.get("at", ""), self.principal)
        names = listed(found, request.GET.get("q", ""))
        return self.page_of(names, NameDocument, key=lambda one: one.path)
