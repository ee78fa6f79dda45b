"""Random delegates with instances, tasks and lists, for comparisons of routing with its plain rules."""

from datetime import datetime, timedelta
from random import Random
from typing import Any

from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    Delegate,
    DelegateConfiguration,
    DelegateInstance,
    DelegateTask,
    RoutingDecision,
    TaskAttempt,
)
from rbac.models import Scope
from tests.fixtures.delegates import make_delegate, make_instance, make_task

ADDRESSES = ("", "https://a.example.com", "https://b.example.com")
ACCOUNTS = ("", "", "111111111111", "222222222222")
TAGS = ("eu", "US", "gpu", "Straße", "Two Words", 'a "quoted" \\ tag')
SELECTORS = (
    [],
    [],
    ["eu"],
    ["us"],
    ["EU", "gpu"],
    ["EU", "eu", "D7"],
    ["strasse"],
    ["two words", "eu"],
    ['A "Quoted" \\ Tag'],
    ["d7"],
    ["nobody"],
    ["eu", "nobody"],
)
ENVIRONMENTS = ("", "account/default/demo/dev", "account/default/demo/prod")


def create_fleet(random: Random, scopes: list[Scope], size: int, now: datetime) -> None:
    """Create delegates of all sorts; most of them could work."""
    configurations = [None, *_create_configurations(scopes[0])]
    for number in range(size):
        delegate = make_delegate(
            random.choice(scopes),
            f"d{number}",
            tags=random.sample(TAGS, random.randint(0, 2)),
            configuration=random.choice(configurations),
            admission=random.choice(["ENABLED"] * 8 + ["DISABLED", "REJECTED", "PENDING_APPROVAL"]),
            draining=random.random() < 0.1,
            archived_at=now if random.random() < 0.05 else None,
            aws_account=random.choice(ACCOUNTS),
            shares_scripts=random.random() < 0.2,
            last_assigned_at=now - timedelta(seconds=random.randint(0, 30)),
        )
        for key in range(random.choice([0, 1, 1, 1, 2, 3])):
            instance = _create_instance(random, delegate, f"host-{key}", now)
            for _ in range(random.choice([0, 0, 0, 1, 2])):
                make_task(delegate.scope, status="STARTED", instance=instance)
        _create_entries(random, delegate, now)


def _create_configurations(scope: Scope) -> list[DelegateConfiguration]:
    limits: list[dict[str, Any]] = [
        {},
        {"environments": [ENVIRONMENTS[1]]},
        {"task_kinds": ["shell"]},
        {"environments": [ENVIRONMENTS[2]], "task_kinds": ["aws", "shell"]},
    ]
    return [
        DelegateConfiguration.objects.create(scope=scope, identifier=f"c{number}", name="C", **values)
        for number, values in enumerate(limits)
    ]


def _create_instance(random: Random, delegate: Delegate, key: str, now: datetime) -> DelegateInstance:
    return make_instance(
        delegate,
        f"{key}/10.0.0.1",
        heartbeat_at=now - timedelta(seconds=random.choice([0, 10, 100, 149, 150, 400])),
        status=random.choice(["REGISTERED"] * 6 + ["DRAINING", "GONE"]),
        suspect_since=now if random.random() < 0.1 else None,
        tags=random.sample(TAGS, random.randint(0, 2)),
        capacity=random.choice([0, 1, 2, 3]),
        isolation=random.choice(["", "none", "users"]),
        script_scope=random.choice(["", "", "account/default/demo", "account/other/elsewhere"]),
        features=random.sample(["doctor", "secret-managers"], random.randint(0, 2)),
    )


def _create_entries(random: Random, delegate: Delegate, now: datetime) -> None:
    for address in ADDRESSES[1:]:
        expires_at = now + timedelta(seconds=random.choice([-10, 100, 200]))
        entry = {"delegate": delegate, "criterion": address, "expires_at": expires_at}
        if random.random() < 0.2:
            AllowlistEntry.objects.create(validated_at=now, **entry)
        elif random.random() < 0.2:
            BlocklistEntry.objects.create(reason="No address", **entry)


def create_task(random: Random, scope: Scope, now: datetime, **values: Any) -> DelegateTask:
    """Create a waiting task of any sort; some were refused, or offered in vain."""
    task = make_task(
        scope,
        kind=random.choice(["aws", "shell", "git", "check"]),
        criterion=random.choice(ADDRESSES),
        selectors=random.choice(SELECTORS),
        aws_account=random.choice(ACCOUNTS),
        environment=random.choice(ENVIRONMENTS),
        features=random.choice([[], [], ["doctor"], ["doctor", "secret-managers"]]),
        queued_at=now,
        **values,
    )
    instances = list(DelegateInstance.objects.order_by("pk"))
    if random.random() < 0.3 and instances:
        instance = random.choice(instances)
        TaskAttempt.objects.create(task=task, fence=1, instance=instance, at=now, refusal="No program")
        DelegateTask.objects.filter(pk=task.pk).update(attempts=1)
    if random.random() < 0.3:
        for number in range(random.randint(1, 3)):
            chosen = random.choice(list(Delegate.objects.order_by("pk")))
            RoutingDecision.objects.create(task=task, number=number, at=now, chosen=chosen)
            lapsed = now - timedelta(seconds=1)
            DelegateTask.objects.filter(pk=task.pk).update(offered_to=chosen, offered_until=lapsed)
    return DelegateTask.objects.select_related("scope").get(pk=task.pk)
