"""Documents of a delegate's instances, and of processes that were refused as one of them."""

from typing import Any

from rest_framework import serializers

from delegates.connectivity import Connectivity
from delegates.models import DelegateInstance, RefusedInstance

STATUSES = [(status.value, status.value) for status in Connectivity]


class DelegateInstanceDocument(serializers.Serializer[Any]):
    """Running process of a delegate; CPU in percent, `running` tasks of `capacity`.

    If `is_bound` is true, only the holder of its key pair can register as this instance during its lifetime.
    """

    id = serializers.IntegerField(source="instance.pk")
    key = serializers.CharField(source="instance.key")
    stable_id = serializers.CharField(
        source="instance.stable_id",
        help_text="Id in its home directory, with which it stays this instance when it moves; may be empty.",
    )
    status = serializers.ChoiceField(choices=STATUSES)
    hostname = serializers.CharField(source="instance.hostname")
    private_ip = serializers.CharField(source="instance.private_ip")
    version = serializers.CharField(source="instance.version")
    flavour = serializers.CharField(source="instance.flavour")
    connection = serializers.ChoiceField(
        choices=DelegateInstance.Connection.choices, source="instance.connection"
    )
    tags = serializers.ListField(child=serializers.CharField(), source="instance.tags")
    ecs = serializers.JSONField(source="instance.ecs")
    is_bound = serializers.BooleanField(source="instance.is_bound")
    key_fingerprint = serializers.CharField(
        source="instance.key_fingerprint", help_text="Fingerprint of its key pair; empty without one."
    )
    token = serializers.CharField(source="instance.token.name", default=None, allow_null=True)
    last_heartbeat_at = serializers.DateTimeField(source="instance.last_heartbeat_at", allow_null=True)
    registered_at = serializers.DateTimeField(source="instance.registered_at")
    capacity = serializers.IntegerField(source="instance.capacity")
    running = serializers.IntegerField()
    cpu_process = serializers.FloatField(source="instance.cpu_process")
    cpu_system = serializers.FloatField(source="instance.cpu_system")
    memory_mib = serializers.FloatField(source="instance.memory_mib")
    clock_skew_seconds = serializers.FloatField(source="instance.clock_skew_seconds")
    isolation = serializers.ChoiceField(
        choices=DelegateInstance.Isolation.choices,
        source="instance.isolation",
        help_text="Task isolation; empty if the agent does not report it.",
    )
    script_scope = serializers.CharField(
        source="instance.script_scope",
        help_text="Project of its scripts, if the instance has no isolation.",
    )


class RefusedInstanceDocument(serializers.Serializer[Any]):
    """Process that was refused because another live process is the instance; it gets no tasks."""

    instance = serializers.IntegerField(source="instance_id", help_text="Instance that it claims to be.")
    reason = serializers.ChoiceField(choices=RefusedInstance.Reason.choices)
    next_step = serializers.CharField(help_text="What a person does about it, as a sentence.")
    key_fingerprint = serializers.CharField(help_text="Fingerprint of its key pair; empty without one.")
    hostname = serializers.CharField()
    private_ip = serializers.CharField()
    address = serializers.CharField(help_text="Address from which it registered.")
    version = serializers.CharField()
    attempts = serializers.IntegerField()
    first_seen_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()
