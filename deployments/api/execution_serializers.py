"""Serializers of executions: in lists, in full, and call by call."""

from typing import Any

from rest_framework import serializers

from deployments.api.approvals import ApprovalSummary
from deployments.execution.interventions import DECISIONS
from deployments.models import Execution
from steps.states import CallState, Outcome, Status


class ExecutionFailure(serializers.Serializer[Any]):
    """Why an execution failed."""

    code = serializers.CharField()
    message = serializers.CharField()
    step = serializers.CharField(allow_null=True)
    container = serializers.CharField(allow_null=True)
    exit_code = serializers.IntegerField(allow_null=True)
    outcome = serializers.CharField(required=False, help_text="How the ECS deployment ended by that.")


class ExecutionPipeline(serializers.Serializer[Any]):
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
    failure = ExecutionFailure(allow_null=True)
    pipeline = ExecutionPipeline()
    scope = serializers.CharField(source="scope.path")
    started_by = serializers.CharField(source="started_by.username", allow_null=True, default=None)
    artifact = serializers.DictField()
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)

    def get_outcome(self, execution: Execution) -> str | None:
        return execution.outcome or None


class ActionDocument(serializers.Serializer[Any]):
    """One small thing inside a step."""

    title = serializers.CharField()
    state = serializers.CharField()
    detail = serializers.CharField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)


class UnitDocument(serializers.Serializer[Any]):
    """A titled group of actions."""

    name = serializers.CharField()
    status = serializers.ChoiceField(choices=Status.choices)
    actions = ActionDocument(many=True)


class InterventionDocument(serializers.Serializer[Any]):
    """What a step waits for a person with; of kind WAITING where it only waits for AWS and may be skipped."""

    kind = serializers.ChoiceField(choices=["FAILED", "STUCK", "STUCK_BACKWARD", "NOT_RESTORED", "WAITING"])
    asked_at = serializers.DateTimeField(allow_null=True)
    until = serializers.DateTimeField(allow_null=True)
    on_timeout = serializers.CharField(allow_null=True)
    choices = serializers.ListField(child=serializers.ChoiceField(choices=DECISIONS))


class GroupHeading(serializers.Serializer[Any]):
    """What stands above the first step of a group or a parallel; `depth` 0 is outermost."""

    text = serializers.CharField()
    depth = serializers.IntegerField()


class StepDocument(serializers.Serializer[Any]):
    """One step; `depth` counts the groups and parallels around it, `heads` names those that it begins."""

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


class StageDocument(serializers.Serializer[Any]):
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
    skipped_because = serializers.CharField(allow_null=True)
    steps = StepDocument(many=True)


class RollbackCheckDocument(serializers.Serializer[Any]):
    """One line of the checklist that proves a rollback."""

    subject = serializers.CharField()
    expected = serializers.CharField()
    found = serializers.CharField()
    ok = serializers.BooleanField()
    note = serializers.CharField()


class DelegateWaitDocument(serializers.Serializer[Any]):
    """Why no delegate has the next call yet; `selectors_from` says who asked for the tags."""

    step = serializers.CharField()
    selectors = serializers.ListField(child=serializers.CharField())
    selectors_from = serializers.CharField(allow_null=True)
    reason = serializers.CharField()
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()
    task = serializers.UUIDField()


class QueuePosition(serializers.Serializer[Any]):
    """A step that waits for its ECS service, and how many executions are ahead of it."""

    position = serializers.IntegerField()
    waits_for = serializers.CharField(allow_null=True)
    ecs_service = serializers.CharField()
    step = serializers.CharField()


class QueueDocument(QueuePosition):
    """The step that waits longest for its ECS service; `steps` has all that wait."""

    steps = QueuePosition(many=True)


class OutcomeNote(serializers.Serializer[Any]):
    """What a reader of the outcome should know: what others did meanwhile, mostly."""

    at = serializers.DateTimeField()
    step = serializers.CharField()
    text = serializers.CharField()


class ExecutionDocument(serializers.Serializer[Any]):
    """Everything about an execution but its log and its calls."""

    id = serializers.UUIDField()
    number = serializers.IntegerField()
    status = serializers.ChoiceField(choices=Status.choices)
    outcome = serializers.ChoiceField(choices=Outcome.choices, allow_null=True)
    failure = ExecutionFailure(allow_null=True)
    notes = OutcomeNote(many=True)
    ignored_failures = serializers.IntegerField()
    pipeline = ExecutionPipeline()
    scope = serializers.CharField()
    started_by = serializers.CharField(allow_null=True)
    created_at = serializers.DateTimeField()
    started_at = serializers.DateTimeField(allow_null=True)
    ended_at = serializers.DateTimeField(allow_null=True)
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
    """One call to AWS; the values of environments are hidden."""

    id = serializers.IntegerField()
    number = serializers.IntegerField(help_text="The place in its phase, from 0.")
    at = serializers.DateTimeField()
    service = serializers.CharField()
    operation = serializers.CharField()
    phase = serializers.CharField()
    step = serializers.CharField()
    action = serializers.CharField()
    attempt = serializers.IntegerField()
    state = serializers.ChoiceField(choices=CallState.choices)
    write = serializers.BooleanField()
    adopted = serializers.BooleanField(help_text="The answer was lost and found again in the account.")
    sends = serializers.IntegerField()
    repeats = serializers.IntegerField(help_text="How often a look read the same.")
    duration = serializers.FloatField(allow_null=True, help_text="Seconds.")
    duration_ms = serializers.IntegerField(allow_null=True)
    error = serializers.DictField(allow_null=True)
    params_preview = serializers.DictField()
    by = serializers.CharField(allow_null=True)
    delegate_instance = serializers.CharField(
        allow_null=True, help_text="The delegate and its host; null where this Slipway called itself."
    )
    served_by = serializers.ListField(child=serializers.DictField(), help_text="Who had it, in order.")
    task = serializers.UUIDField(allow_null=True)
