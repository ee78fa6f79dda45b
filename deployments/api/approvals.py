"""Routes of approvals: waiting ones, their plan, and their decision."""

import uuid
from typing import Any

from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiExample, OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from deployments.approvals import operations, queries
from deployments.approvals.verdicts import build_approval_summary
from deployments.models import Approval, ApprovalDecision
from guards.limits import APPROVAL_COMMENT_CHARACTERS
from web.api.parameters import ORG_PARAMETER, PAGE_PARAMETERS, PROJECT_PARAMETER
from web.api.views import BaseApiView, filter_by_scope
from web.http.problems import BadInput

VIEW = "core_pipeline_view"
STATUS = OpenApiParameter("status", OpenApiTypes.STR, enum=Approval.Status.values)
MINE = OpenApiParameter("mine", OpenApiTypes.BOOL, description="Only approvals that wait for your decision.")


class ApprovalSummary(serializers.Serializer[Any]):
    """Approval in a list; `given` counts towards `minimum`."""

    id = serializers.UUIDField()
    status = serializers.ChoiceField(choices=Approval.Status.choices)
    message = serializers.CharField()
    groups = serializers.ListField(child=serializers.CharField())
    minimum = serializers.IntegerField()
    given = serializers.IntegerField()
    disallow_executor = serializers.BooleanField()
    requested_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)


class ApprovalExecution(serializers.Serializer[Any]):
    """Execution that waits for the approval."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    pipeline = serializers.CharField()
    scope = serializers.CharField()
    started_by = serializers.CharField(allow_null=True)


class ApprovalDecisionDocument(serializers.Serializer[Any]):
    """Decision of an approver; it does not count if the plan has changed since."""

    by = serializers.CharField()
    verdict = serializers.ChoiceField(choices=ApprovalDecision.Verdict.choices)
    comment = serializers.CharField()
    inputs = serializers.DictField(child=serializers.CharField())
    at = serializers.DateTimeField()
    counts = serializers.BooleanField()


class ApprovalInput(serializers.Serializer[Any]):
    """Input for approvers."""

    name = serializers.CharField()
    defaultValue = serializers.CharField()
    allowedValues = serializers.ListField(child=serializers.CharField())
    required = serializers.BooleanField()  # type: ignore[assignment]


class ApprovalDocument(ApprovalSummary):
    """Approval; a decision must send the current `diff`, which identifies the plan in `ahead`."""

    execution = ApprovalExecution()
    step = serializers.CharField()
    inputs = ApprovalInput(many=True)
    diff = serializers.CharField()
    ahead = serializers.DictField()
    checked_at = serializers.DateTimeField(allow_null=True)
    checking = serializers.BooleanField(help_text="Whether the plan in `ahead` is being computed again.")
    decisions = ApprovalDecisionDocument(many=True)
    can_decide = serializers.BooleanField()
    why_not = serializers.CharField()


class RejectInput(serializers.Serializer[Any]):
    """Decision on the plan that `diff` identifies."""

    diff = serializers.CharField(max_length=64)
    comment = serializers.CharField(
        max_length=int(APPROVAL_COMMENT_CHARACTERS), required=False, allow_blank=True, default=""
    )


class ApproveInput(RejectInput):
    """Approval decision with the values of the approver inputs."""

    inputs = serializers.DictField(
        child=serializers.CharField(allow_blank=True), required=False, default=dict
    )


APPROVE_EXAMPLE = OpenApiExample(
    "Approve with a comment",
    # The approval's document has the digest of its plan.
    {"diff": "f0e4c2f76c58916ec258f246851bea091d14d4247a2fc3e18694461b1816e13b", "comment": "Ticket 4711"},
    request_only=True,
)


class Approvals(BaseApiView):
    """Approvals, newest first."""

    order = "requested_at"

    @extend_schema(
        parameters=[ORG_PARAMETER, PROJECT_PARAMETER, STATUS, MINE, *PAGE_PARAMETERS],
        responses=ApprovalSummary(many=True),
    )
    def get(self, request: Request) -> Response:
        own_only = self.is_flag_set("mine")
        listed = queries.list_waiting_approvals if own_only else queries.list_visible_approvals
        approvals = filter_by_scope(request, listed(self.principal), by_identifier=False)
        if status := request.GET.get("status"):
            if status not in Approval.Status.values:
                message = f"must be one of {', '.join(Approval.Status.values)}"
                raise BadInput("The input is not valid.", errors=[{"path": "status", "message": message}])
            approvals = approvals.filter(status=status)
        return self.paginate(approvals, build_approval_summary)


class ApprovalRoute(BaseApiView):
    """Base of the routes of one approval."""

    def approval(self, pk: uuid.UUID) -> Approval:
        """Return the approval in the URL."""
        rows = Approval.objects.select_related(
            "execution__pipeline__scope", "execution__scope", "execution__started_by", "step__stage"
        )
        return self.get_visible(VIEW, rows.prefetch_related("decisions"), pk=pk)

    def respond(self, pk: uuid.UUID, status: int = 200) -> Response:
        """Return a response with the current approval."""
        document = queries.build_approval_document(self.approval(pk), self.principal)
        return Response(document, status=status)


class ApprovalDetail(ApprovalRoute):
    """Approval."""

    @extend_schema(responses=ApprovalDocument)
    def get(self, request: Request, pk: uuid.UUID) -> Response:
        return self.respond(pk)


class ApproveApproval(ApprovalRoute):
    """Approval of an execution's plan."""

    @extend_schema(
        request=ApproveInput,
        responses={202: ApprovalDocument},
        examples=[APPROVE_EXAMPLE],
    )
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        approval = self.approval(pk)
        operations.approve_step(
            actor=self.principal, approval=approval, **self.get_validated_body(ApproveInput)
        )
        return self.respond(pk, 202)


class RejectApproval(ApprovalRoute):
    """Rejection of an execution's plan."""

    @extend_schema(request=RejectInput, responses={202: ApprovalDocument})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        approval = self.approval(pk)
        operations.reject_step(
            actor=self.principal, approval=approval, **self.get_validated_body(RejectInput)
        )
        return self.respond(pk, 202)


class CheckApproval(ApprovalRoute):
    """Request to compute the plan of an approval again."""

    @extend_schema(request=None, responses={202: ApprovalDocument})
    def post(self, request: Request, pk: uuid.UUID) -> Response:
        operations.request_plan_update(actor=self.principal, approval=self.approval(pk))
        return self.respond(pk, 202)
