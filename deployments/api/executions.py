"""Routes of executions: their state, their calls, and what can be asked of them."""

import uuid
from collections.abc import Callable
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments.api.execution_serializers import CallDocument, ExecutionDocument, ExecutionSummary
from deployments.execution import leftovers, operations, queries
from deployments.execution.documents import build_call_document, build_execution_document
from deployments.execution.interventions import DECISIONS
from deployments.execution.undo_plan import build_undo_plan
from deployments.models import AwsCall, Execution
from pipelines.models import Pipeline
from steps.states import Status
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER, parse_number
from web.api.views import BaseApiView, filter_by_scope
from web.http.problems import BadInput

VIEW = "core_pipeline_view"
STATUS = OpenApiParameter("status", OpenApiTypes.STR, enum=Status.values)
PIPELINE = OpenApiParameter("pipeline", OpenApiTypes.INT, description="Only executions of this pipeline.")
SEARCH = OpenApiParameter("q", OpenApiTypes.STR, description="Part of a pipeline's name, a number, or a tag.")


class AbortInput(serializers.Serializer[Any]):
    """How to stop."""

    rollback = serializers.BooleanField(required=False, default=False)


class RetryInput(serializers.Serializer[Any]):
    """How to try again."""

    override_freeze = serializers.BooleanField(
        required=False, default=False, help_text="Go past freeze windows that you may override."
    )


class DecisionInput(serializers.Serializer[Any]):
    """What a person decides about a step; `choices` of its `intervention` says what can be decided now."""

    step = serializers.CharField(max_length=128)
    decision = serializers.ChoiceField(choices=DECISIONS)


class ExecutionReference(serializers.Serializer[Any]):
    """The execution to watch: the same one, or a new one that a rollback needed."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)


class Executions(BaseApiView):
    """Executions, newest first."""

    order = "created_at"

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, STATUS, PIPELINE, SEARCH, *PAGE_PARAMETERS],
        responses=ExecutionSummary(many=True),
    )
    def get(self, request: Request) -> Response:
        found = filter_by_scope(request, queries.list_visible_executions(self.principal), by_identifier=False)
        if status := request.GET.get("status"):
            if status not in Status.values:
                message = f"must be one of {', '.join(Status.values)}"
                raise BadInput("The input is not valid.", errors=[{"path": "status", "message": message}])
            found = found.filter(status=status)
        if identifier := request.GET.get("identifier"):
            meant = Pipeline.objects.filter(identifier=identifier)
            found = found.filter(pipeline__in=list(meant.values_list("pk", flat=True)))
        if (pipeline := parse_number(request, "pipeline")) is not None:
            found = found.filter(pipeline_id=pipeline)
        found = queries.filter_by_text(found, self.principal, request.GET.get("q", ""))
        return self.paginate(found, ExecutionSummary)


class ExecutionRoute(BaseApiView):
    """The base of routes about one execution."""

    def execution(self, pk: uuid.UUID) -> Execution:
        """Return the execution of the address."""
        rows = Execution.objects.select_related("pipeline__scope", "scope", "started_by")
        return self.get_visible(VIEW, rows, pk=pk)

    def asked(self, pk: uuid.UUID, ask: Callable[..., Execution | None], **how: Any) -> Response:
        """Pass a wish on; the engine takes it up with its next look."""
        execution = self.execution(pk)
        watched = ask(actor=self.principal, execution=execution, **how) or execution
        watched.refresh_from_db(fields=["status"])
        return Response(ExecutionReference(watched).data, status=202)


class ExecutionDetail(ExecutionRoute):
    """One execution."""

    @extend_schema(responses=ExecutionDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response(build_execution_document(self.execution(pk), self.principal))


class AbortExecution(ExecutionRoute):
    """Stopping an execution."""

    @extend_schema(request=AbortInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        roll_back = self.get_validated_body(AbortInput)["rollback"]
        return self.asked(pk, operations.abort_execution, roll_back=roll_back)


class RollBackExecution(ExecutionRoute):
    """Bringing back what ran before an execution."""

    @extend_schema(request=None, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        return self.asked(pk, operations.roll_back_execution)


class UndoneChange(serializers.Serializer[Any]):
    """One thing that a rollback would undo; not `certain`: its answer from AWS is not known yet."""

    stage = serializers.CharField()
    step = serializers.CharField()
    action = serializers.CharField()
    words = serializers.CharField()
    certain = serializers.BooleanField()


class UndoPlanDocument(serializers.Serializer[Any]):
    """What a rollback would undo, in its order; `note` says why there is nothing."""

    changes = UndoneChange(many=True)
    note = serializers.CharField()


class UndoPlan(ExecutionRoute):
    """What rolling an execution back would undo, newest change first."""

    @extend_schema(responses=UndoPlanDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response(build_undo_plan(self.execution(pk)))


class LeftoverDocument(serializers.Serializer[Any]):
    """An ECS service that a strategy made; `why` says why it may go, or why it is kept.

    No counts: it was not looked at, because a delegate makes the calls.
    """

    name = serializers.CharField()
    running = serializers.IntegerField(allow_null=True)
    desired = serializers.IntegerField(allow_null=True)
    may_go = serializers.BooleanField()
    why = serializers.CharField()


class CleanUpInput(serializers.Serializer[Any]):
    """Which ECS services to delete."""

    services = serializers.ListField(child=serializers.CharField(max_length=255), min_length=1, max_length=3)


class Leftovers(ExecutionRoute):
    """What deployments left beside the ECS service of an execution, as AWS shows it now; and its deletion."""

    # There are three at most.
    pagination_class = None

    @extend_schema(responses=LeftoverDocument(many=True))
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        found = leftovers.list_leftovers(actor=self.principal, execution=self.execution(pk))
        return Response(LeftoverDocument(found, many=True).data)

    @extend_schema(request=CleanUpInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        services = self.get_validated_body(CleanUpInput)["services"]
        return self.asked(pk, leftovers.delete_leftovers, services=services)


class RetryExecution(ExecutionRoute):
    """Trying the step that failed again."""

    @extend_schema(request=RetryInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        override = self.get_validated_body(RetryInput)["override_freeze"]
        return self.asked(pk, operations.retry_execution, override_freeze=override)


class DecideAboutStep(ExecutionRoute):
    """Deciding what becomes of a step that waits for a person, or only for AWS."""

    @extend_schema(request=DecisionInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        given = self.get_validated_body(DecisionInput)
        return self.asked(pk, operations.decide_step, step=given["step"], decision=given["decision"])


class ExecutionCalls(ExecutionRoute):
    """Every call to AWS that an execution made, in order."""

    oldest_first = True

    @extend_schema(parameters=PAGE_PARAMETERS, responses=CallDocument(many=True))
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        rows = AwsCall.objects.filter(execution=self.execution(pk)).select_related("step", "action")
        return self.paginate(rows.defer("parameters", "result"), build_call_document)
