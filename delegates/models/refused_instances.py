"""Processes that were refused because another live process is the instance that they claim."""

from typing import ClassVar

from django.db import models

from delegates.models.delegates import Delegate
from delegates.models.instances import DelegateInstance, build_key_fingerprint
from rbac.models import Scope


class RefusedInstance(models.Model):
    """One claimant of an instance: it has no session, gets no task, and goes once it is admitted.

    A key pair other than that of the instance identifies the claimant; `process_id` only identifies copies.
    """

    SCOPE_PATH: ClassVar[str] = "delegate__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "delegate__name"}

    class Reason(models.TextChoices):
        """What claimant and instance have in common."""

        HOST = "HOST", "Same host name and address"
        STABLE_ID = "STABLE_ID", "Same id, another key pair"
        COPY = "COPY", "Copy of a home directory"

    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, related_name="refused_instances")
    # The one that is claimed.
    instance = models.ForeignKey(DelegateInstance, on_delete=models.CASCADE, related_name="claimants")
    reason = models.CharField(max_length=12, choices=Reason)
    public_key = models.CharField(max_length=44, blank=True, default="")
    process_id = models.CharField(max_length=32, blank=True, default="")
    hostname = models.CharField(max_length=255, blank=True, default="")
    private_ip = models.CharField(max_length=64, blank=True, default="")
    # Where the request came from.
    address = models.CharField(max_length=64, blank=True, default="")
    version = models.CharField(max_length=64, blank=True, default="")
    attempts = models.PositiveIntegerField(default=1)
    first_seen_at = models.DateTimeField()
    last_seen_at = models.DateTimeField()
    # Time of its last event.
    event_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["instance", "public_key", "process_id"], name="refused_instance_unique"
            )
        ]
        indexes = [models.Index(fields=["last_seen_at"], name="refused_instance_by_age")]

    def __str__(self) -> str:
        return f"{self.delegate.name} on {self.hostname or self.private_ip}, refused"

    @property
    def scope(self) -> Scope:
        return self.delegate.scope

    @property
    def key_fingerprint(self) -> str:
        """Return the fingerprint of its public key; empty without a key pair."""
        return build_key_fingerprint(self.public_key)

    @property
    def next_step(self) -> str:
        """Return what a person does about it."""
        return _NEXT_STEPS[self.Reason(self.reason)]


_NEXT_STEPS = {
    RefusedInstance.Reason.HOST: (
        "Give one of the two another HARNESS_NAME or another host name. If the other one has ended, this one "
        "takes its place within three minutes."
    ),
    RefusedInstance.Reason.STABLE_ID: (
        "Stop this one, delete instance-id in its home directory, and start it again: it becomes an instance "
        "of its own. If the other one has ended, this one takes its place within three minutes."
    ),
    RefusedInstance.Reason.COPY: (
        "Stop this one, delete instance-id and instance-key.pem in its home directory, and start it again: "
        "it becomes an instance of its own."
    ),
}
