"""Web and worker processes with their last sign of life."""

from django.db import models


class ServerProcess(models.Model):
    """A running web server or Celery worker, which writes `seen_at` every few seconds.

    A process that ends in order deletes its row; one that was killed or hangs leaves it.
    """

    class Role(models.TextChoices):
        WEB = "WEB", "web"
        WORKER = "WORKER", "worker"

    role = models.CharField(max_length=8, choices=Role.choices)
    hostname = models.CharField(max_length=255)
    pid = models.PositiveIntegerField()
    version = models.CharField(max_length=64)
    started_at = models.DateTimeField()
    seen_at = models.DateTimeField(db_index=True)

    def __str__(self) -> str:
        return f"{self.get_role_display()} process {self.pid} on {self.hostname}"
