"""What happened to delegates, as people read it."""

from typing import ClassVar

from django.db import models

from delegates.models.delegate import Delegate
from delegates.models.instance import DelegateInstance
from rbac.models import Scope


class DelegateEvent(models.Model):
    """One thing that happened; a refused registration may belong to no delegate, only to a name."""

    class Kind(models.TextChoices):
        """What sort of thing."""

        REGISTERED = "REGISTERED", "Registered"
        REFUSED = "REFUSED", "Refused"
        CONNECTED = "CONNECTED", "Connected"
        SUSPECT = "SUSPECT", "Socket closed"
        LATE = "LATE", "Late"
        DISCONNECTED = "DISCONNECTED", "Disconnected"
        DRAINING = "DRAINING", "Draining"
        GONE = "GONE", "Gone"
        APPROVED = "APPROVED", "Approved"
        REJECTED = "REJECTED", "Rejected"
        DISABLED = "DISABLED", "Disabled"
        ENABLED = "ENABLED", "Enabled"
        SESSION_ENDED = "SESSION_ENDED", "Session ended"
        CONFIGURATION = "CONFIGURATION", "Configuration"
        BLOCKED = "BLOCKED", "Blocked for a while"
        TASK_LOST = "TASK_LOST", "Task lost"

    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "name"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="delegate_events")
    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, null=True, related_name="events")
    instance = models.ForeignKey(DelegateInstance, on_delete=models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=128)
    at = models.DateTimeField()
    kind = models.CharField(max_length=16, choices=Kind)
    text = models.TextField()
    address = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["delegate", "-at"], name="delegate_event_newest"),
            models.Index(fields=["scope", "name", "-at"], name="delegate_event_by_name"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
