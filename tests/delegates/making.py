"""Makes delegates and what they leave behind, as rows."""

import hashlib
from datetime import datetime, timedelta
from typing import Any

from django.utils import timezone

from connectors.models import Connector
from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    ConfigurationRun,
    Delegate,
    DelegateConfiguration,
    DelegateEvent,
    DelegateInstance,
    DelegateLogChunk,
    DelegateTask,
    DelegateToken,
    InstanceSample,
    LastServed,
    LateAnswer,
    RoutingDecision,
    TaskAttempt,
    TaskLogChunk,
)
from rbac.models import Scope


def make_token(scope: Scope, name: str = "default", value: str = "") -> DelegateToken:
    """An active token; its value can be shown to the manager."""
    value = (
        value or f"{DelegateToken.PREFIX}{hashlib.sha256(f'{scope.path}/{name}'.encode()).hexdigest()[:43]}"
    )
    return DelegateToken.objects.create(
        scope=scope,
        name=name,
        value=value,
        token_hash=hashlib.sha256(value.encode()).hexdigest(),
        prefix=value[:12],
    )


def make_delegate(scope: Scope, name: str = "eu", **values: Any) -> Delegate:
    """A delegate that nobody has heard of yet."""
    values.setdefault("configuration", DelegateConfiguration.objects.get(is_primary=True))
    return Delegate.objects.create(scope=scope, name=name, **values)


def make_instance(
    delegate: Delegate, key: str = "host-1/10.0.0.1", *, heard: datetime | None = None, **values: Any
) -> DelegateInstance:
    """A connected instance, heard just now unless `heard` says when."""
    now = timezone.now()
    hostname, _, private_ip = key.partition("/")
    given = {
        "hostname": hostname,
        "private_ip": private_ip[:64],
        "connection": DelegateInstance.Connection.WEBSOCKET,
        "last_heartbeat_at": heard or now,
        "registered_at": heard or now,
        **values,
    }
    return DelegateInstance.objects.create(delegate=delegate, key=key, **given)


def make_task(scope: Scope, **values: Any) -> DelegateTask:
    """A queued connectivity check that nobody owns."""
    now = timezone.now()
    given = {
        "kind": DelegateTask.Kind.CHECK,
        "title": "Check https://ecs.us-east-1.amazonaws.com",
        "payload": '{"url": "https://ecs.us-east-1.amazonaws.com"}',
        "criterion": "https://ecs.us-east-1.amazonaws.com",
        "queued_at": now,
        "deadline": now + timedelta(minutes=10),
        **values,
    }
    return DelegateTask.objects.create(scope=scope, **given)


def one_of_everything(scope: Scope, connector: Connector, name: str = "eu") -> Delegate:
    """A delegate that has lived: at least one row of every table of delegates."""
    now = timezone.now()
    token = make_token(scope, name)
    configuration = DelegateConfiguration.objects.create(
        scope=scope, identifier=f"tools_{name}", name=f"{name} tools"
    )
    delegate = make_delegate(scope, name, token=token, tags=["eu"], configuration=configuration)
    instance = make_instance(delegate, token=token)
    task = make_task(scope, status="STARTED", instance=instance, fence=1, attempts=1, started_at=now)
    TaskAttempt.objects.create(task=task, fence=1, instance=instance, at=now)
    TaskLogChunk.objects.create(task=task, sequence=0, count=1, lines='[{"t":0,"level":"info","text":"A"}]')
    LateAnswer.objects.create(task=task, instance=instance, fence=0, at=now, body="{}")
    RoutingDecision.objects.create(task=task, number=1, at=now, chosen=delegate, sentence="eu is free.")
    later = {"criterion": task.criterion, "expires_at": now + timedelta(minutes=5)}
    AllowlistEntry.objects.create(delegate=delegate, validated_at=now, **later)
    BlocklistEntry.objects.create(delegate=delegate, reason="No address", **later)
    LastServed.objects.create(connector=connector, delegate=delegate, at=now)
    DelegateEvent.objects.create(
        scope=scope, delegate=delegate, instance=instance, name=name, at=now, kind="CONNECTED", text="Hello"
    )
    DelegateLogChunk.objects.create(instance=instance, sequence=1, count=1, text="A line")
    InstanceSample.objects.create(
        instance=instance, at=now, cpu_process=1, cpu_system=2, memory_mib=50, running=0
    )
    ConfigurationRun.objects.create(
        configuration=configuration,
        instance=instance,
        started_at=now,
        duration_ms=12,
        exit_code=0,
        output="ready",
    )
    return delegate
