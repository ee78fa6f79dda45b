"""How the API writes and reads delegates, their instances, events and logs."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from rest_framework import serializers

from delegates.connectivity import Connectivity
from delegates.models import Delegate, DelegateEvent, DelegateInstance
from delegates.queries.delegates import (
    DelegateFacts,
    InstanceFacts,
    facts,
    instance_facts,
    last_ends,
    running_on,
)
from guards.limits import DELEGATE_TAGS, DESCRIPTION_CHARACTERS, NAME_CHARACTERS

STATUSES = [(one.value, one.value) for one in Connectivity]


class DelegateInstanceDocument(serializers.Serializer[Any]):
    """One running process of a delegate; CPU in percent, `running` tasks of `capacity`.

    `is_bound`: only the holder of its key pair can register as this instance while it lives.
    """

    id = serializers.IntegerField(source="instance.pk")
    key = serializers.CharField(source="instance.key")
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
        help_text="What keeps its tasks apart; empty of an agent that does not say.",
    )
    script_scope = serializers.CharField(
        source="instance.script_scope",
        help_text="Of an instance without isolation: the project whose scripts it has run.",
    )


class DelegateDocument(serializers.Serializer[Any]):
    """A delegate: `tags` are all that selectors can name, `own_tags` those that people set."""

    id = serializers.IntegerField(source="delegate.pk")
    name = serializers.CharField(source="delegate.name")
    description = serializers.CharField(source="delegate.description")
    kind = serializers.ChoiceField(choices=Delegate.Kind.choices, source="delegate.kind")
    flavour = serializers.CharField(source="delegate.flavour")
    size = serializers.CharField(source="delegate.size")
    scope = serializers.CharField(source="delegate.scope.path")
    org = serializers.CharField(source="delegate.scope.org")
    project = serializers.CharField(source="delegate.scope.project")
    status = serializers.ChoiceField(choices=STATUSES, source="facts.status")
    reason = serializers.CharField(source="facts.reason")
    admission = serializers.ChoiceField(choices=Delegate.Admission.choices, source="delegate.admission")
    draining = serializers.BooleanField(source="delegate.draining")
    is_built_in = serializers.BooleanField(source="delegate.is_built_in")
    shares_scripts = serializers.BooleanField(
        source="delegate.shares_scripts",
        help_text="Whether instances without isolation may run scripts of several projects.",
    )
    tags = serializers.ListField(child=serializers.CharField(), source="facts.tags")
    own_tags = serializers.ListField(child=serializers.CharField(), source="delegate.tags")
    configuration = serializers.CharField(
        source="delegate.configuration.identifier", default=None, allow_null=True
    )
    last_heartbeat_at = serializers.DateTimeField(source="facts.heard_at", allow_null=True)
    connected_instances = serializers.IntegerField(source="facts.here")
    capacity = serializers.IntegerField(source="facts.capacity")
    running = serializers.IntegerField(source="facts.running")
    instances = DelegateInstanceDocument(many=True)
    created_by = serializers.CharField(source="delegate.created_by.username", default="")
    created_at = serializers.DateTimeField(source="delegate.created_at")
    updated_at = serializers.DateTimeField(source="delegate.updated_at")


class DelegateTags(serializers.Serializer[Any]):
    """The tags that people give a delegate, all of them."""

    tags = serializers.ListField(
        child=serializers.CharField(max_length=int(NAME_CHARACTERS)), max_length=int(DELEGATE_TAGS)
    )


class DelegateChange(serializers.Serializer[Any]):
    """What can be changed of a delegate; `configuration` is the identifier of one at or above it."""

    description = serializers.CharField(
        required=False, allow_blank=True, max_length=int(DESCRIPTION_CHARACTERS)
    )
    tags = serializers.ListField(
        child=serializers.CharField(max_length=int(NAME_CHARACTERS)),
        max_length=int(DELEGATE_TAGS),
        required=False,
    )
    configuration = serializers.CharField(required=False, max_length=int(NAME_CHARACTERS))
    shares_scripts = serializers.BooleanField(required=False)


class DelegateLogDocument(serializers.Serializer[Any]):
    """Lines of an agent's log; `first` is the number of the first one."""

    instance = serializers.IntegerField(allow_null=True)
    first = serializers.IntegerField()
    next = serializers.IntegerField()
    lines = serializers.ListField(child=serializers.CharField(allow_blank=True))


class DelegateEventDocument(serializers.Serializer[Any]):
    """One thing that happened to a delegate."""

    at = serializers.DateTimeField()
    kind = serializers.ChoiceField(choices=DelegateEvent.Kind.choices)
    text = serializers.CharField()
    instance = serializers.IntegerField(source="instance_id", allow_null=True)
    address = serializers.CharField()


@dataclass(frozen=True)
class Shown:
    """What a document is made from."""

    delegate: Delegate
    facts: DelegateFacts
    instances: list[InstanceFacts]


def documents_of(delegates: Iterable[Delegate], now: datetime) -> list[dict[str, Any]]:
    """Delegates that came from `with_instances`, each as its document; one query more for all of them."""
    found = list(delegates)
    running = running_on(instance.pk for one in found for instance in one.instances.all())
    ends = last_ends(found)
    shown = [
        Shown(one, facts(one, running, now, ends.get(one.pk)), instance_facts(one, running, now))
        for one in found
    ]
    return [dict(one) for one in DelegateDocument(shown, many=True).data]
