"""A large account that answers as AWS does, and the deployments that Slipway has made there."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any

from catalog.models import Environment, Infrastructure, Service
from connectors.models import Connector
from deployments.models import (
    ActionRun,
    Execution,
    RollbackValue,
    ServiceLockClaim,
    StageExecution,
    StepExecution,
)
from pipelines.models import Pipeline
from rbac.models import Scope
from tests.inventory.sync import large_cluster
from web.clock import get_database_time


@dataclass
class Account(large_cluster.LargeCluster):
    """A cluster of one account and region; each `scaled`-th ECS service has a target with one policy.

    Each `foreign`-th runs a revision that Slipway has not registered.
    """

    account: str = "123456789012"
    region: str = "us-east-1"
    scaled: int = 5
    foreign: int = 50

    @property
    def prefix(self) -> str:
        return f"arn:aws:ecs:{self.region}:{self.account}"

    @property
    def names(self) -> list[str]:
        return [f"s{number}" for number in range(self.services)]

    @property
    def foreign_names(self) -> list[str]:
        return self.names[:: self.foreign]

    @property
    def scaled_names(self) -> list[str]:
        return self.names[:: self.scaled]

    @property
    def fewest_looks(self) -> int:
        """Fifty targets to a page, ten policies: what the next look asks for that knows the revisions."""
        return ceil(self.services / 50) + ceil(len(self.scaled_names) / 10)

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        if operation == "DescribeTaskDefinition":
            self.calls[operation] += 1
            return self._DescribeTaskDefinition(params)
        request = json.loads(json.dumps(params).replace(self.prefix, large_cluster.PREFIX))
        response = super().call(service, operation, request)
        document: dict[str, Any] = json.loads(json.dumps(response).replace(large_cluster.PREFIX, self.prefix))
        return document

    def _DescribeScalableTargets(self, params: Mapping[str, Any]) -> dict[str, Any]:
        resource_ids = params["ResourceIds"]
        assert 0 < len(resource_ids) <= 50
        scaled_names = set(self.scaled_names)
        return {
            "ScalableTargets": [
                _build_target(resource_id)
                for resource_id in resource_ids
                if resource_id.rpartition("/")[2] in scaled_names
            ]
        }

    def _DescribeScalingActivities(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return {"ScalingActivities": []}

    def _DescribeScalingPolicies(self, params: Mapping[str, Any]) -> dict[str, Any]:
        offset = int(params.get("NextToken") or 0)
        page = self.scaled_names[offset : offset + 10]
        next_page = {"NextToken": str(offset + 10)} if offset + 10 < len(self.scaled_names) else {}
        return {"ScalingPolicies": [_build_policy(f"service/large/{name}") for name in page], **next_page}

    def _DescribeTaskDefinition(self, params: Mapping[str, Any]) -> dict[str, Any]:
        arn = params["taskDefinition"]
        family = arn.rpartition("/")[2].partition(":")[0]
        return {"taskDefinition": {**build_definition(family), "taskDefinitionArn": arn, "cpu": "512"}}


def _build_target(resource: str) -> dict[str, Any]:
    return {
        "ServiceNamespace": "ecs",
        "ResourceId": resource,
        "ScalableDimension": "ecs:service:DesiredCount",
        "MinCapacity": 1,
        "MaxCapacity": 9,
        "RoleARN": "arn:aws:iam::123456789012:role/scaling",
    }


def _build_policy(resource: str) -> dict[str, Any]:
    return {
        "PolicyName": "cpu",
        "PolicyType": "TargetTrackingScaling",
        "ServiceNamespace": "ecs",
        "ResourceId": resource,
        "ScalableDimension": "ecs:service:DesiredCount",
        "TargetTrackingScalingPolicyConfiguration": {"TargetValue": 60.0},
    }


def build_definition(family: str) -> dict[str, Any]:
    """Build the task definition of an ECS service as it was deployed."""
    app = {"name": "app", "image": f"{family}:7", "environment": [{"name": "LOG", "value": "info"}]}
    return {"family": family, "cpu": "256", "memory": "512", "containerDefinitions": [app]}


def create_infrastructure(scope: Scope, account: Account, task_count: int = 1) -> Infrastructure:
    """Create the infrastructure of an account's ECS services, each deployed `many` times."""
    name = f"a{account.account}_{account.region.replace('-', '_')}"
    connector = Connector.objects.create(
        scope=scope, identifier=name, name=name, spec={"credentials": "InheritFromDelegate"}
    )
    environment = Environment.objects.create(scope=scope, identifier=name, name=name)
    infrastructure = Infrastructure.objects.create(
        environment=environment,
        identifier=name,
        name=name,
        connector=connector,
        region=account.region,
        cluster="large",
    )
    _deploy(scope, account, infrastructure, task_count)
    return infrastructure


def _deploy(scope: Scope, account: Account, infrastructure: Infrastructure, task_count: int) -> None:
    now, name = get_database_time() - timedelta(hours=1), infrastructure.identifier
    service = Service.objects.create(scope=scope, identifier=name, name=name)
    pipeline = Pipeline.objects.create(scope=scope, identifier=name, name=name, yaml="")
    executions = Execution.objects.bulk_create(
        Execution(scope=scope, pipeline=pipeline, number=number, yaml="", status="SUCCESS", ended_at=now)
        for number in range(1, task_count * account.services + 1)
    )
    stages = StageExecution.objects.bulk_create(
        StageExecution(
            execution=execution,
            position=0,
            identifier="deploy",
            name="Deploy",
            status="SUCCESS",
            service=service,
            infrastructure=infrastructure,
            connector=infrastructure.connector,
            region=infrastructure.region,
            cluster=infrastructure.cluster,
            account=account.account,
            ecs_service=account.names[number % account.services],
            deployment_id="ecs-svc/1",
        )
        for number, execution in enumerate(executions)
    )
    steps = StepExecution.objects.bulk_create(_build_step(account, stage, now) for stage in stages)
    _complete(account, steps)


def _build_step(account: Account, stage: StageExecution, now: Any) -> StepExecution:
    name = stage.ecs_service
    revision = 6 if name in account.foreign_names else 7
    return StepExecution(
        stage=stage,
        position=0,
        identifier="deploy",
        name="Deploy",
        type="EcsRollingDeploy",
        timeout_seconds=600,
        status="SUCCESS",
        ended_at=now,
        outputs={
            "serviceName": name,
            "desiredCount": account.tasks_each,
            "taskDefinitionArn": f"{account.prefix}:task-definition/{name}:{revision}",
        },
    )


def _complete(account: Account, steps: Sequence[StepExecution]) -> None:
    """Create the records of a finished deployment: its write, its rollback values and its claim."""
    ActionRun.objects.bulk_create(
        ActionRun(
            step=step, position=0, unit="Deploy", name="CreateOrUpdateService", title="Update", state="DONE"
        )
        for step in steps
    )
    builders = {
        "task definition": build_definition,
        "service definition": lambda name: {"serviceName": name, "desiredCount": account.tasks_each},
    }
    last_steps = {step.stage.ecs_service: step for step in steps}
    RollbackValue.objects.bulk_create(
        RollbackValue(step=step, run=1, name=kind, value=json.dumps(build_value(name)))
        for name, step in last_steps.items()
        for kind, build_value in builders.items()
    )
    ServiceLockClaim.objects.bulk_create(
        ServiceLockClaim(
            stage=step.stage,
            step=step,
            key=f"{account.account}/{account.region}/large/{step.stage.ecs_service}",
            ecs_service=step.stage.ecs_service,
            requested_at=step.ended_at,
            granted_at=step.ended_at,
        )
        for step in steps
    )
