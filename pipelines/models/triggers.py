"""Triggers, which start runs of a pipeline, their watches and their firings."""

import uuid
from typing import ClassVar

from django.db import models
from django.db.models import Q

from catalog.models.base import IDENTIFIER_PATTERN, identifier_validator
from delegates.models import LookupRequest
from pipelines.models.pipelines import Pipeline
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope, ServiceAccount, User


class Trigger(models.Model):
    """A trigger: events of one kind that start runs of a pipeline, with the rights of a service account.

    `key` is its public address. `tag` and `inputs` are texts with expressions over `<+trigger.…>`, and
    `conditions` a list of conditions that all have to hold.
    """

    SCOPE_PATH: ClassVar[str] = "pipeline__scope"
    RESOURCE_TYPE: ClassVar[str] = "trigger"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "pipeline__identifier"}

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="triggers")
    key = models.UUIDField(unique=True, default=uuid.uuid4, editable=False)
    identifier = models.CharField(max_length=128, validators=[identifier_validator])
    name = models.CharField(max_length=128)
    # One of the registered kinds, which are plug-ins: no choices.
    kind = models.CharField(max_length=32)
    spec = models.JSONField(default=dict)
    secret = EncryptedTextField(bound_to=["key"], blank=True, default="")
    tag = models.TextField(blank=True, default="")
    inputs = models.JSONField(default=dict)
    conditions = models.JSONField(default=list)
    # Without one, as after its deletion, every event is refused.
    service_account = models.ForeignKey(
        ServiceAccount, null=True, on_delete=models.SET_NULL, related_name="triggers"
    )
    is_enabled = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)
    # When its kind looks for events next; None for kinds that are told about them, and while it is disabled.
    due_at = models.DateTimeField(null=True, editable=False)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pipeline", "identifier"], name="trigger_identifier_unique"),
            models.CheckConstraint(
                condition=Q(identifier__regex=IDENTIFIER_PATTERN), name="trigger_identifier_is_valid"
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="trigger_due", condition=Q(due_at__isnull=False)),
            models.Index(fields=["kind"], name="trigger_kind"),
        ]

    def __str__(self) -> str:
        return f"{self.pipeline}/{self.identifier}"

    @property
    def scope(self) -> Scope:
        return self.pipeline.scope


class TriggerWatch(models.Model):
    """A place outside that a trigger looks at by itself, such as an image repository.

    `settings` are those that its findings depend on: with other ones, it begins anew. `state` is what was
    found last, and empty before the first look.
    """

    class Kind(models.TextChoices):
        """Kind of place."""

        REPOSITORY = "REPOSITORY", "Image repository"
        QUEUE = "QUEUE", "SQS queue"

    SCOPE_PATH: ClassVar[str] = "trigger__pipeline__scope"
    RESOURCE_TYPE: ClassVar[str] = "triggerwatch"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "trigger__pipeline__identifier"}

    trigger = models.ForeignKey(Trigger, on_delete=models.CASCADE, related_name="watches")
    kind = models.CharField(max_length=16, choices=Kind)
    subject = models.CharField(max_length=512)
    settings = models.JSONField(default=dict)
    interval_seconds = models.PositiveIntegerField()
    state = models.JSONField(default=dict)
    # When it is looked at next; a worker that looks has moved it on.
    due_at = models.DateTimeField()
    looked_at = models.DateTimeField(null=True)
    # Why the last look failed, "" if it did not.
    problem = models.TextField(blank=True, default="")
    # What a delegate is reading at present.
    lookup = models.ForeignKey(LookupRequest, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["trigger", "kind", "subject"], name="trigger_watch_unique"),
            models.CheckConstraint(condition=Q(interval_seconds__gt=0), name="trigger_watch_has_interval"),
        ]
        indexes = [models.Index(fields=["due_at"], name="trigger_watch_due")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.subject}"

    @property
    def scope(self) -> Scope:
        return self.trigger.scope


class TriggerFiring(models.Model):
    """An event that reached a trigger, written before it is answered, and what came of it.

    Both keys are unique for each trigger, so that two deliveries of one event start one run.
    """

    class Status(models.TextChoices):
        """What came of an event."""

        WAITING = "WAITING", "Waiting"
        STARTED = "STARTED", "Run started"
        IGNORED = "IGNORED", "Ignored"
        REFUSED = "REFUSED", "Refused"

    SCOPE_PATH: ClassVar[str] = "trigger__pipeline__scope"
    RESOURCE_TYPE: ClassVar[str] = "triggerfiring"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "trigger__pipeline__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    trigger = models.ForeignKey(Trigger, on_delete=models.CASCADE, related_name="firings")
    # As the sender numbers its deliveries, and what all deliveries of one event have in common.
    delivery_id = models.CharField(max_length=128)
    event_key = models.CharField(max_length=255)
    received_at = models.DateTimeField()
    summary = models.CharField(max_length=255)
    # Values of the kind below <+trigger.…>, and the masked body; emptied by retention.
    values = models.JSONField(default=dict)
    payload = models.JSONField(default=dict)
    redelivered_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    reason = models.TextField(blank=True, default="")
    # Checks, tag and inputs, as `pipelines.triggers.decisions` came to them.
    decision = models.JSONField(default=dict)
    # Executions are above pipelines, and may be pruned.
    execution_id = models.UUIDField(null=True, unique=True)
    execution_number = models.PositiveIntegerField(null=True)
    ended_at = models.DateTimeField(null=True)
    # Until then, another worker has claimed it.
    due_at = models.DateTimeField(null=True)
    attempts = models.PositiveIntegerField(default=0)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["trigger", "delivery_id"], name="trigger_firing_delivery_unique"),
            models.UniqueConstraint(fields=["trigger", "event_key"], name="trigger_firing_event_unique"),
            models.CheckConstraint(
                condition=Q(status="WAITING", due_at__isnull=False) | ~Q(status="WAITING"),
                name="trigger_firing_waiting_has_due_at",
            ),
            models.CheckConstraint(
                condition=Q(status="STARTED", execution_id__isnull=False)
                | (~Q(status="STARTED") & Q(execution_id__isnull=True)),
                name="trigger_firing_started_has_execution",
            ),
        ]
        indexes = [
            models.Index(fields=["due_at"], name="trigger_firing_due", condition=Q(status="WAITING")),
            models.Index(fields=["trigger", "-received_at", "-id"], name="trigger_firing_newest"),
            models.Index(fields=["received_at"], name="trigger_firing_oldest"),
        ]

    def __str__(self) -> str:
        return f"{self.trigger} at {self.received_at:%Y-%m-%d %H:%M:%S}"

    @property
    def scope(self) -> Scope:
        return self.trigger.scope
