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
    description=(
        "Step as STAGE/STEP by identifiers; STAGE/ means after the last step of a stage. By default "
        "the latest started step of an execution, or the first step of a pipeline."
    ),
)
SEARCH_PARAMETER = OpenApiParameter(
    "q", OpenApiTypes.STR, description="Filter by a part of the name, value or source."
)


class ExpressionDocument(serializers.Serializer[Any]):
    """Name that an expression may use."""

    expression = serializers.CharField(help_text="Expression, such as <+service.name>.")
    path = serializers.CharField()
    origin = serializers.CharField(source="source", help_text="Source of the value.")
    about = serializers.CharField()
    state = serializers.ChoiceField(
        choices=[choice.value for choice in CompletionState],
        help_text=(
            "KNOWN; SECRET: never shown; HIDDEN: you cannot view its source; LATER: known only after "
            "its step runs."
        ),
    )


class PipelineExpressionList(BaseApiView):
    """Names that expressions may use at a step of a pipeline; only executions have the values."""

    @extend_schema(
        parameters=[STEP_PARAMETER, SEARCH_PARAMETER, *PAGE_PARAMETERS],
        responses=ExpressionDocument(many=True),
    )
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self.get_visible("core_pipeline_view", Pipeline.objects.select_related("scope"), pk=pk)
        _, items = list_pipeline_items(pipeline, request.GET.get("at", ""), self.principal)
        names = search_items(items, request.GET.get("q", ""))
        return self.paginate_items(names, ExpressionDocument, key=lambda item: item.path)
