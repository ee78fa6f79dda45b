"""Copies of a parked execution: thousands that wait, without the work of having started them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar
from uuid import uuid4

from django.db import transaction
from django.db.models import Model

from aws.apis.ecs import SERVICES_PER_CALL, EcsClient
from aws.caller import Caller
from aws.paging import split_batches
from deployments.engine.service_waits import hash_observed_state
from deployments.models import ActionRun, Execution, StageExecution, StepExecution


def park_copies(parked: Execution, count: int, door: Caller) -> None:
    """Copy a parked execution so often, each with an ECS service of its own in which nothing moves.

    Only the rows that a look of the group reads are made; there are no calls and no log.
    """
    stage = parked.stages.get()
    names = [f"{stage.ecs_service}-{index}" for index in range(count)]
    deployments = _create_services(door, stage, names)
    sights = _sights(door, stage.cluster, names)
    with transaction.atomic():
        _copy_rows(parked, stage, deployments, sights)


def _copy_rows(
    parked: Execution, stage: StageExecution, deployments: Mapping[str, str], sights: Mapping[str, str]
) -> None:
    number = Execution.objects.filter(pipeline=parked.pipeline).count() + 1
    executions = [
        _copy_of(parked, id=uuid4(), number=number + index, awaits=own, sight=sights[own])
        for index, own in enumerate(deployments)
    ]
    Execution.objects.bulk_create(executions)
    stages = [
        _copy_of(stage, execution=execution, ecs_service=execution.awaits, deployment_id=deployments[own])
        for execution, own in zip(executions, deployments, strict=True)
    ]
    StageExecution.objects.bulk_create(stages)
    for step in stage.steps.all():
        steps = [
            _copy_of(
                step,
                stage=own,
                outputs={**step.outputs, "serviceName": own.ecs_service, "deploymentId": own.deployment_id},
            )
            for own in stages
        ]
        StepExecution.objects.bulk_create(steps)
        for row in step.actions.all():
            ActionRun.objects.bulk_create(_copy_of(row, step=own) for own in steps)


Row = TypeVar("Row", bound=Model)


def _copy_of(row: Row, **changed: Any) -> Row:
    kept = [one for one in row._meta.concrete_fields if one.name not in (*changed, "id")]
    return type(row)(**{one.attname: getattr(row, one.attname) for one in kept}, **changed)


def _create_services(door: Caller, stage: StageExecution, names: Sequence[str]) -> dict[str, str]:
    """Services like the one of the stage; the id of each one's deployment."""
    like = EcsClient(door).describe_service(stage.cluster, stage.ecs_service)
    assert like is not None
    kept = ("taskDefinition", "desiredCount", "launchType", "networkConfiguration")
    definition = {key: like.raw[key] for key in kept}
    found = {}
    for name in names:
        service = EcsClient(door).create_service({**definition, "serviceName": name}, stage.cluster, name)
        assert service.primary is not None
        found[name] = service.primary.id
    return found


def _sights(door: Caller, cluster: str, names: Sequence[str]) -> dict[str, str]:
    ecs = EcsClient(door)
    answered = [
        one
        for ten in split_batches(names, SERVICES_PER_CALL)
        for one in ecs.describe_raw_services(cluster, ten)
    ]
    return {one["serviceName"]: hash_observed_state(one) for one in answered}
