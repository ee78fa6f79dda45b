"""The texts that runs were made of, kept so that one which brings an earlier one back deploys the same."""

from typing import ClassVar

from django.db import models

from connectors.encryption import EncryptedTextField
from deployments.models.executions import StageExecution


class KeptText(models.Model):
    """A manifest or a file of a program as runs fetched it; stored once, however many of them use it.

    `name` is made of the text with a key, so that it says nothing of the text to who reads the table.
    """

    name = models.CharField(max_length=64, unique=True)
    text = EncryptedTextField(bound_to=["name"], blank=True)
    bytes = models.PositiveIntegerField()
    # When a run came to use it last: one that nobody uses any more goes a while after.
    used_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["used_at"], name="kept_text_by_age")]

    def __str__(self) -> str:
        return self.name[:12]


class KeptTextUse(models.Model):
    """A stage, or a step of it, was made of a text; the text stays as long as this does."""

    SCOPE_PATH: ClassVar[str] = "stage__execution__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"pipeline": "stage__execution__pipeline__identifier"}

    # The database keeps a text that is used; so what is unused goes by one statement, which looks again.
    text = models.ForeignKey(KeptText, on_delete=models.DO_NOTHING, related_name="uses")
    stage = models.ForeignKey(StageExecution, on_delete=models.CASCADE, related_name="kept_texts")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["stage", "text"], name="kept_text_once_in_stage")]

    def __str__(self) -> str:
        return f"{self.text} in {self.stage}"
