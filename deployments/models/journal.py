"""Journal of an execution: AWS calls, rollback data, log chunks and AWS events."""

import json
from typing import Any, ClassVar

from django.db import models

from delegates.models import DelegateTask
from deployments.models.executions import ActionRun, Execution, StepExecution
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope
from steps.states import CallState


class AwsCall(models.Model):
    """Call to AWS, a row before it is sent (DESIGN 5, rule 6).

    Its key is (action, attempt, phase, number): the number-th call of that phase. `parameters` and `result`
    are JSON, encrypted because task definitions contain secret values; `preview` is redacted. Repeated reads
    increment `repeat_count` instead of adding rows.
    """

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="calls")
    step = models.ForeignKey(StepExecution, on_delete=models.CASCADE, related_name="calls")
    action = models.ForeignKey(ActionRun, on_delete=models.CASCADE, related_name="calls")
    attempt = models.PositiveIntegerField()
    phase = models.CharField(max_length=24)
    number = models.PositiveIntegerField()
    service = models.CharField(max_length=64)
    operation = models.CharField(max_length=128)
    is_write = models.BooleanField()
    params_hash = models.CharField(max_length=64)
    parameters = EncryptedTextField(bound_to=["action_id", "attempt", "phase", "number"])
    preview = models.JSONField(default=dict)
    state = models.CharField(max_length=16, choices=CallState, default=CallState.PLANNED)
    send_number = models.PositiveIntegerField(default=0)
    repeat_count = models.PositiveIntegerField(default=1)
    # What became of a write whose answer was lost: ANSWERED, it took effect. In other states it is sent again
    # with the token that AWS knows from it, and the answer of that is still missing, or is a refusal.
    is_confirmed = models.BooleanField(default=False)
    result = EncryptedTextField(blank=True, default="")
    error = models.JSONField(null=True)
    planned_at = models.DateTimeField()
    sent_at = models.DateTimeField(null=True)
    answered_at = models.DateTimeField(null=True)
    duration_ms = models.PositiveIntegerField(null=True)
    # The delegate task that makes it now, or made it last; none where this Slipway makes its calls itself.
    task = models.ForeignKey(DelegateTask, on_delete=models.SET_NULL, null=True, related_name="+")
    # Delegates in order: {"delegate", "at", "end"}, if the task was handed over.
    served_by = models.JSONField(default=list)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["action", "attempt", "phase", "number"], name="call_number_unique"
            )
        ]
        indexes = [models.Index(fields=["execution", "id"], name="call_of_execution")]

    def __str__(self) -> str:
        return f"{self.service}:{self.operation} {self.state}"

    @property
    def scope(self) -> Scope:
        return self.execution.scope

    @property
    def parsed_parameters(self) -> dict[str, Any]:
        """Return the parameters as they were sent."""
        return dict(json.loads(self.parameters))


class RollbackValue(models.Model):
    """A value that a step saves for its undo; the first value of a name stays."""

    step = models.ForeignKey(StepExecution, on_delete=models.CASCADE, related_name="rollback_values")
    run = models.PositiveIntegerField()
    name = models.CharField(max_length=1024)  # service names and ARNs are part of it
    value = EncryptedTextField(bound_to=["step_id", "run", "name"])

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["step", "run", "name"], name="rollback_value_name_unique")
        ]

    def __str__(self) -> str:
        return f"{self.step}: {self.name}"


class LogChunk(models.Model):
    """Consecutive log lines of one execution.

    `packed` is a compressed block (see `deployments.log.lines`). A commit writes a small one; small ones are
    compacted while the log grows, and at its end.
    """

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="chunks")
    first = models.PositiveBigIntegerField()
    last = models.PositiveBigIntegerField()
    packed = models.BinaryField()
    is_packed = models.BooleanField(default=False)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["execution", "first"], name="chunk_first_unique")]

    def __str__(self) -> str:
        return f"{self.execution} {self.first}-{self.last}"


class HiddenLogLines(models.Model):
    """Lines of a log that show why they are hidden, until the secrets to redact in them can be read again.

    `lines` is a JSON list of the lines, encrypted, for they are not redacted; `dropped` counts further ones
    that were too many to keep. `call` is the call whose parameters have secrets of their own.
    """

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="hidden_lines")
    call = models.ForeignKey(AwsCall, on_delete=models.CASCADE, null=True, related_name="+")
    lines = EncryptedTextField(bound_to=["execution_id"])
    size = models.PositiveIntegerField()
    dropped = models.PositiveIntegerField(default=0)
    # When the secrets are tried next; each failed attempt doubles the pause.
    due_at = models.DateTimeField()
    attempts = models.PositiveIntegerField(default=0)

    class Meta:
        indexes = [models.Index(fields=["due_at"], name="hidden_lines_due")]

    def __str__(self) -> str:
        return f"{self.execution} {self.pk}"

    @property
    def scope(self) -> Scope:
        return self.execution.scope


class AwsEvent(models.Model):
    """One ECS service event that an execution has shown."""

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="aws_events")
    event_id = models.CharField(max_length=64)
    ecs_service = models.CharField(max_length=512)
    at = models.DateTimeField()
    message = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["execution", "event_id"], name="aws_event_unique")]

    def __str__(self) -> str:
        return self.message
