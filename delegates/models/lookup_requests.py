"""Lookup requests: questions to AWS or a site that a delegate answers for a person."""

import uuid
from typing import ClassVar

from django.db import models

from connectors.encryption import EncryptedTextField
from connectors.models import Connector
from delegates.models.tasks import DelegateTask
from rbac.models import User


class LookupRequest(models.Model):
    """Lookup that needs one or more delegate tasks, one after the other.

    `answers` is a JSON list of the responses so far, `report` the result of the finished lookup. Files stay
    in `answers`, which is encrypted.
    """

    class Kind(models.TextChoices):
        """Kind of lookup."""

        TEST = "TEST", "Connector test"
        CLUSTERS = "CLUSTERS", "Clusters"
        BALANCERS = "BALANCERS", "Load balancers"
        LISTENERS = "LISTENERS", "Listeners"
        RULES = "RULES", "Listener rules"
        TAGS = "TAGS", "Image tags"
        REPOSITORIES = "REPOSITORIES", "Repositories"
        FILES = "FILES", "Manifest files"

    SCOPE_PATH: ClassVar[str] = "connector__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"connector": "connector__identifier"}

    id = models.UUIDField(primary_key=True, default=uuid.uuid4, editable=False)
    connector = models.ForeignKey(Connector, on_delete=models.CASCADE, related_name="+")
    kind = models.CharField(max_length=16, choices=Kind)
    region = models.CharField(max_length=64)
    # The ARN of what the question is about, where it is not about the whole region.
    subject = models.CharField(max_length=400, blank=True, default="")
    # What else a question says that does not fit there; the subject is then its hash.
    said = models.JSONField(default=dict)
    asked_by = models.ForeignKey(User, on_delete=models.CASCADE, related_name="+")
    asked_at = models.DateTimeField()
    # The delegate task that is under way, or was the last.
    task = models.ForeignKey(DelegateTask, on_delete=models.SET_NULL, null=True, related_name="+")
    answers = EncryptedTextField(blank=True, default="[]")
    answered_by = models.CharField(max_length=400, blank=True, default="")
    report = models.JSONField(null=True)
    finished_at = models.DateTimeField(null=True)

    class Meta:
        indexes = [models.Index(fields=["connector", "kind", "-asked_at"], name="inquiry_newest")]

    def __str__(self) -> str:
        return f"{self.get_kind_display()} {self.connector} in {self.region}"

    @property
    def topics(self) -> str:
        """Return the topics of a waiting page; the reason for the wait is its task's reason."""
        return f"inquiry:{self.pk}" + (f" delegate-task:{self.task_id}" if self.task_id else "")

    @property
    def reason(self) -> str:
        """Return the reason for an unfinished lookup."""
        if self.finished_at is not None or self.task is None:
            return ""
        return self.task.reason or "A delegate is working on it."
