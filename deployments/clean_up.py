"""Leftovers of deployments: listed with why, and deleted by an execution with a log of its own (P05)."""

import json
from dataclasses import replace
from typing import Any

from aws.ecs import Ecs
from aws.elb import Elb
from aws.errors import AwsError
from connectors.aws_accounts import read_spec
from connectors.downstream import refuse_lacking
from delegates.doors import DoorClosed, call_here
from deployments.execution_access import needs_of_stage
from deployments.models import Execution, Slot, StageExecution
from deployments.operations import run_pipeline
from rbac.models import User
from rbac.policy import require
from steps.actions.blue_green.traffic import CREATE
from steps.actions.clean_up.judging import Leftover, StageRoute, base_of, judge, see, unseen
from web.problems import BadInput, Conflict


def leftovers(*, actor: User, execution: Execution) -> list[Leftover]:
    """The ECS services that strategies left beside the one that an execution deployed, as AWS shows them now.

    Where a delegate makes the calls nobody looks before the execution does: then all names that there can be.
    Raises `DoorClosed` where AWS refuses, or cannot be asked from here.
    """
    require(actor, "core_pipeline_execute", execution.pipeline)
    stage = _stage_of(execution)
    refuse_lacking(actor, needs_of_stage(stage))
    base = base_of(stage.ecs_service)
    if read_spec(stage.connector.spec).is_remote:
        return unseen(base)
    caller = call_here(stage.connector, stage.region)
    try:
        world = see(Ecs(caller), Elb(caller), cluster=stage.cluster, base=base, stage=_stage_route(stage))
    except AwsError as error:
        raise DoorClosed(error.sentence) from error
    found = judge(world, base)
    if Slot.objects.filter(key__in=stage.claims.values("key")).exists():
        return [
            replace(one, may_go=False, why="An execution is at work on this ECS service.") for one in found
        ]
    return found


def clean_up(*, actor: User, execution: Execution, services: list[str]) -> Execution:
    """Start an execution that deletes these leftovers; each is looked at again before it is deleted."""
    require(actor, "core_pipeline_execute", execution.pipeline)
    stage = _stage_of(execution)
    base = base_of(stage.ecs_service)
    wrong = [name for name in services if name == base or base_of(name) != base]
    if wrong or not services:
        message = f"name ECS services such as {base}Canary, {base}__1 or {base}__2"
        raise BadInput(
            "This is no leftover of this ECS service.", errors=[{"path": "services", "message": message}]
        )
    document = _document(execution, stage, sorted(set(services)))
    # JSON is YAML, and quotes whatever needs it.
    return run_pipeline(actor=actor, pipeline=execution.pipeline, yaml=json.dumps(document, indent=2))


def _stage_of(execution: Execution) -> StageExecution:
    stage = execution.stages.select_related("connector__secret").exclude(ecs_service="").last()
    if stage is None:
        raise Conflict("This execution has not come to an ECS service, so it left nothing behind.")
    return stage


def _stage_route(stage: StageExecution) -> StageRoute:
    """The listener and rule for trying versions out, of the blue/green step of this stage."""
    step = stage.steps.filter(type=CREATE).first()
    spec = step.spec if step else {}
    return StageRoute(spec.get("stageListener", ""), spec.get("stageListenerRuleArn", ""))


def _document(execution: Execution, stage: StageExecution, services: list[str]) -> dict[str, Any]:
    route = _stage_route(stage)
    place = {
        "environmentRef": stage.values["env"]["identifier"],
        "infrastructureDefinitions": [{"identifier": stage.values["infra"]["identifier"]}],
    }
    steps = [
        {
            "step": {
                "type": "EcsCleanUp",
                "identifier": f"clean_up_{number}",
                "name": f"Clean up {name}"[:128],
                "spec": {
                    "service": name,
                    "stageListener": route.listener,
                    "stageListenerRuleArn": route.rule,
                },
            }
        }
        for number, name in enumerate(services, 1)
    ]
    spec = {
        "deploymentType": "ECS",
        "service": {"serviceRef": stage.values["service"]["identifier"]},
        "environment": place,
        "execution": {"steps": steps},
    }
    stage_document = {"identifier": "clean_up", "name": "Clean up", "type": "Deployment", "spec": spec}
    pipeline = execution.pipeline
    return {
        "pipeline": {
            "identifier": pipeline.identifier,
            "name": pipeline.name,
            "stages": [{"stage": stage_document}],
        }
    }
