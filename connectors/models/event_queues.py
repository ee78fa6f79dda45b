"""Queues that receive the events of AWS."""

from datetime import datetime, timedelta
from typing import ClassVar, Final

from django.db import models

from connectors.models.connectors import Connector
from rbac.models import Scope

# A queue that was not read for longer does not replace polling.
READ_WINDOW: Final = timedelta(seconds=25)


class EventQueue(models.Model):
    """SQS queue to which EventBridge sends the events of one account and region.

    One worker at a time reads it, under a lease.
    """

    class State(models.TextChoices):
        """What comes of the queue at present."""

        WAITING = "WAITING", "Waiting for the first event"
        RECEIVING = "RECEIVING", "Receiving"
        SILENT = "SILENT", "Silent"
        FAILING = "FAILING", "Failing"

    SCOPE_PATH: ClassVar[str] = "connector__scope"
    RESOURCE_TYPE: ClassVar[str] = "eventqueue"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"connector": "connector__identifier"}

    connector = models.ForeignKey(Connector, on_delete=models.CASCADE, related_name="event_queues")
    region = models.CharField(max_length=64)
    queue_url = models.CharField(max_length=400, unique=True)
    # Account of the connector, which the events must name; known after the first read.
    account = models.CharField(max_length=12, blank=True, default="")
    # Why the last read failed; empty if it did not.
    problem = models.TextField(blank=True, default="")
    read_at = models.DateTimeField(null=True)
    last_event_at = models.DateTimeField(null=True)
    # When a read of ECS showed a change that no event had announced; the next event clears it.
    silent_since = models.DateTimeField(null=True)
    lease_owner = models.CharField(max_length=128, blank=True, default="")
    lease_expires_at = models.DateTimeField(null=True)
    created_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["connector", "region"], name="event_queue_unique_in_region"),
        ]

    def __str__(self) -> str:
        return f"{self.connector} in {self.region}"

    @property
    def scope(self) -> Scope:
        return self.connector.scope

    def get_state(self, now: datetime) -> State:
        """Return the state as of now; only a queue that is receiving replaces polling."""
        if self.read_at is None and not self.problem:
            return self.State.WAITING
        if self.problem or self.read_at is None or self.read_at < now - READ_WINDOW:
            return self.State.FAILING
        if self.silent_since is not None:
            return self.State.SILENT
        return self.State.RECEIVING if self.last_event_at else self.State.WAITING

    def get_reason(self, now: datetime) -> str:
        """Return why the queue does not replace polling; empty if it does."""
        state = self.get_state(now)
        if state == self.State.FAILING:
            return self.problem or "No worker has read the queue since its last read."
        if state == self.State.SILENT:
            return "ECS showed a change that no event announced. Check the rules of EventBridge."
        return "" if state == self.State.RECEIVING else "No event has come yet."
