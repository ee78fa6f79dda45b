"""Routes of executions: their state, calls, interrupts and expressions."""

import uuid
from collections.abc import Callable
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments.api.execution_serializers import CallDocument, ExecutionDocument, ExecutionSummary
from deployments.execution import leftovers, operations, queries
from deployments.execution.delays import list_execution_delays
from deployments.execution.documents import build_call_document, build_execution_document
from deployments.execution.interventions import DECISIONS
from deployments.execution.undo_plan import build_rollback_plan
from deployments.models import Execution
from deployments.run_expressions import Run
from pipelines.api.expressions import SEARCH_PARAMETER, STEP_PARAMETER, ExpressionDocument
from pipelines.completion.items import search_items
from pipelines.models import Pipeline
from steps.states import Status
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER, parse_number
from web.api.views import BaseApiView, filter_by_scope
from web.api.work_delays import WorkDelaysDocument, respond_with_delays
from web.clock import get_database_time
from web.http.problems import BadInput

VIEW = "core_pipeline_view"
STATUS = OpenApiParameter("status", OpenApiTypes.STR, enum=Status.values)
PIPELINE = OpenApiParameter("pipeline", OpenApiTypes.INT, description="Only executions of this pipeline.")
TRIGGER = OpenApiParameter(
    "trigger", OpenApiTypes.INT, description="Only executions that this trigger started."
)
SEARCH = OpenApiParameter(
    "q", OpenApiTypes.STR, description="Part of a pipeline's name, an execution number, or an image tag."
)


class AbortInput(serializers.Serializer[Any]):
    """Options of an abort."""

    rollback = serializers.BooleanField(required=False, default=False)


class RetryInput(serializers.Serializer[Any]):
    """Options of a retry."""

    override_freeze = serializers.BooleanField(
        required=False, default=False, help_text="Ignore freeze windows that you may override."
    )


class DecisionInput(serializers.Serializer[Any]):
    """Decision about a waiting step; `choices` of its `intervention` are the allowed values."""

    step = serializers.CharField(max_length=128)
    decision = serializers.ChoiceField(choices=DECISIONS)


class ExecutionReference(serializers.Serializer[Any]):
    """Execution to watch: the same one, or a new one for a rollback."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)


class Executions(BaseApiView):
    """Executions, newest first."""

    order = "created_at"
    columns = queries.select_list_columns()

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, STATUS, PIPELINE, TRIGGER, SEARCH, *PAGE_PARAMETERS],
        responses=ExecutionSummary(many=True),
    )
    def get(self, request: Request) -> Response:
        executions = filter_by_scope(
            request, queries.list_visible_executions(self.principal), by_identifier=False
        )
        if status := request.GET.get("status"):
            if status not in Status.values:
                message = f"must be one of {', '.join(Status.values)}"
                raise BadInput("The input is not valid.", errors=[{"path": "status", "message": message}])
            executions = executions.filter(status=status)
        if identifier := request.GET.get("identifier"):
            pipelines = Pipeline.objects.filter(identifier=identifier)
            executions = executions.filter(pipeline__in=list(pipelines.values_list("pk", flat=True)))
        if (pipeline := parse_number(request, "pipeline")) is not None:
            executions = executions.filter(pipeline_id=pipeline)
        if (trigger := parse_number(request, "trigger")) is not None:
            executions = queries.filter_by_trigger(executions, trigger)
        executions = queries.filter_by_text(executions, self.principal, request.GET.get("q", ""))
        return self.paginate(executions, ExecutionSummary)


class ExecutionRoute(BaseApiView):
    """Base of the routes of one execution."""

    def execution(self, pk: uuid.UUID) -> Execution:
        """Return the execution in the URL."""
        rows = Execution.objects.select_related("pipeline__scope", "scope", "started_by")
        return self.get_visible(VIEW, rows, pk=pk)

    def request_interrupt(
        self, pk: uuid.UUID, request: Callable[..., Execution | None], **options: Any
    ) -> Response:
        """Pass a request to the engine, which applies it in its next reconcile pass."""
        execution = self.execution(pk)
        watched = request(actor=self.principal, execution=execution, **options) or execution
        watched.refresh_from_db(fields=["status"])
        return Response(ExecutionReference(watched).data, status=202)


class ExecutionDetail(ExecutionRoute):
    """Execution."""

    @extend_schema(responses=ExecutionDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response(build_execution_document(self.execution(pk), self.principal))


class AbortExecution(ExecutionRoute):
    """Abort of an execution."""

    @extend_schema(request=AbortInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        roll_back = self.get_validated_body(AbortInput)["rollback"]
        return self.request_interrupt(pk, operations.abort_execution, roll_back=roll_back)


class RollBackExecution(ExecutionRoute):
    """Rollback of an execution."""

    @extend_schema(
        request=None,
        responses={202: ExecutionReference},
        examples=[
            OpenApiExample(
                "Execution to watch",
                {"id": "0b5a4f6e-6f0a-4f0e-9a43-0f6d0c3a2b11", "number": 12, "status": "RUNNING"},
                response_only=True,
                status_codes=["202"],
            )
        ],
    )
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        return self.request_interrupt(pk, operations.roll_back_execution)


class UndoneChange(serializers.Serializer[Any]):
    """Change that a rollback undoes; `certain` is false while the result of its AWS call is unknown."""

    stage = serializers.CharField()
    step = serializers.CharField()
    action = serializers.CharField()
    words = serializers.CharField()
    certain = serializers.BooleanField()


class UndoPlanDocument(serializers.Serializer[Any]):
    """Undo plan of a rollback, in its order; `note` explains an empty plan."""

    changes = UndoneChange(many=True)
    note = serializers.CharField()


class UndoPlan(ExecutionRoute):
    """Changes that a rollback of the execution would undo, newest first."""

    @extend_schema(responses=UndoPlanDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response(build_rollback_plan(self.execution(pk)))


class LeftoverDocument(serializers.Serializer[Any]):
    """ECS service that a strategy created; `why` is the reason to delete or keep it.

    The task counts are missing if a delegate makes the calls.
    """

    name = serializers.CharField()
    running = serializers.IntegerField(allow_null=True)
    desired = serializers.IntegerField(allow_null=True)
    may_go = serializers.BooleanField(source="is_deletable")
    why = serializers.CharField(source="reason")


class CleanUpInput(serializers.Serializer[Any]):
    """ECS services to delete."""

    services = serializers.ListField(child=serializers.CharField(max_length=255), min_length=1, max_length=3)


class Leftovers(ExecutionRoute):
    """Extra ECS services that deployments left after an execution, and their deletion."""

    # There are three at most.
    pagination_class = None

    @extend_schema(responses=LeftoverDocument(many=True))
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        leftover_services = leftovers.list_leftovers(actor=self.principal, execution=self.execution(pk))
        return Response(LeftoverDocument(leftover_services, many=True).data)

    @extend_schema(request=CleanUpInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        services = self.get_validated_body(CleanUpInput)["services"]
        return self.request_interrupt(pk, leftovers.delete_leftovers, services=services)


class RetryExecution(ExecutionRoute):
    """Retry of the failed step."""

    @extend_schema(request=RetryInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        override = self.get_validated_body(RetryInput)["override_freeze"]
        return self.request_interrupt(pk, operations.retry_execution, override_freeze=override)


class DecideAboutStep(ExecutionRoute):
    """Decision about a step that waits for an intervention or for AWS."""

    @extend_schema(request=DecisionInput, responses={202: ExecutionReference})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        data = self.get_validated_body(DecisionInput)
        return self.request_interrupt(
            pk, operations.decide_step, step=data["step"], decision=data["decision"]
        )


class ExecutionDelays(ExecutionRoute):
    """Reasons why an execution waits that its document does not have: for a worker, or for a limit of AWS.

    The document has waits for service locks, delegates and people.
    """

    pagination_class = None

    @extend_schema(responses=WorkDelaysDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return respond_with_delays(list_execution_delays(self.execution(pk), get_database_time()))


class ExecutionCalls(ExecutionRoute):
    """AWS calls of an execution, in order."""

    oldest_first = True

    @extend_schema(parameters=PAGE_PARAMETERS, responses=CallDocument(many=True))
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return self.paginate(queries.list_calls(self.execution(pk)), build_call_document)


class KnownDocument(ExpressionDocument):
    """Name that an expression may use, with its current value."""

    value = serializers.JSONField(
        allow_null=True, help_text="Latest value with its type; **** for a secret, null if not KNOWN."
    )


class ExecutionExpressions(ExecutionRoute):
    """Names that expressions may use at a step of an execution, with their latest values."""

    @extend_schema(
        parameters=[STEP_PARAMETER, SEARCH_PARAMETER, *PAGE_PARAMETERS], responses=KnownDocument(many=True)
    )
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        run = Run(self.execution(pk))
        items = run.list_completions(run.moment(request.GET.get("at", "")), self.principal)
        names = search_items(items, request.GET.get("q", ""))
        return self.paginate_items(names, KnownDocument, key=lambda item: item.path)
