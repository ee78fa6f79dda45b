"""Delegate instances with load samples, agent logs and delegate events."""

import hashlib
from collections.abc import Iterable
from typing import Any, ClassVar

from django.db import models, transaction

from delegates.models.delegates import Delegate, DelegateToken
from delegates.models.tags import includes_any, write_tags
from rbac.models import Scope


def build_key_fingerprint(public_key: str) -> str:
    """Return 16 hexadecimal digits that tell apart the key pairs of agents; empty without a key."""
    return hashlib.sha256(public_key.encode()).hexdigest()[:16] if public_key else ""


class DelegateInstance(models.Model):
    """One process of a delegate; `key` is its ECS task, its pod, or its hostname and private IP (R024, T05).

    With a stable id, which the agent keeps in its home directory, the key may change (R026).
    """

    SCOPE_PATH: ClassVar[str] = "delegate__scope"
    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "delegate__name"}

    class Status(models.TextChoices):
        """Status that the instance reported last."""

        REGISTERED = "REGISTERED", "Registered"
        DRAINING = "DRAINING", "Draining"
        GONE = "GONE", "Gone"

    class Connection(models.TextChoices):
        """Transport of task notices."""

        WEBSOCKET = "WEBSOCKET", "WebSocket"
        POLLING = "POLLING", "Polling"
        NONE = "NONE", "None"

    class Isolation(models.TextChoices):
        """Isolation level that the agent reports; older agents report none."""

        USERS_AND_NAMESPACES = "users_and_namespaces", "Own user and namespaces for each task"
        USERS = "users", "Own user for each task"
        NAMESPACES = "namespaces", "Own namespaces for each task"
        NONE = "none", "None"
        UNKNOWN = "", "Not reported"

    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, related_name="instances")
    key = models.CharField(max_length=512)
    # Ed25519, 32 bytes as base64; empty for agents without a key, whose instances are not bound.
    public_key = models.CharField(max_length=44, blank=True, default="")
    # 32 hexadecimal digits; empty without a kept home directory, and for older agents.
    stable_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    # Of the process with the session, and of the one before; a process never registers in two rows.
    process_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    former_process_id = models.CharField(max_length=32, blank=True, default="", db_default="")
    hostname = models.CharField(max_length=255, blank=True, default="")
    private_ip = models.CharField(max_length=64, blank=True, default="")
    version = models.CharField(max_length=64, blank=True, default="")
    flavour = models.CharField(max_length=8, blank=True, default="")
    tags = models.JSONField(default=list, blank=True)
    capacity = models.PositiveIntegerField(default=10)
    connection = models.CharField(max_length=12, choices=Connection, default=Connection.NONE)
    status = models.CharField(max_length=12, choices=Status, default=Status.REGISTERED)
    session_hash = models.CharField(max_length=64, blank=True, default="", db_index=True)
    # Good for a moment after a new one was given: calls with it may be under way.
    previous_session_hash = models.CharField(max_length=64, blank=True, default="")
    session_expires_at = models.DateTimeField(null=True)
    token = models.ForeignKey(
        DelegateToken, on_delete=models.SET_NULL, null=True, blank=True, related_name="instances"
    )
    # Its socket closed: no new tasks until it is connected again.
    suspect_since = models.DateTimeField(null=True)
    last_heartbeat_at = models.DateTimeField(null=True)
    registered_at = models.DateTimeField()
    running = models.PositiveIntegerField(default=0)
    max_executing = models.PositiveIntegerField(default=0)
    cpu_process = models.FloatField(default=0)
    cpu_system = models.FloatField(default=0)
    memory_mib = models.FloatField(default=0)
    ecs = models.JSONField(default=dict, blank=True)
    clock_skew_seconds = models.FloatField(default=0)
    # What its release can do beyond the first one, see `delegates.agent.FEATURES`.
    features = models.JSONField(default=list, db_default=[])
    isolation = models.CharField(max_length=24, choices=Isolation, blank=True, default=Isolation.UNKNOWN)
    # For an instance without isolation: the path of the project of its scripts.
    script_scope = models.CharField(max_length=400, blank=True, default="")

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["delegate", "key"], name="delegate_instance_key_unique"),
            models.UniqueConstraint(
                fields=["delegate", "stable_id"],
                condition=models.Q(stable_id__gt=""),
                name="delegate_instance_stable_id_unique",
            ),
        ]

    def __str__(self) -> str:
        return f"{self.delegate.name} on {self.hostname or self.key}"

    def save(self, *args: Any, **options: Any) -> None:
        """Save the instance, and its tags as rows for routing."""
        if not includes_any(self, {"tags"}, options.get("update_fields")):
            super().save(*args, **options)
            return
        with transaction.atomic(savepoint=False):
            super().save(*args, **options)
            write_tags(self.delegate, self)

    @property
    def scope(self) -> Scope:
        return self.delegate.scope

    @property
    def is_bound(self) -> bool:
        """Return whether only the holder of a key pair can register as this instance while it lives."""
        return bool(self.public_key)

    @property
    def key_fingerprint(self) -> str:
        """Return the fingerprint of its public key; empty without a key pair."""
        return build_key_fingerprint(self.public_key)

    def has_features(self, features: Iterable[str]) -> bool:
        """Return whether its release can do all of these; the built-in delegate is of this release."""
        return self.delegate.is_built_in or set(features) <= set(self.features)

    @property
    def is_isolated(self) -> bool:
        """Return whether tasks of the instance are isolated from each other."""
        return self.isolation not in (self.Isolation.NONE, self.Isolation.UNKNOWN)


class InstanceSample(models.Model):
    """Resource usage of an instance at one moment, for the charts of a day."""

    instance = models.ForeignKey(DelegateInstance, on_delete=models.CASCADE, related_name="samples")
    at = models.DateTimeField()
    cpu_process = models.FloatField()
    cpu_system = models.FloatField()
    memory_mib = models.FloatField()
    running = models.PositiveIntegerField()

    class Meta:
        indexes = [
            models.Index(fields=["instance", "at"], name="instance_sample_by_time"),
            models.Index(fields=["at"], name="instance_sample_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.instance_id} at {self.at:%H:%M:%S}"


class DelegateLogChunk(models.Model):
    """Lines of an instance's own log, numbered from 1 for each of its sessions' files."""

    instance = models.ForeignKey(DelegateInstance, on_delete=models.CASCADE, related_name="log_chunks")
    sequence = models.PositiveBigIntegerField()
    count = models.PositiveIntegerField()
    text = models.TextField()
    at = models.DateTimeField(auto_now_add=True)

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["instance", "sequence"], name="delegate_log_sequence_unique")
        ]
        indexes = [models.Index(fields=["at"], name="delegate_log_by_age")]

    def __str__(self) -> str:
        return f"{self.instance_id} from {self.sequence}"


class DelegateEvent(models.Model):
    """One thing that happened; a refused registration may belong to no delegate, only to a name."""

    class Kind(models.TextChoices):
        """Kind of an event."""

        REGISTERED = "REGISTERED", "Registered"
        REFUSED = "REFUSED", "Refused"
        CONNECTED = "CONNECTED", "Connected"
        SUSPECT = "SUSPECT", "Socket closed"
        LATE = "LATE", "Late"
        DISCONNECTED = "DISCONNECTED", "Disconnected"
        DRAINING = "DRAINING", "Draining"
        GONE = "GONE", "Gone"
        APPROVED = "APPROVED", "Approved"
        REJECTED = "REJECTED", "Rejected"
        DISABLED = "DISABLED", "Disabled"
        ENABLED = "ENABLED", "Enabled"
        SESSION_ENDED = "SESSION_ENDED", "Session ended"
        CONFIGURATION = "CONFIGURATION", "Configuration"
        BLOCKED = "BLOCKED", "Temporarily blocked"
        TASK_LOST = "TASK_LOST", "Task lost"

    RESOURCE_PATHS: ClassVar[dict[str, str]] = {"delegate": "name"}

    scope = models.ForeignKey(Scope, on_delete=models.PROTECT, related_name="delegate_events")
    delegate = models.ForeignKey(Delegate, on_delete=models.CASCADE, null=True, related_name="events")
    instance = models.ForeignKey(DelegateInstance, on_delete=models.SET_NULL, null=True, related_name="+")
    name = models.CharField(max_length=128)
    at = models.DateTimeField()
    kind = models.CharField(max_length=16, choices=Kind)
    text = models.TextField()
    address = models.CharField(max_length=64, blank=True, default="")

    class Meta:
        indexes = [
            models.Index(fields=["delegate", "-at"], name="delegate_event_newest"),
            models.Index(fields=["scope", "name", "-at"], name="delegate_event_by_name"),
            models.Index(fields=["at"], name="delegate_event_by_age"),
        ]

    def __str__(self) -> str:
        return f"{self.name}: {self.text}"
