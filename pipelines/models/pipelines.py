"""Pipelines and their versions, stored as YAML."""

from typing import ClassVar

from django.conf import settings
from django.db import models
from django.db.models import Q, QuerySet

from catalog.models.base import ScopedResource, identifier_validator
from rbac.models import Scope


class ActivePipelineManager(models.Manager["Pipeline"]):
    """Manager of pipelines that are not deleted."""

    def get_queryset(self) -> QuerySet["Pipeline"]:
        return super().get_queryset().filter(deleted_at=None)


class Pipeline(ScopedResource):
    """A pipeline: stages and steps as YAML.

    A deleted pipeline with runs stays as a row for its executions.
    """

    RESOURCE_TYPE: ClassVar[str] = "pipeline"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "identifier"}

    yaml = models.TextField()
    next_number = models.PositiveIntegerField(default=1)
    deleted_at = models.DateTimeField(null=True, blank=True, editable=False)

    objects: ClassVar[ActivePipelineManager] = ActivePipelineManager()
    with_deleted: ClassVar[models.Manager["Pipeline"]] = models.Manager()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["scope", "identifier"],
                name="pipeline_identifier_unique_in_scope",
                condition=Q(deleted_at=None),
            )
        ]


class PipelineVersion(models.Model):
    """The YAML of a saved pipeline; `number` is its version."""

    SCOPE_PATH = "pipeline__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "pipeline__identifier"}

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="versions")
    number = models.PositiveIntegerField()
    yaml = models.TextField()
    saved_by = models.ForeignKey(
        settings.AUTH_USER_MODEL, null=True, on_delete=models.SET_NULL, related_name="+"
    )
    saved_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pipeline", "number"], name="pipeline_version_number_unique")
        ]

    def __str__(self) -> str:
        return f"{self.pipeline} version {self.number}"

    @property
    def scope(self) -> Scope:
        return self.pipeline.scope


class InputSet(models.Model):
    """Values for inputs of a pipeline; never those of secrets."""

    SCOPE_PATH = "pipeline__scope"
    RESOURCE_TYPE: ClassVar[str] = "inputset"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {
        "inputset": "identifier",
        "pipeline": "pipeline__identifier",
    }

    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="input_sets")
    identifier = models.CharField(max_length=128, validators=[identifier_validator])
    name = models.CharField(max_length=128)
    description = models.TextField(blank=True, default="")
    inputs = models.JSONField(default=dict)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)
    version = models.PositiveIntegerField(default=1)
    # How many runs it has filled in, and when the newest of them began.
    runs = models.PositiveIntegerField(default=0)
    last_run_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["pipeline", "identifier"], name="input_set_identifier_unique")
        ]

    def __str__(self) -> str:
        return f"{self.pipeline}/{self.identifier}"

    @property
    def scope(self) -> Scope:
        return self.pipeline.scope
