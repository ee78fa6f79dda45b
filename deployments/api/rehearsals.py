"""Routes of rehearsals: of a pipeline's run, and of an execution's rollback."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments.api.executions import ExecutionRoute
from deployments.api.previews import PreviewQuestionDocument
from deployments.api.runs import ArtifactChoice
from deployments.models import PreviewRequest
from deployments.rehearsal.operations import rehearse_pipeline, rehearse_rollback
from deployments.rehearsal.rehearsals import BEHAVIORS
from guards.limits import INPUT_SETS
from pipelines.api.pipelines import VIEW
from pipelines.inputs.input_sets import merge_input_sets
from pipelines.models import Pipeline
from web.api.views import BaseApiView


class RehearsalInput(serializers.Serializer[Any]):
    """Options of a rehearsal; all have defaults."""

    artifact = ArtifactChoice(required=False, default=dict)
    inputs = serializers.DictField(required=False, default=dict)
    input_sets = serializers.ListField(
        child=serializers.CharField(max_length=128), required=False, default=list, max_length=int(INPUT_SETS)
    )
    forceNewDeployment = serializers.BooleanField(
        required=False,
        allow_null=True,
        default=None,
        help_text="Replace tasks even if nothing differs, as the run with this option does.",
    )
    behavior = serializers.ChoiceField(
        choices=list(BEHAVIORS), default="healthy", help_text="Behavior of the tasks with the new image."
    )


class RollbackRehearsalInput(serializers.Serializer[Any]):
    """Options of the rehearsal of a rollback."""

    behavior = serializers.ChoiceField(
        choices=list(BEHAVIORS), default="healthy", help_text="Behavior of the tasks with a restored image."
    )


class RehearsalLineDocument(serializers.Serializer[Any]):
    """Log line; `at` is the rehearsed second."""

    at = serializers.IntegerField()
    level = serializers.CharField()
    text = serializers.CharField()


class RehearsedStepDocument(serializers.Serializer[Any]):
    """Result of one rehearsed step."""

    identifier = serializers.CharField()
    name = serializers.CharField()
    type = serializers.CharField()
    stage = serializers.CharField()
    status = serializers.ChoiceField(
        choices=["SUCCEEDED", "FAILED", "NOT_REHEARSED", "SKIPPED", "NOT_REACHED"]
    )
    reason = serializers.CharField()
    code = serializers.CharField(help_text="Code of the failure, or an empty text.")
    seconds = serializers.IntegerField(help_text="Rehearsed seconds.")
    writes = serializers.ListField(child=serializers.CharField(), help_text="Writes that the sandbox took.")
    log = RehearsalLineDocument(many=True)


class RehearsalDocument(serializers.Serializer[Any]):
    """Result of a rehearsal, which changed nothing in AWS."""

    behavior = serializers.CharField()
    artifact = serializers.DictField()
    status = serializers.ChoiceField(choices=["SUCCEEDED", "FAILED", "UNKNOWN"])
    reason = serializers.CharField()
    steps = RehearsedStepDocument(many=True)
    resources = serializers.DictField(
        child=serializers.IntegerField(), help_text="Number of real resources of each kind in the sandbox."
    )
    notes = serializers.ListField(
        child=serializers.CharField(), help_text="What could not be read, and what the sandbox assumes."
    )
    denied = serializers.ListField(
        child=serializers.CharField(),
        help_text="IAM actions that the sandbox denies as IAM's simulation does.",
    )
    seconds = serializers.IntegerField(help_text="Rehearsed seconds.")


class PipelineRehearsal(BaseApiView):
    """Rehearsal of a pipeline run in a private sandbox, without side effects."""

    @extend_schema(request=RehearsalInput, responses={200: RehearsalDocument, 202: PreviewQuestionDocument})
    def post(self, request: Request, pk: int) -> Response:
        data = self.get_validated_body(RehearsalInput)
        pipeline = self.get_visible(VIEW, Pipeline.objects.select_related("scope"), pk=pk)
        result = rehearse_pipeline(
            actor=self.principal,
            pipeline=pipeline,
            behavior=data["behavior"],
            artifact_tag=data["artifact"].get("tag", ""),
            inputs={**merge_input_sets(pipeline, self.principal, data["input_sets"]), **data["inputs"]},
            force_new_deployment=data["forceNewDeployment"],
        )
        if isinstance(result, PreviewRequest):
            return Response(PreviewQuestionDocument(result).data, status=202, headers={"Retry-After": "1"})
        return Response(result.to_json())


class RollbackRehearsal(ExecutionRoute):
    """Rehearsal of an execution's rollback in a private sandbox, without side effects."""

    @extend_schema(request=RollbackRehearsalInput, responses=RehearsalDocument)
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        behavior = self.get_validated_body(RollbackRehearsalInput)["behavior"]
        result = rehearse_rollback(actor=self.principal, execution=self.execution(pk), behavior=behavior)
        return Response(result.to_json())
