"""Set-ups of event queues, for which Slipway creates a stack."""

from typing import ClassVar, Final
from urllib.parse import quote
from uuid import uuid4

from django.db import models

from connectors.models.connectors import Connector
from rbac.encrypted_fields import EncryptedTextField
from rbac.models import Scope, User

_CONSOLES: Final = {
    "aws": "console.aws.amazon.com",
    "aws-cn": "console.amazonaws.cn",
    "aws-us-gov": "console.amazonaws-us-gov.com",
}


class EventQueueSetup(models.Model):
    """A stack that Slipway creates, and from whose queue an event queue comes.

    The row exists before the stack, and remains after its end: its token in a tag of the stack proves that
    Slipway created the stack for this connector.
    """

    class Status(models.TextChoices):
        """State of a set-up."""

        RUNNING = "RUNNING", "In progress"
        SUCCEEDED = "SUCCEEDED", "Complete"
        FAILED = "FAILED", "Failed"
        STOPPED = "STOPPED", "Stopped"

    SCOPE_PATH: ClassVar[str] = "connector__scope"
    RESOURCE_TYPE: ClassVar[str] = "eventqueuesetup"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"connector": "connector__identifier"}

    connector = models.ForeignKey(Connector, on_delete=models.CASCADE, related_name="event_queue_setups")
    region = models.CharField(max_length=64)
    stack_name = models.CharField(max_length=128)
    # ClientRequestToken of CreateStack, and value of the tag.
    token = models.UUIDField(default=uuid4, unique=True, editable=False)
    # Account of the connector in the first pass; another one ends the set-up.
    account = models.CharField(max_length=12, blank=True, default="")
    # ARN of the stack, once it is known to be of Slipway.
    stack_id = models.CharField(max_length=400, blank=True, default="")
    status = models.CharField(max_length=16, choices=Status, default=Status.RUNNING)
    # Progress of a set-up that runs, or the reason and the next step of one that failed or was stopped.
    message = models.TextField(blank=True, default="")
    # The set-up has the rights of this user.
    started_by = models.ForeignKey(User, on_delete=models.SET_NULL, null=True, related_name="+")
    started_at = models.DateTimeField()
    # Of a pass through delegates: the task that it waits for, the one before, and its answers so far in JSON.
    call_task = models.CharField(max_length=36, blank=True, db_default="", default="")
    last_task = models.CharField(max_length=36, blank=True, db_default="", default="")
    answers = EncryptedTextField(blank=True, db_default="", default="")
    # When a worker looks at it next; of two workers, the one that moves this time on has the pass.
    due_at = models.DateTimeField()
    ended_at = models.DateTimeField(null=True)
    # When a user hid a set-up that failed or was stopped from the page of the connector.
    dismissed_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["connector", "region"],
                name="event_queue_setup_one_runs",
                condition=models.Q(status="RUNNING"),
            ),
            models.CheckConstraint(
                condition=models.Q(status="RUNNING", ended_at__isnull=True)
                | ~models.Q(status="RUNNING") & models.Q(ended_at__isnull=False),
                name="event_queue_setup_end_has_time",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.stack_name} of {self.connector} in {self.region}"

    @property
    def scope(self) -> Scope:
        return self.connector.scope

    @property
    def is_running(self) -> bool:
        return self.status == self.Status.RUNNING

    @property
    def console_url(self) -> str:
        """Return the address of the stack in the console of AWS; empty before there is a stack."""
        partition = self.stack_id.split(":")[1] if self.stack_id.count(":") >= 5 else ""
        console = _CONSOLES.get(partition)
        if not console or self.connector.spec.get("endpoint_url"):
            return ""
        stack = quote(self.stack_id, safe="")
        region = quote(self.region, safe="")
        return f"https://{region}.{console}/cloudformation/home?region={region}#/stacks/stackinfo?stackId={stack}"
