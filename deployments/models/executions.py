"""Executions with stages, groups, steps and actions, and the stored texts they were made of."""

import json
import uuid
from typing import Any, ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q
from django.db.models.fields.json import KT

from catalog.models.environments import Infrastructure
from catalog.models.services import Service
from connectors.models import Connector
from delegates.models import Delegate
from pipelines.models.pipelines import Pipeline
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope
from steps.states import TERMINAL_STATUSES, ActionState, Outcome, Status, UndoState
from web.clock import get_database_time


class Execution(models.Model):
    """Run of a pipeline, and the lease under which one worker at a time reconciles it.

    Only the engine uses the columns from `due_at` on (DESIGN 5, rules 1-5); pages and operations may only set
    an earlier `due_at`.
    """

    RESOURCE_TYPE: ClassVar[str] = "execution"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "pipeline__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    # By an index of the scope alone, SQLite would sort all rows of a list instead of reading the newest.
    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="+", db_index=False)
    pipeline = models.ForeignKey(Pipeline, on_delete=models.PROTECT, related_name="executions")
    number = models.PositiveIntegerField()
    pipeline_version = models.PositiveIntegerField(null=True)
    yaml = models.TextField()
    inputs = models.JSONField(default=dict)
    # JSON: the values of variables that are secrets.
    secret_inputs = EncryptedTextField(bound_to=["id"], blank=True, default="")
    artifact = models.JSONField(default=dict)
    # A column of its own, which the database fills: SQLite finds no index inside JSON.
    tag = models.GeneratedField(
        expression=KT("artifact__tag"), output_field=models.TextField(null=True), db_persist=True
    )
    # Whether tasks are replaced without differences; None: the step decides.
    force_new_deployment = models.BooleanField(null=True)
    rerun_of = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")
    # Attempts of one run: each ended one has at most one next. The first may be deleted before the others.
    attempt = models.PositiveIntegerField(default=1)
    first_attempt = models.UUIDField(null=True)
    next_attempt = models.OneToOneField("self", null=True, on_delete=models.SET_NULL, related_name="+")
    started_by = models.ForeignKey(settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL)
    # What started it without a person: a trigger and its event.
    cause = models.CharField(max_length=255, blank=True, default="", db_default="")
    idempotency_key = models.CharField(max_length=128, null=True)  # noqa: DJ001 - unique where given
    # The request that started it, and its trace, for later passes.
    trace_context = models.JSONField(default=dict)

    status = models.CharField(max_length=32, choices=Status, default=Status.QUEUED)
    outcome = models.CharField(max_length=32, choices=Outcome, blank=True, default="")
    failure = models.JSONField(null=True)
    # Changes by others and further notes on the outcome: [{at, step, text}].
    notes = models.JSONField(default=list, blank=True)
    rolling_back = models.BooleanField(default=False)
    final_status = models.CharField(max_length=32, choices=Status, blank=True, default="")
    status_before_rollback = models.CharField(max_length=32, choices=Status, blank=True, default="")
    # By the clock of the database: a rollback asks which executions came before and after.
    created_at = models.DateTimeField(default=get_database_time, editable=False)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    next_line_number = models.PositiveBigIntegerField(default=1)
    # When retention deleted its log, AWS calls and AWS events.
    details_deleted_at = models.DateTimeField(null=True)

    due_at = models.DateTimeField(null=True)
    lease_expires_at = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=128, blank=True, default="")
    fence = models.PositiveBigIntegerField(default=0)
    dispatch_backoff_until = models.DateTimeField(null=True)
    dispatch_token = models.CharField(max_length=64, blank=True, default="")
    batch_key = models.CharField(max_length=512, blank=True, default="")

    # When a restored database paused it (rule 18): until a person decides, passes do nothing.
    restored_at = models.DateTimeField(null=True)

    # Wait of an execution (rule 5): an ECS service with an unchanged observed state.
    waits_for_service = models.CharField(max_length=255, blank=True, default="")
    waiting_since = models.DateTimeField(null=True)
    observed_state = models.CharField(max_length=32, blank=True, default="")
    recheck_at = models.DateTimeField(null=True)
    rate_limit_key = models.CharField(max_length=160, blank=True, default="")
    # Time of the last event of AWS about that service, and when one made the check due.
    event_at = models.DateTimeField(null=True)
    woken_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pipeline", "number"], name="execution_number_unique"),
            models.UniqueConstraint(
                fields=["pipeline", "started_by", "idempotency_key"],
                name="execution_idempotency_key_unique",
                condition=Q(idempotency_key__isnull=False),
            ),
            # Rule 8: every open execution has a due time.
            models.CheckConstraint(
                condition=Q(due_at__isnull=False) | Q(status__in=TERMINAL_STATUSES),
                name="execution_open_has_due_at",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="execution_due", condition=Q(due_at__isnull=False)),
            # Lists are read newest first, the key deciding between two of one moment.
            models.Index(fields=["-created_at", "-id"], name="execution_newest"),
            models.Index(fields=["scope", "-created_at", "-id"], name="execution_newest_in_scope"),
            models.Index(fields=["pipeline", "-created_at", "-id"], name="execution_newest_of_pipeline"),
            models.Index(fields=["status", "-created_at", "-id"], name="execution_newest_with_status"),
            # Open executions of a scope: a few of many.
            models.Index(
                fields=["scope"], name="execution_open_in_scope", condition=~Q(status__in=TERMINAL_STATUSES)
            ),
            # Recently ended executions, with all columns of the statistics, for an index-only scan.
            models.Index(
                fields=[
                    "ended_at",
                    "status",
                    "outcome",
                    "pipeline",
                    "scope",
                    "created_at",
                    "started_at",
                    "id",
                ],
                name="execution_ended",
                condition=Q(ended_at__isnull=False),
            ),
            # For retention, which leaves a few of the old ones.
            models.Index(
                fields=["ended_at"],
                name="execution_with_details",
                condition=Q(ended_at__isnull=False, details_deleted_at__isnull=True),
            ),
            models.Index(
                fields=["first_attempt"],
                name="execution_first_attempt",
                condition=Q(first_attempt__isnull=False),
            ),
            # Columns of searches.
            models.Index(fields=["number"], name="execution_number"),
            models.Index(fields=["tag"], name="execution_tag"),
        ]

    def __str__(self) -> str:
        return f"{self.pipeline} #{self.number}"

    @property
    def secret_input_values(self) -> dict[str, str]:
        """Return the variables that are secrets, with their values."""
        return dict(json.loads(self.secret_inputs)) if self.secret_inputs else {}

    @property
    def first_attempt_pk(self) -> uuid.UUID:
        """Return the id that all attempts of this run share: that of the first one."""
        return self.first_attempt or self.pk

    @property
    def is_over(self) -> bool:
        return self.status in TERMINAL_STATUSES

    @property
    def deployed_all_the_same(self) -> bool:
        """Return whether the deployment succeeded although another step failed and was ignored."""
        return self.status == Status.IGNORE_FAILED and self.outcome == Outcome.COMPLETED

    @property
    def has_succeeded(self) -> bool:
        return self.status == Status.SUCCESS or self.deployed_all_the_same


class StageExecution(models.Model):
    """Stage of an execution: service, target, and the results from AWS."""

    SCOPE_PATH: ClassVar[str] = "execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    execution = models.ForeignKey(Execution, on_delete=models.CASCADE, related_name="stages")
    position = models.PositiveIntegerField()
    identifier = models.CharField(max_length=128)
    name = models.CharField(max_length=128)
    status = models.CharField(max_length=32, choices=Status, default=Status.QUEUED)
    # Service and target; the values below stay after both are deleted.
    service = models.ForeignKey(Service, null=True, on_delete=models.SET_NULL, related_name="stages")
    infrastructure = models.ForeignKey(
        Infrastructure, null=True, on_delete=models.SET_NULL, related_name="stages"
    )
    connector = models.ForeignKey(Connector, on_delete=models.PROTECT, related_name="+")
    region = models.CharField(max_length=64, blank=True)
    cluster = models.CharField(max_length=255, blank=True)
    # Region and cluster expressions of a dynamic infrastructure (R189). The two columns above are empty until
    # the provisioner's steps, the first so many, have ended.
    dynamic_location = models.JSONField(null=True)
    provisioner_step_count = models.PositiveIntegerField(default=0)
    # The environment's path, such as account/acme/shop/production: delegates may be kept to some.
    environment = models.CharField(max_length=512, blank=True, default="")
    values = models.JSONField(default=dict)
    sources = models.JSONField(default=list)
    account = models.CharField(max_length=32, blank=True, default="")
    ecs_service = models.CharField(max_length=255, blank=True, default="")
    counts = models.JSONField(null=True)
    deployment_id = models.CharField(max_length=64, blank=True, default="")
    # When it runs: {"pipelineStatus", "condition"}, None after success; and why it did not.
    when = models.JSONField(null=True)
    skip_reason = models.CharField(max_length=512, blank=True, default="")
    # The delegate that the stage replaces, which gets none of its calls; a step names it.
    excluded_delegate = models.ForeignKey(
        Delegate, null=True, on_delete=models.SET_NULL, related_name="+", db_index=False
    )
    # Stage of an earlier attempt whose outputs this one has; it is skipped.
    reused_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["execution", "position"], name="stage_position_unique")
        ]
        indexes = [
            # For sync: the service of an ECS service, and the source of its deployments.
            models.Index(
                fields=["cluster", "ecs_service"], name="stage_ecs_service", condition=~Q(ecs_service="")
            ),
            models.Index(fields=["deployment_id"], name="stage_deployment", condition=~Q(deployment_id="")),
            # The last deployment of a service, and in an infrastructure.
            models.Index(
                fields=["service", "-id"], name="stage_newest_of_service", condition=Q(reused_from=None)
            ),
            models.Index(
                fields=["infrastructure", "-id"], name="stage_newest_in_place", condition=Q(reused_from=None)
            ),
            # Active deployments of a service: a few of many.
            models.Index(
                fields=["service", "-id"],
                name="stage_open_of_service",
                condition=~Q(status__in=TERMINAL_STATUSES),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.execution} {self.identifier}"

    @property
    def has_location(self) -> bool:
        """Return whether region and cluster are known; a dynamic infrastructure must be provisioned first."""
        return bool(self.region and self.cluster)

    @property
    def scope(self) -> Scope:
        return self.execution.scope


class StepGroup(models.Model):
    """Steps of a stage that belong together, in order or side by side; `position` is that of the first."""

    class Kind(models.TextChoices):
        GROUP = "GROUP"
        PARALLEL = "PARALLEL"

    stage = models.ForeignKey(StageExecution, on_delete=models.CASCADE, related_name="groups")
    parent = models.ForeignKey("self", null=True, on_delete=models.CASCADE, related_name="groups")
    position = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind)
    identifier = models.CharField(max_length=128, blank=True, default="")
    name = models.CharField(max_length=128, blank=True, default="")
    # As that of a step; whether it began, the engine keeps in `status`: QUEUED, RUNNING or SKIPPED.
    when = models.JSONField(null=True)
    status = models.CharField(max_length=32, choices=Status, default=Status.QUEUED)
    skip_reason = models.CharField(max_length=512, blank=True, default="")

    def __str__(self) -> str:
        return f"{self.stage} {self.identifier or self.kind}"


class StepExecution(models.Model):
    """One step of a stage. An attempt is one try; a run rises when it starts again after an undo."""

    class Section(models.TextChoices):
        EXECUTION = "EXECUTION"
        ROLLBACK = "ROLLBACK"

    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "execution__pipeline__identifier"}

    stage = models.ForeignKey(StageExecution, on_delete=models.CASCADE, related_name="steps")
    group = models.ForeignKey(StepGroup, null=True, on_delete=models.CASCADE, related_name="steps")
    position = models.PositiveIntegerField()
    section = models.CharField(max_length=16, choices=Section, default=Section.EXECUTION)
    identifier = models.CharField(max_length=128)
    name = models.CharField(max_length=128)
    type = models.CharField(max_length=64)
    spec = models.JSONField(default=dict)
    # The raw spec, if it names values that are known only when the step starts.
    unresolved_spec = models.JSONField(null=True)
    timeout_seconds = models.PositiveIntegerField()
    status = models.CharField(max_length=32, choices=Status, default=Status.QUEUED)
    attempt = models.PositiveIntegerField(default=1)
    run = models.PositiveIntegerField(default=1)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    timeout_at = models.DateTimeField(null=True)
    first_line = models.PositiveBigIntegerField(null=True)
    log_bytes = models.PositiveBigIntegerField(default=0)
    log_dropped = models.PositiveBigIntegerField(default=0)
    log_last_dropped = models.TextField(blank=True, default="")
    outputs = models.JSONField(default=dict)
    # JSON: the values of outputs that are secrets; `outputs` has their names.
    secret_outputs = EncryptedTextField(bound_to=["stage_id", "identifier"], blank=True, default="")
    failure = models.JSONField(null=True)
    # Failure strategies of the pipeline; the first match counts.
    failure_strategies = models.JSONField(default=list)
    # Set while a step waits for a decision: {"kind", "requested_at", "until", "on_timeout"}; after a restore
    # also "taken_at" of the backup, and "before_restore" with what it puts aside. "undo" is the key of the
    # action that a rollback step asks about.
    intervention = models.JSONField(null=True)
    # How often its failure strategy has tried it again, and when it will next.
    retries = models.PositiveIntegerField(default=0)
    retry_at = models.DateTimeField(null=True)
    # Selectors of delegates for this step's calls, and their source; empty: the connector's.
    delegate_selectors = models.JSONField(default=list)
    selectors_from = models.CharField(max_length=16, blank=True, default="")
    # When it runs: {"stageStatus", "condition"}, None after success; and why it did not.
    when = models.JSONField(null=True)
    skip_reason = models.CharField(max_length=512, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["stage", "section", "position"], name="step_position_unique"),
            models.UniqueConstraint(fields=["stage", "identifier"], name="step_identifier_unique"),
        ]

    def __str__(self) -> str:
        return f"{self.stage} {self.identifier}"

    @property
    def secret_output_values(self) -> dict[str, str]:
        """Return the outputs that are secrets, with their values."""
        return dict(json.loads(self.secret_outputs)) if self.secret_outputs else {}

    @property
    def all_outputs(self) -> dict[str, Any]:
        """Return all outputs with their values for other steps."""
        return {**self.outputs, **self.secret_output_values}


class ActionRun(models.Model):
    """Action of a step with its plan and progress.

    `progress` has notes for later passes. `log_cursors` are the written log positions of a phase, so that a
    repeated phase logs nothing twice.
    """

    step = models.ForeignKey(StepExecution, on_delete=models.CASCADE, related_name="actions")
    position = models.PositiveIntegerField()
    unit = models.CharField(max_length=128)
    name = models.CharField(max_length=64)
    version = models.PositiveIntegerField(default=1)
    parameters = models.JSONField(default=dict)
    title = models.CharField(max_length=255)
    detail = models.CharField(max_length=512, blank=True, default="")
    state = models.CharField(max_length=16, choices=ActionState, default=ActionState.WAITING)
    # The attempt of the step that its calls belong to now, and the first one of the step's run.
    attempt = models.PositiveIntegerField(default=1)
    first_attempt = models.PositiveIntegerField(default=1)
    start_done_at = models.DateTimeField(null=True)
    started_at = models.DateTimeField(null=True)
    ended_at = models.DateTimeField(null=True)
    consecutive_errors = models.PositiveIntegerField(default=0)
    undo_state = models.CharField(max_length=16, choices=UndoState, blank=True, default="")
    undo_attempts = models.PositiveIntegerField(default=0)
    undo_started_at = models.DateTimeField(null=True)
    # Writes that its checks requested, and how many of them are made.
    writes_requested = models.PositiveIntegerField(default=0, db_default=0)
    writes_made = models.PositiveIntegerField(default=0, db_default=0)
    progress = models.JSONField(default=dict)
    log_cursors = models.JSONField(default=dict)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["step", "position"], name="action_position_unique")]

    def __str__(self) -> str:
        return f"{self.step}: {self.name}"


class StoredText(models.Model):
    """Stored manifest or program file of runs; one copy for any number of users.

    `name` is a keyed hash of the text, which reveals nothing about the text.
    """

    name = models.CharField(max_length=64, unique=True)
    text = EncryptedTextField(bound_to=["name"], blank=True)
    bytes = models.PositiveIntegerField()
    # Time of the last use by a run; unused rows are deleted after a while.
    used_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["used_at"], name="stored_text_by_age")]

    def __str__(self) -> str:
        return self.name[:12]


class StoredTextUse(models.Model):
    """A stage, or a step of it, was made of a text; the text stays as long as this does."""

    SCOPE_PATH: ClassVar[str] = "stage__execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "stage__execution__pipeline__identifier"}

    # A foreign key protects used texts, so one statement deletes the unused ones and checks again.
    text = models.ForeignKey(StoredText, on_delete=models.DO_NOTHING, related_name="uses")
    stage = models.ForeignKey(StageExecution, on_delete=models.CASCADE, related_name="stored_text_uses")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stage", "text"], name="stored_text_use_unique")]

    def __str__(self) -> str:
        return f"{self.text} in {self.stage}"
