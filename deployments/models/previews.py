"""Previews that wait for delegates: the calls and AWS's responses so far."""

import uuid
from typing import Any, ClassVar, Final

from django.conf import settings
from django.db import models

from delegates.models import DelegateTask
from pipelines.models.pipelines import Pipeline
from rbac.encrypted_fields import EncryptedTextField

# Key among the inputs of a request for its option; no input can have this name.
FORCE_KEY: Final = "force new deployment"


class PreviewRequest(models.Model):
    """Preview of a pipeline with connectors through delegates, read call by call.

    `answers` is a JSON list of {"asked", "result", "error"}, in the order of the calls. `asked` is a call
    with its parameters, so that responses cannot be mixed up. The row is kept for minutes.
    """

    SCOPE_PATH = "pipeline__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "pipeline__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    pipeline = models.ForeignKey(Pipeline, on_delete=models.CASCADE, related_name="+")
    version = models.PositiveIntegerField()
    tag = models.CharField(max_length=128, blank=True, default="")
    inputs = models.JSONField(default=dict)
    # Whether the cluster is read after the preview, to fill the sandbox of a rehearsal.
    reads_cluster = models.BooleanField(default=False, db_default=False)
    requested_by = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    requested_at = models.DateTimeField()
    answers = EncryptedTextField(blank=True, default="[]")
    # The delegate task under way; none while no answer is missing.
    task = models.ForeignKey(DelegateTask, on_delete=models.SET_NULL, null=True, related_name="+")
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["pipeline", "requested_by", "-requested_at"], name="preview_newest")]

    def __str__(self) -> str:
        return f"preview of {self.pipeline}"

    @property
    def variables(self) -> dict[str, Any]:
        """Return the inputs of the pipeline."""
        return {name: value for name, value in self.inputs.items() if name != FORCE_KEY}

    @property
    def force_new_deployment(self) -> bool | None:
        """Return whether tasks are replaced without differences; None leaves it to the step."""
        value: bool | None = self.inputs.get(FORCE_KEY)
        return value

    @property
    def topics(self) -> str:
        """Return the topics of a waiting page; the reason for the wait is its task's reason."""
        return f"preview:{self.pk}" + (f" delegate-task:{self.task_id}" if self.task_id else "")

    @property
    def reason(self) -> str:
        """Return the reason for the wait."""
        return (self.task.reason if self.task else "") or "A delegate is at it."
