"""Policy rules."""

from typing import ClassVar

from django.db import models
from django.db.models import Q

from guards.limits import POLICY_CONDITION_CHARACTERS, POLICY_MESSAGE_CHARACTERS
from rbac.models import Scope
from rbac.models.scopes import IDENTIFIER_PATTERN, validate_identifier


class PolicyRule(models.Model):
    """Condition that pipelines, manifests or runs of a scope and the scopes below it have to meet."""

    class Subject(models.TextChoices):
        """Kind of document that a rule is evaluated on."""

        PIPELINE = "Pipeline", "Pipeline"
        MANIFEST = "Manifest", "Manifest"
        RUN = "Run", "Run"

    class Effect(models.TextChoices):
        """Effect of a rule that is not met."""

        WARN = "WARN", "Warn"
        REFUSE = "REFUSE", "Refuse"

    RESOURCE_TYPE: ClassVar[str] = "policyrule"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"policyrule": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="policy_rules")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    subject = models.CharField(max_length=16, choices=Subject)
    # CEL expression over the document of the subject; true means that the rule is met.
    condition = models.CharField(max_length=int(POLICY_CONDITION_CHARACTERS))
    message = models.CharField(max_length=int(POLICY_MESSAGE_CHARACTERS))
    effect = models.CharField(max_length=16, choices=Effect, default=Effect.WARN)
    is_enabled = models.BooleanField(default=True)
    version = models.PositiveIntegerField(default=1)
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="policy_rule_unique_in_scope"),
            models.CheckConstraint(
                condition=Q(identifier__regex=IDENTIFIER_PATTERN), name="policy_rule_identifier_is_valid"
            ),
        ]
        indexes = [
            # Read at the start of each run, and on each save.
            models.Index(
                fields=["scope", "subject"], name="policy_rule_enabled", condition=Q(is_enabled=True)
            ),
        ]

    def __str__(self) -> str:
        return self.identifier
