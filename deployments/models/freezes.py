"""Times in which nothing new is deployed."""

from typing import ClassVar

from django.db import models

from catalog.models.base import ScopedResource, build_identifier_constraint
from catalog.models.environments import Environment


class FreezeWindow(ScopedResource):
    """Time in which no matching run starts; `description` is the reason.

    `begins` and `ends` are local times (2026-12-24T18:00) in `time_zone`: a weekly window starts at the same
    hour in summer and in winter. Empty lists and an empty kind match everything.
    """

    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"deploymentfreeze": "identifier"}

    time_zone = models.CharField(max_length=64, default="UTC")
    begins = models.CharField(max_length=16)
    ends = models.CharField(max_length=16)
    weekly = models.BooleanField(default=False)
    services = models.JSONField(default=list, blank=True)
    environments = models.JSONField(default=list, blank=True)
    environment_kind = models.CharField(max_length=20, choices=Environment.Kind, blank=True, default="")
    enabled = models.BooleanField(default=True)

    class Meta:
        constraints = [build_identifier_constraint("freeze_window")]
