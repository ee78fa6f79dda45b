"""Announced changes: services and tasks that sync has to read because of events of AWS."""

from django.db import models

from inventory.models.instances import SyncedCluster


class AnnouncedChange(models.Model):
    """A service, or one of its tasks, that changed by an event, until sync has read it.

    All events of a service or task share one row.
    """

    cluster = models.ForeignKey(SyncedCluster, on_delete=models.CASCADE, related_name="announced_changes")
    service = models.CharField(max_length=255)
    # ARN of the task; empty for the service itself.
    task = models.CharField(max_length=512, blank=True, default="")
    # Highest version of the task in an event.
    version = models.PositiveBigIntegerField(default=0)
    first_marked_at = models.DateTimeField()
    # Start of the sync that reads it; an event after that start clears it.
    read_from = models.DateTimeField(null=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["cluster", "service", "task"], name="announced_change_once")
        ]

    def __str__(self) -> str:
        return self.task or self.service
