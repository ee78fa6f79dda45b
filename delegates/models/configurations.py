"""Delegate configurations and the runs of their scripts."""

from typing import ClassVar

from django.db import models

from delegates.models.instances import DelegateInstance
from rbac.models import Scope
from rbac.models.scopes import NamedModel, validate_identifier


class DelegateConfiguration(NamedModel):
    """Settings that many delegates share (R055–R059); the account always has a primary one."""

    PRIMARY = "primary"

    RESOURCE_TYPE: ClassVar[str] = "delegateconfiguration"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegateconfiguration": "identifier"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="delegate_configurations")
    identifier = models.CharField(max_length=128, validators=[validate_identifier])
    name = models.CharField(max_length=128)
    script = models.TextField(blank=True, default="")
    timeout_seconds = models.PositiveIntegerField(default=600)
    requires_approval = models.BooleanField(default=False)
    is_primary = models.BooleanField(default=False, editable=False)
    # Paths of environments, such as "account/acme/shop/production"; none means all (R056).
    environments = models.JSONField(default=list, blank=True)
    # Kinds of tasks, such as "aws"; none means all (R033).
    task_kinds = models.JSONField(default=list, blank=True, db_default=[])
    created_at = models.DateTimeField(auto_now_add=True)
    updated_at = models.DateTimeField(auto_now=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["scope", "identifier"], name="delegate_configuration_unique"),
            models.UniqueConstraint(
                fields=["is_primary"],
                name="delegate_configuration_one_primary",
                condition=models.Q(is_primary=True),
            ),
        ]

    def __str__(self) -> str:
        return self.name


class ConfigurationRun(models.Model):
    """Run of a configuration's script by one agent, with its output."""

    SCOPE_PATH: ClassVar[str] = "configuration__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegateconfiguration": "configuration__identifier"}

    configuration = models.ForeignKey(DelegateConfiguration, on_delete=models.CASCADE, related_name="runs")
    instance = models.ForeignKey(
        DelegateInstance, on_delete=models.CASCADE, related_name="configuration_runs"
    )
    started_at = models.DateTimeField()
    duration_ms = models.PositiveIntegerField()
    exit_code = models.IntegerField()
    output = models.TextField(blank=True)

    class Meta:
        indexes = [models.Index(fields=["configuration", "-started_at"], name="configuration_run_newest")]

    def __str__(self) -> str:
        return f"{self.configuration} on {self.instance}: {self.exit_code}"
