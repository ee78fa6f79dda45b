"""Input sets: named values for the inputs of a pipeline."""

from typing import ClassVar

from django.db import models

from catalog.models.base import identifier_validator
from pipelines.models.pipelines import Pipeline
from rbac.models import Scope


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
