"""Makes many of everything: each row of a small world copied, so that a list has something to list."""

import uuid
from collections.abc import Iterator
from typing import Any

from django.apps import apps
from django.db import models
from django.utils import timezone

from catalog.models import ServiceOverride
from delegates.models import AccountId
from deployments import log
from deployments.models import (
    AppliedConfiguration,
    ApprovalDecision,
    AwsCall,
    AwsEvent,
    Interrupt,
    PreviewRequest,
    Pulse,
    RollbackCheck,
    RollbackValue,
    ServiceLock,
    ServiceLockClaim,
    StageExecution,
    StepExecution,
    StepGroup,
    StoredPlan,
    StoredText,
    StoredTextUse,
)
from notifications.models import OutboxLease
from rbac.models import User, UserGroup
from tests.api.world import World
from tests.routes import newest

OURS = (
    "rbac",
    "connectors",
    "notifications",
    "delegates",
    "catalog",
    "pipelines",
    "deployments",
    "inventory",
    "ops",
)
# Above every number that a test asks for, as of a version that does not exist.
UNUSED = 1000
# Tables with one row, whatever happens.
SINGLE = (AccountId, OutboxLease)


def tables() -> list[type[models.Model]]:
    """Every table of ours, what is pointed at before what points at it."""
    waiting = [model for name in OURS for model in apps.get_app_config(name).get_models()]
    found: list[type[models.Model]] = []
    while waiting:
        ready = [model for model in waiting if not set(_parents(model)) & set(waiting) - {model}]
        found += ready
        waiting = [model for model in waiting if model not in ready]
    return found


def complete(world: World) -> None:
    """Add one of what running an execution would have left behind, and of what else a world lacks."""
    stage = StageExecution.objects.get(execution=world.execution)
    step = StepExecution.objects.filter(stage=stage).first()
    assert step is not None
    action, now, execution = step.actions.first(), timezone.now(), world.execution
    line = log.NewLogLine(at=now, step_id=step.pk, step="deploy", unit="Deploy", level="info", text="A line")
    log.store_lines(execution.pk, [line])
    AwsCall.objects.create(
        execution=execution,
        step=step,
        action=action,
        attempt=1,
        phase="start",
        number=1,
        service="ecs",
        operation="DescribeServices",
        is_write=False,
        params_hash="",
        parameters="{}",
        planned_at=now,
    )
    ApprovalDecision.objects.create(
        approval=world.approval, by=world.member, by_name="somebody", verdict="APPROVE", diff="d", at=now
    )
    RollbackCheck.objects.create(step=step, position=1, subject="Service", expected="a", found="a", ok=True)
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.ABORT, taken_at=now)
    StepGroup.objects.create(stage=stage, position=0, kind=StepGroup.Kind.PARALLEL)
    ServiceLock.objects.create(key="a", stage=stage, taken_at=now)
    ServiceLockClaim.objects.create(stage=stage, step=step, key="a", ecs_service="a", wanted_at=now)
    used = {"identifier": "network", "used": "{}"}
    AppliedConfiguration.objects.create(
        scope=world.scope, step=step, applied_by="demo #1", applied_at=now, **used
    )
    StoredPlan.objects.create(execution=execution, planned_at=now, **used)
    kept = StoredText.objects.create(name="a", text="cpu: '256'\n", bytes=11, used_at=now)
    StoredTextUse.objects.create(stage=stage, text=kept)
    RollbackValue.objects.create(step=step, run=1, name="before", value="{}")
    AwsEvent.objects.create(execution=execution, event_id="a", ecs_service="a", at=now, message="steady")
    Pulse.objects.create(name="dispatcher", at=now)
    PreviewRequest.objects.create(
        pipeline=world.pipeline, version=1, asked_by=world.member, asked_at=now, finished_at=now
    )
    larger = {"identifier": "larger", "kind": "EcsTaskDefinition", "mode": "merge", "paths": []}
    ServiceOverride.objects.update(manifests=[larger | {"store": "Inline", "content": "memory: '512'\n"}])


def grow(count: int) -> None:
    """Copy the newest row of each table until there are `count`. Raises LookupError where there is none."""
    for model in tables():
        if model in SINGLE:
            continue
        row = newest(model)
        if row is None:
            raise LookupError(f"There is no {model._meta.label} to copy: make one in tests/crowd.py.")
        missing = count - model._default_manager.count()
        if missing > 0:
            # Not by save(), which may compute what a copy has to differ in.
            model._default_manager.bulk_create(_copies(row, missing))
    for group in UserGroup.objects.all():
        group.users.set(User.objects.all())


def _copies(row: models.Model, count: int) -> Iterator[models.Model]:
    """Rows beside `row`: whatever has to be unique differs, everything else is the same."""
    manager = type(row)._default_manager
    first = UNUSED + manager.count()
    varied = list(_to_vary(row))
    free = {field: _free(field, manager) for field in varied if isinstance(field, models.ForeignKey)}
    for number in range(first, first + count):
        copied = manager.get(pk=row.pk)
        copied.pk = uuid.uuid4() if isinstance(row._meta.pk, models.UUIDField) else None
        copied._state.adding = True
        for field in varied:
            value = next(free[field]) if field in free else _other(getattr(row, field.attname), field, number)
            setattr(copied, field.attname, value)
        yield copied


def _free(field: "models.ForeignKey[Any, Any]", manager: models.Manager[Any]) -> Iterator[Any]:
    """The rows that nothing points at yet."""
    taken = manager.exclude(**{field.name: None}).values(field.attname)
    found = field.related_model._default_manager.exclude(pk__in=taken).order_by("pk")
    return iter(list(found.values_list("pk", flat=True)))


def _other(value: Any, field: "models.Field[Any, Any]", number: int) -> Any:
    if isinstance(value, int):
        return value + number
    return f"{value[: field.max_length - len(str(number))] if field.max_length else value}{number}"


def _to_vary(row: models.Model) -> "Iterator[models.Field[Any, Any]]":
    """What keeps copies apart: of each unique set a text or a number, else the first column that points."""
    for names in _unique_sets(row):
        fields = [row._meta.get_field(name) for name in names]
        if any(getattr(row, field.attname) is None for field in fields):
            continue
        plain = [field for field in fields if not isinstance(field, models.ForeignKey)]
        yield plain[-1] if plain else fields[0]


def _unique_sets(row: models.Model) -> Iterator[tuple[str, ...]]:
    model = type(row)
    yield from ((field.name,) for field in model._meta.fields if field.unique and not field.primary_key)
    for constraint in model._meta.constraints:
        if isinstance(constraint, models.UniqueConstraint) and _concerns(constraint, row):
            yield tuple(constraint.fields)


def _concerns(constraint: models.UniqueConstraint, row: models.Model) -> bool:
    """Whether a row is among those that a constraint keeps apart."""
    only = constraint.condition
    return only is None or type(row)._default_manager.filter(only, pk=row.pk).exists()


def _parents(model: type[models.Model]) -> Iterator[Any]:
    return (field.related_model for field in model._meta.fields if field.is_relation)
