"""Serializers of executions: in lists, in full, and call by call."""

from typing import Any

from rest_framework import serializers

from deployments.api.approvals import ApprovalSummary
from deployments.execution.interventions import DECISIONS
from deployments.models import Execution
from steps.states import CallState, Outcome, Status

CAUSE_HELP = "Trigger and event that started it; empty for a run by hand."


class ExecutionFailure(serializers.Serializer[Any]):
    """Failure of an execution."""

    code = serializers.CharField()
    message = serializers.CharField()
    step = serializers.CharField(allow_null=True)
    stage = serializers.CharField(required=False, help_text="Stage of the failed step.")
    container = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    outcome = serializers.CharField(
        required=False, help_text="Outcome of the ECS deployment after this failure."
    )
    last_output = serializers.ListField(
        child=serializers.CharField(), required=False, help_text="Last lines of the failed container's log."
    )
    advice = serializers.CharField(required=False, help_text="What to do about the cause, where it is known.")


class ExecutionPipeline(serializers.Serializer[Any]):
    """Pipeline of an execution."""

    id = serializers.IntegerField()
    identifier = serializers.CharField()
    name = serializers.CharField()


class ExecutionSummary(serializers.Serializer[Any]):
    """Execution in a list."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    attempt = serializers.IntegerField(help_text="1 for a first run; retries of it count on.")
    status = serializers.ChoiceField(choices=Status.choices)
    outcome = serializers.SerializerMethodField()
    failure = ExecutionFailure(allow_null=True)
    pipeline = ExecutionPipeline()
    scope = serializers.CharField(source="scope.path")
    started_by = serializers.CharField(source="started_by.username", allow_null=True, default=None)
    cause = serializers.CharField(help_text=CAUSE_HELP)
    artifact = serializers.DictField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)

    def get_outcome(self, execution: Execution) -> str | None:
        return execution.outcome or None


class ActionDocument(serializers.Serializer[Any]):
    """Action inside a step."""

    title = serializers.CharField()
    state = serializers.CharField()
    detail = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class UnitDocument(serializers.Serializer[Any]):
    """Titled group of actions."""

    name = serializers.CharField()
    status = serializers.ChoiceField(choices=Status.choices)
    actions = ActionDocument(many=True)


class InterventionDocument(serializers.Serializer[Any]):
    """Intervention that a step waits for; kind WAITING means that it waits for AWS and may be skipped."""

    kind = serializers.ChoiceField(
        choices=["FAILED", "STUCK", "STUCK_BACKWARD", "NOT_RESTORED", "RESTORED", "WAITING"]
    )
    requested_at = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    on_timeout = serializers.CharField(allow_null=True)
    taken_at = serializers.DateTimeField(
        allow_null=True, help_text="Of RESTORED: when the backup was made that the execution comes from."
    )
    choices = serializers.ListField(child=serializers.ChoiceField(choices=DECISIONS))


class GroupHeading(serializers.Serializer[Any]):
    """Heading of the first step of a group or parallel; `depth` 0 is outermost."""

    text = serializers.CharField()
    depth = serializers.IntegerField()


class StepDocument(serializers.Serializer[Any]):
    """Step; `depth` counts the groups and parallels around it, `heads` are its headings."""

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
    depth = serializers.IntegerField()
    heads = GroupHeading(many=True)
    skipped_because = serializers.CharField(allow_null=True)
    failure = ExecutionFailure(allow_null=True)
    intervention = InterventionDocument(allow_null=True)
    approval = ApprovalSummary(allow_null=True)
    retry_at = serializers.DateTimeField(allow_null=True)
    units = UnitDocument(many=True)
    outputs = serializers.DictField()


class OriginDocument(serializers.Serializer[Any]):
    """Earlier attempt whose results a stage reuses."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()


class StageDocument(serializers.Serializer[Any]):
    """Stage with its service, environment and infrastructure."""

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
    skipped_because = serializers.CharField(allow_null=True)
    reused_from = OriginDocument(allow_null=True)
    steps = StepDocument(many=True)


class RollbackCheckDocument(serializers.Serializer[Any]):
    """Line of the checklist that proves a rollback."""

    subject = serializers.CharField()
    expected = serializers.CharField()
    found = serializers.CharField()
    ok = serializers.BooleanField()
    note = serializers.CharField()


class DelegateWaitDocument(serializers.Serializer[Any]):
    """Reason why no delegate has the next call yet; `selectors_from` is the source of the selectors."""

    step = serializers.CharField()
    selectors = serializers.ListField(child=serializers.CharField())
    selectors_from = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    task = serializers.UUIDField()


class QueuePosition(serializers.Serializer[Any]):
    """Step that waits for a service lock, with the number of executions ahead of it."""

    position = serializers.IntegerField()
    waits_for = serializers.CharField(allow_null=True)
    ecs_service = serializers.CharField()
    step = serializers.CharField()


class QueueDocument(QueuePosition):
    """Step that waits longest for a service lock; `steps` has all waiting steps."""

    steps = QueuePosition(many=True)


class OutcomeNote(serializers.Serializer[Any]):
    """Note about an outcome, such as a change by someone else during the deployment."""

    at = serializers.DateTimeField()
    step = serializers.CharField()
    text = serializers.CharField()


class ExecutionDocument(serializers.Serializer[Any]):
    """Execution with its stages and steps, without log and calls."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    attempt = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)
    outcome = serializers.ChoiceField(choices=Outcome.choices, allow_null=True)
    failure = ExecutionFailure(allow_null=True)
    notes = OutcomeNote(many=True)
    ignored_failures = serializers.IntegerField()
    pipeline = ExecutionPipeline()
    scope = serializers.CharField()
    started_by = serializers.CharField(allow_null=True)
    cause = serializers.CharField(help_text=CAUSE_HELP)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
    details_deleted_at = serializers.DateTimeField(
        allow_null=True, help_text="When retention deleted its log, AWS calls and AWS events."
    )
    artifact = serializers.DictField()
    inputs = serializers.DictField()
    queue = QueueDocument(allow_null=True)
    waits_for_delegate = DelegateWaitDocument(allow_null=True)
    can = serializers.DictField(child=serializers.BooleanField())
    stages = StageDocument(many=True)
    checklist = RollbackCheckDocument(many=True)
    calls_count = serializers.IntegerField()
    last_line = serializers.IntegerField()


class CallDocument(serializers.Serializer[Any]):
    """Call to AWS; environment values are redacted."""

    id = serializers.IntegerField()
    number = serializers.IntegerField(help_text="Index in its phase, starting at 0.")
    at = serializers.DateTimeField()
    service = serializers.CharField()
    operation = serializers.CharField()
    phase = serializers.CharField()
    step = serializers.CharField()
    action = serializers.CharField()
    attempt = serializers.IntegerField()
    state = serializers.ChoiceField(choices=CallState.choices)
    write = serializers.BooleanField()
    adopted = serializers.BooleanField(
        help_text="The response was lost; the call was confirmed in the AWS account."
    )
    sends = serializers.IntegerField()
    repeats = serializers.IntegerField(
        help_text="Number of consecutive reconcile passes with the same response."
    )
    duration = serializers.FloatField(allow_null=True, help_text="Duration in seconds.")
    duration_ms = serializers.IntegerField(allow_null=True)
    error = serializers.DictField(allow_null=True)
    params_preview = serializers.DictField()
    by = serializers.CharField(allow_null=True)
    delegate_instance = serializers.CharField(
        allow_null=True, help_text="Delegate and its host; null if Slipway sent the call."
    )
    served_by = serializers.ListField(
        child=serializers.DictField(), help_text="Delegates that had the call, in order."
    )
    task = serializers.UUIDField(allow_null=True)
