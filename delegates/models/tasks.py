"""Delegate tasks, their logs and results, and lookup requests that delegates answer."""

import uuid
from typing import ClassVar, Final

from django.db import models

from connectors.models import Connector
from delegates.models.delegates import Delegate
from delegates.models.instances import DelegateInstance
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope, User


class DelegateTask(models.Model):
    """Unit of work for a delegate (DESIGN 4).

    `payload` is JSON without credentials of connectors; the owner adds them when an agent takes the task.
    `fence` rises with each assignment; answers with an older fence are stored as evidence only.
    """

    class Kind(models.TextChoices):
        """Kind of work for an agent."""

        AWS = "aws", "AWS call"
        SHELL = "shell", "Shell script"
        TERRAFORM = "terraform", "Terraform"
        HTTP = "http", "HTTP request"
        GIT = "git", "Git fetch"
        DOCKER_REGISTRY = "docker_registry", "Docker registry"
        CHECK = "check", "Connectivity check"
        DOCTOR = "doctor", "Diagnosis"

    class Status(models.TextChoices):
        """Status of a task (REQUIREMENTS 4.3)."""

        QUEUED = "QUEUED", "Queued"
        STARTED = "STARTED", "Running"
        SUCCEEDED = "SUCCEEDED", "Succeeded"
        FAILED = "FAILED", "Failed"
        EXPIRED = "EXPIRED", "Expired"
        ABORTED = "ABORTED", "Aborted"

    OPEN = (Status.QUEUED, Status.STARTED)
    # Kinds that run code written by users.
    RUNS_CODE = (Kind.SHELL, Kind.TERRAFORM)
    # Programs run there with secrets that no other project may read.
    ISOLATED = (*RUNS_CODE, Kind.GIT)
    # Kinds that a configuration may limit; checks and diagnoses are for one delegate that somebody names.
    LIMITABLE = (Kind.AWS, *RUNS_CODE, Kind.HTTP, Kind.GIT, Kind.DOCKER_REGISTRY)

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    kind = models.CharField(max_length=16, choices=Kind)
    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="delegate_tasks")
    title = models.CharField(max_length=255)
    payload = EncryptedTextField(bound_to=["id"])
    owner = models.CharField(max_length=32, blank=True, default="")
    owner_ref = models.CharField(max_length=64, blank=True, default="")
    # The request, execution, step and trace that it belongs to; the agent gets it too.
    trace_context = models.JSONField(default=dict)
    is_write = models.BooleanField(default=False)
    # Whether another delegate may repeat the task after the first is lost.
    repeatable = models.BooleanField(default=True)
    selectors = models.JSONField(default=list)
    selectors_from = models.CharField(max_length=16, blank=True, default="")
    # The URL that the task must reach (R035).
    criterion = models.CharField(max_length=512, blank=True, default="")
    # What the release of the delegate must be able to do.
    features = models.JSONField(default=list, db_default=[])
    aws_account = models.CharField(max_length=12, blank=True, default="")
    environment = models.CharField(max_length=512, blank=True, default="")
    connector = models.ForeignKey(Connector, on_delete=models.SET_NULL, null=True, related_name="+")
    # The delegate that the task helps to replace: it never gets it. Deletion is rare, so there is no index.
    excluded_delegate = models.ForeignKey(
        Delegate, on_delete=models.SET_NULL, null=True, related_name="+", db_index=False
    )
    status = models.CharField(max_length=12, choices=Status, default=Status.QUEUED)
    # Why it waits, or why it ended as it did.
    reason = models.TextField(blank=True, default="")
    offered_to = models.ForeignKey(Delegate, on_delete=models.SET_NULL, null=True, related_name="offers")
    offered_until = models.DateTimeField(null=True)
    instance = models.ForeignKey(DelegateInstance, on_delete=models.SET_NULL, null=True, related_name="tasks")
    # A copy, so that a record outlives the instance.
    instance_name = models.CharField(max_length=400, blank=True, default="")
    fence = models.PositiveIntegerField(default=0)
    attempts = models.PositiveIntegerField(default=0)
    lease_until = models.DateTimeField(null=True)
    timeout_seconds = models.PositiveIntegerField(default=60)
    queued_at = models.DateTimeField()
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    deadline = models.DateTimeField()
    abort_requested = models.BooleanField(default=False)
    result = EncryptedTextField(blank=True, default="")
    error = models.JSONField(null=True)
    next_sequence = models.PositiveBigIntegerField(default=0)
    # The token bucket of its log: bytes that were left when it was counted last; it begins full.
    log_bytes_left = models.BigIntegerField(null=True)
    log_counted_at = models.DateTimeField(null=True)
    log_throttled = models.BooleanField(default=False)

    class Meta:
        indexes = [
            models.Index(
                fields=["offered_to", "queued_at"],
                name="task_offered",
                condition=models.Q(status="QUEUED"),
            ),
            models.Index(fields=["queued_at"], name="task_queued", condition=models.Q(status="QUEUED")),
            models.Index(fields=["lease_until"], name="task_leased", condition=models.Q(status="STARTED")),
            models.Index(fields=["instance"], name="task_running", condition=models.Q(status="STARTED")),
            models.Index(fields=["instance", "-queued_at"], name="task_of_instance"),
            models.Index(fields=["owner", "owner_ref"], name="task_of_owner"),
            # The list, as a whole and of one scope.
            models.Index(fields=["-queued_at", "-id"], name="task_newest"),
            models.Index(fields=["scope", "-queued_at", "-id"], name="task_newest_of_scope"),
            # For retention.
            models.Index(
                fields=["finished_at"], name="task_finished", condition=models.Q(finished_at__isnull=False)
            ),
        ]

    def __str__(self) -> str:
        return self.title

    @property
    def is_open(self) -> bool:
        return self.status in self.OPEN


class TaskAttempt(models.Model):
    """Assignment of a task to an instance under a fence; `answered_at` is the time of the final report.

    `refusal` says why the delegate could not begin the task, which then went to another one.
    """

    task = models.ForeignKey(DelegateTask, on_delete=models.CASCADE, related_name="taken")
    fence = models.PositiveIntegerField()
    instance = models.ForeignKey(DelegateInstance, on_delete=models.SET_NULL, null=True, related_name="+")
    at = models.DateTimeField()
    answered_at = models.DateTimeField(null=True)
    refusal = models.TextField(blank=True, default="", db_default="")
    # The exact operation, such as "ecs:DescribeServices", if the kind alone is not enough.
    variant = models.CharField(max_length=128, blank=True, default="")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "fence"], name="task_attempt_fence_unique")]

    def __str__(self) -> str:
        return f"{self.task_id} under fence {self.fence}"


# Milliseconds since the epoch, in the year 5138: no clock is later.
MAX_LINE_TIME: Final = 10**14


class TaskLogChunk(models.Model):
    """Lines that a task wrote; `sequence` numbers the first, from 0. `lines` is a JSON list."""

    task = models.ForeignKey(DelegateTask, on_delete=models.CASCADE, related_name="log_chunks")
    sequence = models.PositiveBigIntegerField()
    count = models.PositiveIntegerField()
    lines = models.TextField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "sequence"], name="task_log_sequence_unique")]

    def __str__(self) -> str:
        return f"{self.task_id} from {self.sequence}"


class LateAnswer(models.Model):
    """Report under an old fence: stored as evidence, never applied."""

    task = models.ForeignKey(DelegateTask, on_delete=models.CASCADE, related_name="late_answers")
    instance = models.ForeignKey(DelegateInstance, on_delete=models.SET_NULL, null=True, related_name="+")
    fence = models.PositiveIntegerField()
    at = models.DateTimeField()
    body = EncryptedTextField(bound_to=["task_id", "fence"])

    def __str__(self) -> str:
        return f"{self.task_id} under fence {self.fence}"


class RoutingDecision(models.Model):
    """One decision on one task: the best delegates, every rule, its verdict (N07).

    `rows` is a list of {"delegate", "rule", "verdict", "detail", "seconds_left"}. `is_complete` if it has
    the rows of all delegates of that moment.
    """

    SCOPE_PATH: ClassVar[str] = "task__scope"

    task = models.ForeignKey(DelegateTask, on_delete=models.CASCADE, related_name="decisions")
    number = models.PositiveIntegerField()
    at = models.DateTimeField()
    chosen = models.ForeignKey(Delegate, on_delete=models.SET_NULL, null=True, related_name="+")
    sentence = models.TextField(blank=True)
    rows = models.JSONField(default=list)
    is_complete = models.BooleanField(default=True, db_default=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "number"], name="routing_decision_number")]

    def __str__(self) -> str:
        return self.sentence


class AllowlistEntry(models.Model):
    """A delegate reached a criterion's URL not long ago (R034–R036: six hours, renewed on success)."""

    SCOPE_PATH: ClassVar[str] = "delegate__scope"

    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, related_name="allowed")
    criterion = models.CharField(max_length=512)
    validated_at = models.DateTimeField()
    expires_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["delegate", "criterion"], name="allowlist_entry_unique")
        ]
        indexes = [models.Index(fields=["criterion", "expires_at"], name="allowlist_of_criterion")]

    def __str__(self) -> str:
        return f"{self.delegate_id} may reach {self.criterion}"


class BlocklistEntry(models.Model):
    """A delegate lacked the capability for a criterion just now (R037–R038: five minutes)."""

    SCOPE_PATH: ClassVar[str] = "delegate__scope"

    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, related_name="blocked")
    criterion = models.CharField(max_length=512)
    expires_at = models.DateTimeField()
    reason = models.TextField(blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["delegate", "criterion"], name="blocklist_entry_unique")
        ]

    def __str__(self) -> str:
        return f"{self.delegate_id} cannot reach {self.criterion}"


class LastServed(models.Model):
    """The delegate that served a connector last: it is tried first (R044)."""

    connector = models.OneToOneField(Connector, on_delete=models.CASCADE, related_name="+")
    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, related_name="+")
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.connector_id} by {self.delegate_id}"


class LookupRequest(models.Model):
    """Lookup that needs one or more delegate tasks, one after the other.

    `answers` is a JSON list of the responses so far, `report` the result of the finished lookup. Files stay
    in `answers`, which is encrypted.
    """

    class Kind(models.TextChoices):
        """Kind of lookup."""

        TEST = "TEST", "Connector test"
        CLUSTERS = "CLUSTERS", "Clusters"
        BALANCERS = "BALANCERS", "Load balancers"
        LISTENERS = "LISTENERS", "Listeners"
        RULES = "RULES", "Listener rules"
        TAGS = "TAGS", "Image tags"
        DIGESTS = "DIGESTS", "Image digests"
        REPOSITORIES = "REPOSITORIES", "Repositories"
        FILES = "FILES", "Manifest files"
        QUEUE = "QUEUE", "Messages of a queue"
        VPCS = "VPCS", "VPCs"
        SUBNETS = "SUBNETS", "Subnets"
        GROUPS = "GROUPS", "Security groups"
        ROLES = "ROLES", "Roles"
        ACCOUNT = "ACCOUNT", "AWS account"
        STARTS = "STARTS", "Starts of an ECS service"
        TRAFFIC = "TRAFFIC", "Traffic of an ECS service"

    SCOPE_PATH: ClassVar[str] = "connector__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"connector": "connector__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    connector = models.ForeignKey(Connector, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16, choices=Kind)
    region = models.CharField(max_length=64)
    # ARN, image or hash that the lookup is limited to; empty for a whole region.
    subject = models.CharField(max_length=400, blank=True, default="")
    # Parameters that do not fit the subject, which is then their hash.
    params = models.JSONField(default=dict)
    requested_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    requested_at = models.DateTimeField()
    # The current or last delegate task.
    task = models.ForeignKey(DelegateTask, on_delete=models.SET_NULL, null=True, related_name="+")
    answers = EncryptedTextField(blank=True, default="[]")
    answered_by = models.CharField(max_length=400, blank=True, default="")
    report = models.JSONField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["connector", "kind", "-requested_at"], name="inquiry_newest")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.connector} in {self.region}"

    @property
    def topics(self) -> str:
        """Return the topics of a waiting page; the reason for the wait is its task's reason."""
        return f"inquiry:{self.pk}" + (f" delegate-task:{self.task_id}" if self.task_id else "")

    @property
    def reason(self) -> str:
        """Return the reason for an unfinished lookup."""
        if self.finished_at is not None or self.task is None:
            return ""
        return self.task.reason or "A delegate is working on it."
