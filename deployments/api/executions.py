"""Routes of executions: their state, their log, their calls, and what can be asked of them."""

import uuid
from collections.abc import Callable
from typing import Any

from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments import log, operations, queries
from deployments.models import Call, Execution, Pipeline
from deployments.states import Outcome, Status
from web.problems import BadInput
from web.rest import ORG, PAGED, PROJECT, Route, narrowed

VIEW = "core_pipeline_view"
MOST_DIGITS = 15
AFTER = OpenApiParameter("after", OpenApiTypes.INT, description="Only lines with higher numbers.")
BLOCKS = OpenApiParameter(
    "blocks",
    OpenApiTypes.BOOL,
    description="The lines in columns, `blocks`, as the page and its socket take them.",
)
BLOCKS_BYTES = 256 * 1024
DOWNLOAD = OpenApiParameter("download", OpenApiTypes.BOOL, description="The whole log as plain text.")
STATUS = OpenApiParameter("status", OpenApiTypes.STR, enum=Status.values)
PIPELINE = OpenApiParameter("pipeline", OpenApiTypes.INT, description="Only executions of this pipeline.")


class Failure(serializers.Serializer[Any]):
    """Why an execution failed."""

    code = serializers.CharField()
    message = serializers.CharField()
    step = serializers.CharField(allow_null=True)
    container = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)


class PipelineOfExecution(serializers.Serializer[Any]):
    """The pipeline that an execution is a run of."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()


class ExecutionSummary(serializers.Serializer[Any]):
    """An execution in a list."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)
    outcome = serializers.SerializerMethodField()
    failure = Failure(allow_null=True)
    pipeline = PipelineOfExecution()
    scope = serializers.CharField(source="scope.path")
    started_by = serializers.CharField(source="started_by.username", allow_null=True, default=None)
    artifact = serializers.DictField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)

    def get_outcome(self, execution: Execution) -> str | None:
        return execution.outcome or None


class ActionShown(serializers.Serializer[Any]):
    """One small thing inside a step."""

    title = serializers.CharField()
    state = serializers.CharField()
    detail = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class UnitShown(serializers.Serializer[Any]):
    """A titled group of actions."""

    name = serializers.CharField()
    status = serializers.ChoiceField(choices=Status.choices)
    actions = ActionShown(many=True)


class StepShown(serializers.Serializer[Any]):
    """One step of a stage."""

    identifier = serializers.CharField()
    name = serializers.CharField()
    type = serializers.CharField()
    section = serializers.ChoiceField(choices=["EXECUTION", "ROLLBACK"])
    status = serializers.ChoiceField(choices=Status.choices)
    attempt = serializers.IntegerField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    timeout_at = serializers.DateTimeField(allow_null=True)
    first_line = serializers.IntegerField(allow_null=True)
    failure = Failure(allow_null=True)
    units = UnitShown(many=True)
    outputs = serializers.DictField()


class StageShown(serializers.Serializer[Any]):
    """One stage: which service goes where."""

    identifier = serializers.CharField()
    name = serializers.CharField()
    status = serializers.ChoiceField(choices=Status.choices)
    service = serializers.CharField(allow_null=True)
    environment = serializers.CharField(allow_null=True)
    infrastructure = serializers.CharField(allow_null=True)
    region = serializers.CharField()
    cluster = serializers.CharField()
    account = serializers.CharField(allow_null=True)
    ecs_service = serializers.CharField(allow_null=True)
    counts = serializers.DictField(allow_null=True)
    deployment_id = serializers.CharField(allow_null=True)
    steps = StepShown(many=True)


class CheckedItemShown(serializers.Serializer[Any]):
    """One line of the checklist that proves a rollback."""

    subject = serializers.CharField()
    expected = serializers.CharField()
    found = serializers.CharField()
    ok = serializers.BooleanField()
    note = serializers.CharField()


class ExecutionDocument(serializers.Serializer[Any]):
    """Everything about an execution but its log and its calls."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)
    outcome = serializers.ChoiceField(choices=Outcome.choices, allow_null=True)
    failure = Failure(allow_null=True)
    pipeline = PipelineOfExecution()
    scope = serializers.CharField()
    started_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    artifact = serializers.DictField()
    inputs = serializers.DictField()
    queue = serializers.DictField(allow_null=True)
    can = serializers.DictField(child=serializers.BooleanField())
    stages = StageShown(many=True)
    checklist = CheckedItemShown(many=True)
    calls_count = serializers.IntegerField()
    last_line = serializers.IntegerField()


class LineShown(serializers.Serializer[Any]):
    """One line of the log."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    step = serializers.CharField()
    unit = serializers.CharField()
    level = serializers.ChoiceField(choices=["info", "warning", "error", "success", "event", "command"])
    origin = serializers.ChoiceField(choices=[one.value for one in log.Origin])
    text = serializers.CharField()


class LogPage(serializers.Serializer[Any]):
    """At most a thousand lines; `end` says that there will be no more."""

    lines = LineShown(many=True)
    end = serializers.BooleanField()


class AbortInput(serializers.Serializer[Any]):
    """How to stop."""

    rollback = serializers.BooleanField(required=False, default=False)


class AskedDocument(serializers.Serializer[Any]):
    """The execution to watch: the same one, or a new one that a rollback needed."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)


class Executions(Route):
    """Executions, newest first."""

    order = "created_at"

    @extend_schema(parameters=[ORG, PROJECT, STATUS, PIPELINE, *PAGED], responses=ExecutionSummary(many=True))
    def get(self, request: Request) -> Response:
        found = narrowed(request, queries.visible_executions(self.principal), by_identifier=False)
        if status := request.GET.get("status"):
            found = found.filter(status=status)
        if identifier := request.GET.get("identifier"):
            meant = Pipeline.objects.filter(identifier=identifier)
            found = found.filter(pipeline__in=list(meant.values_list("pk", flat=True)))
        if pipeline := request.GET.get("pipeline"):
            found = found.filter(pipeline_id=_number(pipeline, "pipeline"))
        return self.page(found, ExecutionSummary)


class ExecutionRoute(Route):
    """The base of routes about one execution."""

    def execution(self, pk: uuid.UUID) -> Execution:
        """Return the execution of the address."""
        rows = Execution.objects.select_related("pipeline__scope", "scope", "started_by")
        return self.one(VIEW, rows, pk=pk)

    def asked(self, pk: uuid.UUID, ask: Callable[..., Execution | None], **how: Any) -> Response:
        """Pass a wish on; the engine takes it up with its next look."""
        execution = self.execution(pk)
        watched = ask(actor=self.principal, execution=execution, **how) or execution
        watched.refresh_from_db(fields=["status"])
        return Response(AskedDocument(watched).data, status=202)


class OneExecution(ExecutionRoute):
    """One execution."""

    @extend_schema(responses=ExecutionDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response(queries.execution_document(self.execution(pk), self.principal))


class AbortExecution(ExecutionRoute):
    """Stopping an execution."""

    @extend_schema(request=AbortInput, responses={202: AskedDocument})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        roll_back = self.given(AbortInput, strict=True)["rollback"]
        return self.asked(pk, operations.abort_execution, roll_back=roll_back)


class RollBackExecution(ExecutionRoute):
    """Bringing back what ran before an execution."""

    @extend_schema(request=None, responses={202: AskedDocument})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        return self.asked(pk, operations.roll_back_execution)


class RetryExecution(ExecutionRoute):
    """Trying the step that failed again."""

    @extend_schema(request=None, responses={202: AskedDocument})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        return self.asked(pk, operations.retry_execution)


LOG_ANSWERS = {(200, "application/json"): LogPage, (200, "text/plain"): OpenApiTypes.STR}


class ExecutionLog(ExecutionRoute):
    """The log of an execution."""

    @extend_schema(parameters=[AFTER, BLOCKS, DOWNLOAD], responses=LOG_ANSWERS)
    def get(self, request: Request, pk: uuid.UUID) -> Response | HttpResponse:
        execution = self.execution(pk)
        if request.GET.get("download", "") not in ("", "0", "false"):
            return _download(execution)
        after = _number(request.GET.get("after") or "0", "after")
        if request.GET.get("blocks") == "1":
            return _blocks(execution, after)
        # The state was read before the lines: what is over by then has written its last one.
        lines = log.read_lines(execution.pk, after=after)
        last = lines[-1]["number"] if lines else after
        is_over = execution.is_over and last >= execution.log_next - 1
        return Response({"lines": lines, "end": is_over})


class ExecutionCalls(ExecutionRoute):
    """Every call to AWS that an execution made, in order."""

    oldest_first = True

    @extend_schema(parameters=PAGED, responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        rows = Call.objects.filter(execution=self.execution(pk)).select_related("step", "action")
        return self.page(rows.defer("parameters", "result"), queries.call_document)


def _number(text: str, name: str) -> int:
    if not text.isascii() or not text.isdigit() or len(text) > MOST_DIGITS:
        raise BadInput("The input is not valid.", errors=[{"path": name, "message": "must be a number"}])
    return int(text)


def _blocks(execution: Execution, after: int) -> HttpResponse:
    """As they are stored: nothing is decoded or encoded for the page."""
    blocks = log.blocks_after(execution.pk, after, most_bytes=BLOCKS_BYTES)
    last = blocks[-1].last if blocks else after
    end = "true" if execution.is_over and last >= execution.log_next - 1 else "false"
    bodies = ",".join(block.body for block in blocks)
    return HttpResponse(f'{{"blocks":[{bodies}],"end":{end}}}', content_type="application/json")


def _download(execution: Execution) -> HttpResponse:
    text = "".join(f"{line['at']} {line['text']}\n" for line in log.all_lines(execution.pk))
    name = f"{execution.pipeline.identifier}-{execution.number}.log"
    return HttpResponse(
        text.encode("utf-8", "replace"),
        content_type="text/plain; charset=utf-8",
        headers={
            "Content-Disposition": f'attachment; filename="{name}"',
            # What a container printed is never to be taken for a page.
            "X-Content-Type-Options": "nosniff",
        },
    )
