"""Leftover ECS services of deployments, listed and deleted."""

import json
from dataclasses import replace
from typing import Any

from aws.apis.ecs import EcsClient
from aws.apis.elb import ElbClient
from aws.errors import AwsError
from connectors.required_access import require_access
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import ConnectorUnavailable, get_local_caller
from deployments.execution.operations import run_pipeline
from deployments.execution_access import needs_of_stage
from deployments.models import Execution, ServiceLock, StageExecution
from rbac.models import User
from rbac.policy import require
from steps.actions.blue_green.traffic import CREATE_STEP_TYPE
from steps.actions.ecs_service.snapshots import get_base_name
from steps.actions.leftover_services import (
    Leftover,
    StageRoute,
    assess_leftovers,
    list_possible_leftovers,
    read_candidates,
)
from web.http.problems import BadInput, Conflict


def list_leftovers(*, actor: User, execution: Execution) -> list[Leftover]:
    """Return the extra ECS services that strategies left in AWS after an execution, in their current state.

    If a delegate makes the calls, all possible names are returned without reads. Raises
    `ConnectorUnavailable` if AWS refuses or cannot be reached from this process.
    """
    require(actor, "core_pipeline_execute", execution.pipeline)
    stage = _get_stage(execution)
    require_access(actor, needs_of_stage(stage))
    base = get_base_name(stage.ecs_service)
    if parse_aws_spec(stage.connector.spec).is_remote:
        return list_possible_leftovers(base)
    caller = get_local_caller(stage.connector, stage.region)
    try:
        candidates = read_candidates(
            EcsClient(caller),
            ElbClient(caller),
            cluster=stage.cluster,
            base=base,
            stage=_get_stage_route(stage),
        )
    except AwsError as error:
        raise ConnectorUnavailable(error.display_message) from error
    found_leftovers = assess_leftovers(candidates, base)
    if ServiceLock.objects.filter(key__in=stage.claims.values("key")).exists():
        return [
            replace(leftover, is_deletable=False, reason="An execution is changing this ECS service.")
            for leftover in found_leftovers
        ]
    return found_leftovers


def delete_leftovers(*, actor: User, execution: Execution, services: list[str]) -> Execution:
    """Start an execution that deletes these leftovers; each is checked again before its deletion."""
    require(actor, "core_pipeline_execute", execution.pipeline)
    stage = _get_stage(execution)
    base = get_base_name(stage.ecs_service)
    invalid = [name for name in services if name == base or get_base_name(name) != base]
    if invalid or not services:
        message = f"use ECS services such as {base}Canary, {base}__1 or {base}__2"
        raise BadInput(
            "This ECS service is not a leftover.", errors=[{"path": "services", "message": message}]
        )
    document = _build_pipeline(execution, stage, sorted(set(services)))
    # JSON is YAML with the necessary quotes.
    return run_pipeline(actor=actor, pipeline=execution.pipeline, yaml=json.dumps(document, indent=2))


def _get_stage(execution: Execution) -> StageExecution:
    stage = execution.stages.select_related("connector__secret").exclude(ecs_service="").last()
    if stage is None:
        raise Conflict("This execution did not reach an ECS service, so it has no leftovers.")
    return stage


def _get_stage_route(stage: StageExecution) -> StageRoute:
    """Return the stage listener and rule of the stage's blue/green step."""
    step = stage.steps.filter(type=CREATE_STEP_TYPE).first()
    spec = step.spec if step else {}
    return StageRoute(spec.get("stageListener", ""), spec.get("stageListenerRuleArn", ""))


def _build_pipeline(execution: Execution, stage: StageExecution, services: list[str]) -> dict[str, Any]:
    route = _get_stage_route(stage)
    environment = {
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
        "environment": environment,
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
