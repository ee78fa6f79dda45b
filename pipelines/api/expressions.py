"""REST route of the expressions available in a pipeline."""

from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from pipelines.completion.drafts import list_pipeline_items
from pipelines.completion.items import CompletionState, search_items
from pipelines.models import Pipeline
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView

STEP_PARAMETER = OpenApiParameter(
    "at",
    OpenApiTypes.STR,
    description="The step whose view is meant, as STAGE/STEP by their identifiers; STAGE/ for what is known "
    "after the last step of a stage. Without it: of a run the step that began last, of a pipeline the first.",
)
SEARCH_PARAMETER = OpenApiParameter(
    "q", OpenApiTypes.STR, description="A part of a name, of a value, or of its source."
)


class ExpressionDocument(serializers.Serializer[Any]):
    """A name that an expression may use."""

    expression = serializers.CharField(help_text="As it is written: <+service.name>.")
    path = serializers.CharField()
    origin = serializers.CharField(source="source", help_text="Who sets it.")
    about = serializers.CharField()
    state = serializers.ChoiceField(
        choices=[one.value for one in CompletionState],
        help_text="KNOWN; SECRET: never shown; HIDDEN: you may not view what sets it; LATER: its step runs.",
    )


class PipelineExpressionList(BaseApiView):
    """The names that expressions may use at a step of a pipeline; only runs know the values."""

    @extend_schema(
        parameters=[STEP_PARAMETER, SEARCH_PARAMETER, *PAGE_PARAMETERS],
        responses=ExpressionDocument(many=True),
    )
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self.get_visible("core_pipeline_view", Pipeline.objects.select_related("scope"), pk=pk)
        _, found = list_pipeline_items(pipeline, request.GET.get("at", ""), self.principal)
        names = search_items(found, request.GET.get("q", ""))
        return self.paginate_items(names, ExpressionDocument, key=lambda one: one.path)
