"""Routes of the attempts of a run: their list, and the start of the next one."""

import uuid
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments.api.executions import ExecutionReference, ExecutionRoute
from deployments.execution import operations
from deployments.execution.planning import attempts
from steps.states import Status
from web.http.problems import BadInput


class AttemptInput(serializers.Serializer[Any]):
    """Start of the next attempt; by default, at the failed stage."""

    stage = serializers.CharField(
        max_length=128,
        required=False,
        allow_blank=True,
        default="",
        help_text="Identifier of the first stage to run. Stages before it keep their results.",
    )
    whole = serializers.BooleanField(
        required=False,
        default=False,
        help_text="Run all stages, and read manifests and variables again. Excludes `stage`.",
    )
    override_freeze = serializers.BooleanField(
        required=False, default=False, help_text="Ignore freeze windows that you may override."
    )


class AttemptSummary(serializers.Serializer[Any]):
    """Attempt of a run."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    attempt = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)
    started_by = serializers.CharField(source="started_by.username", allow_null=True, default=None)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class StageChoiceDocument(serializers.Serializer[Any]):
    """Stage of this attempt; `obstacle` is the reason why a retry cannot begin at it, or null."""

    identifier = serializers.CharField(source="stage.identifier")
    name = serializers.CharField(source="stage.name")
    status = serializers.ChoiceField(source="stage.status", choices=Status.choices)
    obstacle = serializers.SerializerMethodField()

    def get_obstacle(self, choice: attempts.StageChoice) -> str | None:
        return choice.obstacle or None


class AttemptsDocument(serializers.Serializer[Any]):
    """Attempts of a run, the first one first, and the stages at which a retry of this one may begin.

    `default_stage` is the failed stage, null if none failed.
    """

    attempts = AttemptSummary(many=True)
    stages = StageChoiceDocument(many=True)
    default_stage = serializers.CharField(allow_null=True)


class Attempts(ExecutionRoute):
    """Attempts of a run; POST starts the next one as a new execution."""

    # A run has a hundred at most.
    pagination_class = None

    @extend_schema(responses=AttemptsDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        execution = self.execution(pk)
        choices = attempts.list_stage_choices(execution)
        failed = attempts.find_failed_stage(choices) if execution.is_over else None
        content = {
            "attempts": attempts.filter_attempts(execution).select_related("started_by"),
            "stages": choices,
            "default_stage": failed.identifier if failed else None,
        }
        return Response(AttemptsDocument(content).data)

    @extend_schema(request=AttemptInput, responses={201: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        data = self.get_validated_body(AttemptInput)
        if data["whole"] and data["stage"]:
            message = "leave it out for a whole attempt"
            raise BadInput("The input is not valid.", errors=[{"path": "stage", "message": message}])
        attempt = operations.start_attempt(actor=self.principal, execution=self.execution(pk), **data)
        location = {"Location": f"/api/v1/executions/{attempt.pk}"}
        return Response(ExecutionReference(attempt).data, status=201, headers=location)
