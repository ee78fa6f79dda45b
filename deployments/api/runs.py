"""Routes that run a pipeline and list its executions."""

from typing import Any

from drf_spectacular.utils import OpenApiExample, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments.api.execution_serializers import ExecutionSummary
from deployments.execution import operations, queries
from guards.limits import INPUT_SETS
from pipelines.api.pipelines import VIEW
from pipelines.inputs.input_sets import merge_input_sets
from pipelines.models import Pipeline
from web.api.parameters import PAGE_PARAMETERS
from web.api.views import BaseApiView


class ArtifactChoice(serializers.Serializer[Any]):
    """Image tag to run."""

    tag = serializers.CharField(required=False, allow_blank=True, default="")


class RunInput(serializers.Serializer[Any]):
    """Options of a run; all have defaults."""

    inputs = serializers.DictField(required=False, default=dict)
    input_sets = serializers.ListField(
        child=serializers.CharField(max_length=128),
        required=False,
        default=list,
        max_length=int(INPUT_SETS),
        help_text="Identifiers of input sets; later ones override earlier ones, and `inputs` overrides all.",
    )
    artifact = ArtifactChoice(required=False, default=dict)
    override_freeze = serializers.BooleanField(
        default=False, help_text="Run during a freeze window; requires permission to override it."
    )
    forceNewDeployment = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text=(
            "Replace tasks even if nothing differs from the running version. By default the step decides; "
            "a rolling deployment replaces them and logs a note."
        ),
    )


class RunDocument(serializers.Serializer[Any]):
    """Started execution."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.CharField()


RUN_EXAMPLES = [
    OpenApiExample(
        "Run with a tag",
        {"artifact": {"tag": "1.28"}, "inputs": {"replicas": 3}, "input_sets": ["nightly"]},
        request_only=True,
    ),
    OpenApiExample(
        "Started execution",
        {"id": "0b5a4f6e-6f0a-4f0e-9a43-0f6d0c3a2b11", "number": 12, "status": "QUEUED"},
        response_only=True,
        status_codes=["201"],
    ),
]


class PipelineExecutions(BaseApiView):
    """Executions of a pipeline; POST starts one."""

    order = "created_at"

    @extend_schema(parameters=PAGE_PARAMETERS, responses=ExecutionSummary(many=True))
    def get(self, request: Request, pk: int) -> Response:
        pipeline = self._pipeline(pk)
        return self.paginate(
            queries.list_visible_executions(self.principal).filter(pipeline=pipeline), ExecutionSummary
        )

    @extend_schema(request=RunInput, responses={201: RunDocument}, examples=RUN_EXAMPLES)
    def post(self, request: Request, pk: int) -> Response:
        data = self.get_validated_body(RunInput)
        pipeline = self._pipeline(pk)
        inputs = {**merge_input_sets(pipeline, self.principal, data["input_sets"]), **data["inputs"]}
        made = operations.run_pipeline(
            actor=self.principal,
            pipeline=pipeline,
            artifact_tag=data["artifact"].get("tag", ""),
            inputs=inputs,
            override_freeze=data["override_freeze"],
            input_set_names=data["input_sets"],
            force_new_deployment=data["forceNewDeployment"],
        )
        location = {"Location": f"/api/v1/executions/{made.pk}"}
        return Response(RunDocument(made).data, status=201, headers=location)

    def _pipeline(self, pk: int) -> Pipeline:
        return self.get_visible(VIEW, Pipeline.objects.select_related("scope"), pk=pk)
