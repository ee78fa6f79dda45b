"""Routes of delegate tasks: list, detail, decisions, log, abort, connectivity check."""

import uuid
from typing import Any, Final

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_field
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from delegates.models import Delegate, DelegateTask, RoutingDecision
from delegates.operations.tasks import abort_task, start_connectivity_check, start_diagnosis
from delegates.queries import tasks as queries
from delegates.queries.explanations import RoutingExplanation
from delegates.queries.tasks import list_decision_rows
from delegates.routing.rules import RoutingRule
from guards.limits import CHECKED_URL_CHARACTERS
from rbac.policy import filter_visible, require
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER, parse_boolean, parse_number
from web.api.views import BaseApiView, filter_by_scope
from web.clock import get_database_time
from web.http.pagination import CursorPagination
from web.http.problems import BadInput

VIEW = "core_delegate_view"
STATUS = OpenApiParameter("status", OpenApiTypes.STR, enum=DelegateTask.Status.values)
DELEGATE = OpenApiParameter("delegate", OpenApiTypes.INT, description="Filter by delegate.")
RULES = [rule.value for rule in RoutingRule]
BACKGROUND = OpenApiParameter(
    "background",
    OpenApiTypes.BOOL,
    description="Set to false to leave out the tasks of sync and drift, and the reads of event queues.",
)
FAILED = OpenApiParameter("failed", OpenApiTypes.STR, enum=RULES, description="Only delegates that fail it.")
AFTER = OpenApiParameter("after", OpenApiTypes.INT, description="Lines after this number.")


class DelegateOfTask(serializers.Serializer[Any]):
    """Delegate of a task."""

    id = serializers.IntegerField()
    name = serializers.CharField()


class DelegateTaskSummary(serializers.Serializer[Any]):
    """Delegate task; `reason` explains its wait or its end.

    The delegate `offered_to` may take it until `offered_until`. `delegate` and `instance` are the current or
    last ones. `fence` rises with each assignment.
    """

    id = serializers.UUIDField()
    title = serializers.CharField()
    kind = serializers.ChoiceField(choices=DelegateTask.Kind.choices)
    scope = serializers.CharField(source="scope.path")
    org = serializers.CharField(source="scope.org")
    project = serializers.CharField(source="scope.project")
    status = serializers.ChoiceField(choices=DelegateTask.Status.choices)
    reason = serializers.CharField()
    offered_to = DelegateOfTask(allow_null=True)
    offered_until = serializers.DateTimeField(allow_null=True)
    delegate = serializers.SerializerMethodField()
    instance = serializers.CharField(source="instance_name")
    fence = serializers.IntegerField()
    attempts = serializers.IntegerField()
    is_write = serializers.BooleanField()
    selectors = serializers.ListField(child=serializers.CharField())
    selectors_from = serializers.CharField()
    criterion = serializers.CharField()
    aws_account = serializers.CharField()
    environment = serializers.CharField()
    timeout_seconds = serializers.IntegerField()
    abort_requested = serializers.BooleanField()
    queued_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    finished_at = serializers.DateTimeField(allow_null=True)
    deadline = serializers.DateTimeField()

    @extend_schema_field(DelegateOfTask(allow_null=True))
    def get_delegate(self, task: DelegateTask) -> Any:
        holder = queries.get_task_holder(task)
        return DelegateOfTask(holder).data if holder else None


class DiagnosisFinding(serializers.Serializer[Any]):
    """Finding of one check of a diagnosis, with the next step."""

    check = serializers.CharField()
    result = serializers.ChoiceField(choices=("ok", "warning", "failed", "skipped"))
    message = serializers.CharField()
    fix = serializers.CharField(allow_blank=True)


class DelegateTaskDocument(DelegateTaskSummary):
    """Delegate task; `position` counts from 1 while the task is queued without an offer.

    `findings` are those of a diagnosis that has succeeded.
    """

    position = serializers.SerializerMethodField()
    findings = serializers.SerializerMethodField()

    @extend_schema_field(DiagnosisFinding(many=True))
    def get_findings(self, task: DelegateTask) -> Any:
        return DiagnosisFinding(queries.list_findings(task), many=True).data

    def get_position(self, task: DelegateTask) -> int | None:
        return queries.get_queue_positions([task], get_database_time()).get(task.pk)


VERDICTS: Final = ("PASS", "FAIL")


class RuleResult(serializers.Serializer[Any]):
    """Result of one rule, with the remedy that would make the delegate eligible."""

    rule = serializers.CharField()
    verdict = serializers.ChoiceField(choices=VERDICTS)
    detail = serializers.CharField()
    remedy = serializers.CharField()
    seconds_left = serializers.IntegerField(allow_null=True)


class VerdictDocument(RuleResult):
    """Result of one rule for one delegate."""

    delegate = serializers.IntegerField()
    name = serializers.CharField()


class DecisionDocument(serializers.Serializer[Any]):
    """Routing decision; `chosen` is the delegate that received the offer.

    `is_complete` means that `rows` has the verdicts on all delegates, and not only on those that came first.
    """

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    chosen = DelegateOfTask(allow_null=True)
    sentence = serializers.CharField()
    rows = VerdictDocument(many=True)
    is_complete = serializers.BooleanField()


class RuleFailuresDocument(serializers.Serializer[Any]):
    """Number of delegates that fail one rule."""

    rule = serializers.CharField()
    delegates = serializers.IntegerField()


class RoutingCountsDocument(serializers.Serializer[Any]):
    """Numbers of delegates for a task as they are now, in its reach or visible.

    A delegate that fails several rules counts for each of them; out of reach only for `scope`.
    """

    total = serializers.IntegerField()
    eligible = serializers.IntegerField()
    failures = RuleFailuresDocument(many=True)


class CandidateDocument(serializers.Serializer[Any]):
    """Delegate with the results of the rules for a task as they are now."""

    delegate = serializers.IntegerField()
    name = serializers.CharField()
    eligible = serializers.BooleanField(source="is_eligible")
    verdicts = RuleResult(many=True, source="evaluated")


class TaskLine(serializers.Serializer[Any]):
    """Log line of a task, numbered from 1."""

    number = serializers.IntegerField()
    at = serializers.DateTimeField()
    level = serializers.CharField()
    text = serializers.CharField()


class TaskLog(serializers.Serializer[Any]):
    """Up to 1000 lines; `end` means that no more lines follow."""

    lines = TaskLine(many=True)
    end = serializers.BooleanField()


class DelegateTasks(BaseApiView):
    """Delegate tasks, newest first."""

    order = "queued_at"

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, STATUS, DELEGATE, BACKGROUND, *PAGE_PARAMETERS],
        responses=DelegateTaskSummary(many=True),
    )
    def get(self, request: Request) -> Response:
        visible = filter_visible(self.principal, VIEW, queries.list_tasks())
        tasks = filter_by_scope(request, visible, by_identifier=False)
        if status := request.GET.get("status"):
            if status not in DelegateTask.Status.values:
                raise _bad_input("status", f"must be one of {', '.join(DelegateTask.Status.values)}")
            tasks = tasks.filter(status=status)
        if (delegate := parse_number(request, "delegate")) is not None:
            tasks = queries.filter_by_delegate(tasks, delegate)
        if not parse_boolean(request.GET.get("background", "true"), "background"):
            tasks = queries.exclude_background(tasks)
        return self.paginate(tasks, DelegateTaskSummary)


class TaskRoute(BaseApiView):
    """Base of the routes of one delegate task."""

    def get_task(self, pk: uuid.UUID) -> DelegateTask:
        """Return the task in the URL."""
        return self.get_visible(VIEW, queries.list_tasks(), pk=pk)


class DelegateTaskDetail(TaskRoute):
    """Delegate task."""

    @extend_schema(responses=DelegateTaskDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return Response(DelegateTaskDocument(self.get_task(pk)).data)


class AbortDelegateTask(TaskRoute):
    """Abort of a delegate task."""

    @extend_schema(request=None, responses=DelegateTaskDocument)
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        task = abort_task(actor=self.principal, task=self.get_task(pk))
        return Response(DelegateTaskDocument(task).data)


class ReachInput(serializers.Serializer[Any]):
    """Address to reach."""

    url = serializers.CharField(max_length=int(CHECKED_URL_CHARACTERS))


class DelegateCheck(BaseApiView):
    """Connectivity check from a delegate to an address; status and reason of the task are the result."""

    @extend_schema(request=ReachInput, responses={202: DelegateTaskDocument})
    def post(self, request: Request, pk: int) -> Response:
        delegate = self.get_visible(VIEW, Delegate.objects.select_related("scope"), pk=pk)
        require(self.principal, "core_delegate_edit", delegate)
        url = self.get_validated_body(ReachInput)["url"]
        started = start_connectivity_check(actor=self.principal, delegate=delegate, url=url)
        return Response(DelegateTaskDocument(started).data, status=202)


class DelegateDiagnosis(BaseApiView):
    """Diagnosis by a delegate of its own place; `findings` of the task are the result."""

    @extend_schema(request=None, responses={202: DelegateTaskDocument})
    def post(self, request: Request, pk: int) -> Response:
        delegate = self.get_visible(VIEW, Delegate.objects.select_related("scope"), pk=pk)
        started = start_diagnosis(actor=self.principal, delegate=delegate)
        return Response(DelegateTaskDocument(started).data, status=202)


class TaskDecisions(TaskRoute):
    """Routing decisions of a task, with the result of each rule."""

    order = "number"

    @extend_schema(parameters=PAGE_PARAMETERS, responses=DecisionDocument(many=True))
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        decisions = RoutingDecision.objects.filter(task=self.get_task(pk)).select_related("chosen")
        return self.paginate(decisions, self._build_document)

    def _build_document(self, decision: RoutingDecision) -> DecisionDocument:
        (decision.rows,) = list_decision_rows([decision], self.principal)
        return DecisionDocument(decision)


class TaskExplanation(TaskRoute):
    """Why delegates are not eligible for a task now: numbers by failed rule."""

    @extend_schema(responses=RoutingCountsDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        explanation = RoutingExplanation(self.get_task(pk), self.principal, get_database_time())
        return Response(RoutingCountsDocument(explanation.count()).data)


class TaskCandidates(TaskRoute):
    """Delegates for a task, with the result of each rule as it is now."""

    oldest_first = True

    @extend_schema(parameters=[FAILED, *PAGE_PARAMETERS], responses=CandidateDocument(many=True))
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        explanation = RoutingExplanation(self.get_task(pk), self.principal, get_database_time())
        failed = request.GET.get("failed", "")
        if failed and failed not in RULES:
            raise _bad_input("failed", f"must be one of {', '.join(RULES)}")
        pages = CursorPagination()
        delegates = pages.paginate_queryset(explanation.list_delegates(failed), request, self)
        lines = explanation.list_lines(delegates)
        return pages.get_paginated_response(CandidateDocument(lines, many=True).data)


class DelegateTaskLog(TaskRoute):
    """Log lines of a delegate task."""

    @extend_schema(parameters=[AFTER], responses=TaskLog)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        task = self.get_task(pk)
        # The state was read before the lines, so an ended task has written its last line.
        log_page = queries.read_task_log(task, parse_number(request, "after") or 0)
        return Response(
            TaskLog({"lines": log_page.lines, "end": not task.is_open and not log_page.more}).data
        )


def _bad_input(name: str, message: str) -> BadInput:
    return BadInput("The input is not valid.", errors=[{"path": name, "message": message}])
