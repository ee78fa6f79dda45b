"""What routing knows and decides: allow and block lists, who served last, why this delegate."""

from typing import ClassVar

from django.db import models

from connectors.models import Connector
from delegates.models.delegate import Delegate
from delegates.models.task import DelegateTask


class RoutingDecision(models.Model):
    """One decision on one task: every delegate, every rule, its verdict (N07).

    `rows` is a list of {"delegate", "rule", "verdict", "detail", "seconds_left"}.
    """

    SCOPE_PATH: ClassVar[str] = "task__scope"

    task = models.ForeignKey(DelegateTask, on_delete=models.CASCADE, related_name="decisions")
    number = models.PositiveIntegerField()
    at = models.DateTimeField()
    chosen = models.ForeignKey(Delegate, on_delete=models.SET_NULL, null=True, related_name="+")
    sentence = models.TextField(blank=True)
    rows = models.JSONField(default=list)

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
