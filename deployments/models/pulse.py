"""When the parts that run in the background were last seen alive."""

from django.db import models


class Pulse(models.Model):
    """The last sign of life of one background part, such as the dispatcher."""

    name = models.CharField(max_length=64, unique=True)
    at = models.DateTimeField()

    def __str__(self) -> str:
        return f"{self.name} at {self.at:%H:%M:%S}"
