"""Documents of a delegate's deployment: stack template, task and service definition, pipeline."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from delegates.install.documents import (
    EXECUTION_POLICY,
    build_deployment_configuration,
    build_service_definition,
    build_task_definition,
    build_trust_policy,
    build_uses_policy,
    list_secret_resources,
)
from delegates.install.plan import SpecPlan
from delegates.install.specs import SpecRequest, TokenSecret

INFRASTRUCTURE: Final = "cluster"
TOKEN_PARAMETER: Final = "DelegateToken"  # noqa: S105 - the name of a parameter
LOG_DAYS: Final = 30
STACK_STEP: Final = "stack"
_STAGE: Final = ("delegate", "Delegate")
# New roles are not known everywhere in IAM at once.
ROLE_PAUSE: Final = "15s"
CONNECT_TIMEOUT: Final = "10m"
Document = dict[str, Any]
# Instances of a delegate on EC2 go to different zones, then to different hosts, as far as there are some.
PLACEMENT: Final = (
    {"type": "spread", "field": "attribute:ecs.availability-zone"},
    {"type": "spread", "field": "instanceId"},
)


def refer_to_stack(output: str) -> str:
    """Return the expression of an output of the stack."""
    return f"<+steps.{STACK_STEP}.output.{output}>"


def build_deployed_plan(request: SpecRequest) -> SpecPlan:
    """Return the plan of a request whose secret, roles and log group are those of the stack.

    A task role with the name that the commands would give it is left out: the stack creates it.
    """
    secret = TokenSecret("EXISTING", refer_to_stack("TokenSecretArn"))
    log_group = request.log_group or f"/slipway/delegates/{request.name}"
    task_role = "" if SpecPlan(request).has_own_role else request.task_role
    return SpecPlan(replace(request, token="", secret=secret, log_group=log_group, task_role=task_role))


def creates_task_role(plan: SpecPlan) -> bool:
    """Return whether the stack has a task role: for the uses of a delegate without an existing role."""
    return bool(plan.request.uses) and not plan.request.task_role


def build_template(plan: SpecPlan, *, creates_log_group: bool) -> Document:
    """Return the CloudFormation template of log group, secret, execution role and task role."""
    secret = {
        "Description": f"Token of the Slipway delegate {plan.name}",
        "SecretString": {"Ref": TOKEN_PARAMETER},
    }
    resources: Document = {
        "TokenSecret": {"Type": "AWS::SecretsManager::Secret", "Properties": secret},
        "ExecutionRole": _build_role(
            {"ReadToken": _build_secrets_policy(plan)},
            [f"arn:{plan.partition}:iam::aws:policy/{EXECUTION_POLICY}"],
        ),
    }
    outputs = {
        "TokenSecretArn": {"Value": {"Ref": "TokenSecret"}},
        "ExecutionRoleArn": {"Value": {"Fn::GetAtt": ["ExecutionRole", "Arn"]}},
    }
    if creates_log_group:
        group = {"LogGroupName": plan.log_group, "RetentionInDays": LOG_DAYS}
        resources["LogGroup"] = {"Type": "AWS::Logs::LogGroup", "Properties": group}
    if creates_task_role(plan):
        resources["TaskRole"] = _build_role({"Uses": build_uses_policy(plan)})
        outputs["TaskRoleArn"] = {"Value": {"Fn::GetAtt": ["TaskRole", "Arn"]}}
    return {
        "AWSTemplateFormatVersion": "2010-09-09",
        "Description": f"Slipway delegate {plan.name}",
        "Parameters": {TOKEN_PARAMETER: {"Type": "String", "NoEcho": True}},
        "Resources": resources,
        "Outputs": outputs,
    }


def _build_role(policies: Mapping[str, Document], managed: list[str] | None = None) -> Document:
    properties: Document = {"AssumeRolePolicyDocument": build_trust_policy()}
    if managed:
        properties["ManagedPolicyArns"] = managed
    properties["Policies"] = [
        {"PolicyName": name, "PolicyDocument": document} for name, document in policies.items()
    ]
    return {"Type": "AWS::IAM::Role", "Properties": properties}


def _build_secrets_policy(plan: SpecPlan) -> Document:
    """Return the policy for reading the token of the stack, and the other secrets of the task."""
    others = [
        part for _, arn in plan.secrets if arn != plan.secret_arn for part in list_secret_resources(arn)
    ]
    statement = {
        "Effect": "Allow",
        "Action": "secretsmanager:GetSecretValue",
        "Resource": [{"Ref": "TokenSecret"}, *others],
    }
    return {"Version": "2012-10-17", "Statement": [statement]}


def build_stack_tags(name: str) -> list[Document]:
    """Return the tags of the stack of a delegate, as the steps take them."""
    return [{"name": "slipway:delegate", "value": name}]


def build_deployed_task_definition(plan: SpecPlan) -> Document:
    """Return the task definition with the roles of the stack."""
    definition = build_task_definition(plan)
    definition["executionRoleArn"] = refer_to_stack("ExecutionRoleArn")
    if creates_task_role(plan):
        definition["taskRoleArn"] = refer_to_stack("TaskRoleArn")
    return definition


def build_deployed_service(plan: SpecPlan) -> Document:
    """Return the service definition; no instance stops before its successor has connected."""
    service = build_service_definition(plan)
    # Both belong to the infrastructure and to the task definition of the deployment.
    del service["cluster"], service["taskDefinition"]
    # A cluster's default capacity providers may be of the other launch type.
    service["launchType"] = plan.request.launch_type
    if not plan.request.is_fargate:
        service["placementStrategy"] = list(PLACEMENT)
    return service | {"deploymentConfiguration": build_deployment_configuration(plan.request.desired_count)}


def build_pipeline(
    name: str, identifier: str, *, stack: str, template: Document, secret: str, stacks: Sequence[str]
) -> str:
    """Return the pipeline that creates or updates a delegate, as text.

    `identifier` names its service and environment too, `secret` is the reference of the token. Only a stack
    with one of the ids in `stacks` is updated.
    """
    text = json.dumps(template, indent=2)
    create = {
        "stackName": stack,
        "templateFile": {"type": "Inline", "spec": {"content": text}},
        "parameters": [{"name": TOKEN_PARAMETER, "type": "Secret", "value": secret}],
        "capabilities": ["CAPABILITY_IAM"],
        "tags": build_stack_tags(name),
        # A delegate of another project may have the same name, and so the same name of its stack.
        "onlyExpected": True,
        "expected": list(stacks),
    }
    is_new = f'{refer_to_stack("stackChange")} == "CREATE"'
    steps = [
        _build_step(STACK_STEP, "Roles, secret and log group", "CreateStack", create),
        _build_step("pause", "Let IAM learn of the roles", "Wait", {"duration": ROLE_PAUSE})
        | {"when": {"stageStatus": "Success", "condition": is_new}},
        _build_step("deploy", "Deploy", "EcsRollingDeploy", {}),
        _build_step("connect", "Wait for the delegate", "DelegateConnect", {"delegate": name})
        | {"timeout": CONNECT_TIMEOUT},
    ]
    undo = [
        _build_step("undeploy", "Roll back the service", "EcsRollingRollback", {}),
        _build_step("unstack", "Roll back the stack", "RollbackStack", {}),
    ]
    return _render_pipeline(name, identifier, _STAGE, steps, undo)


def build_removal_pipeline(
    name: str,
    identifier: str,
    *,
    service: str,
    stack: str,
    deployments: Sequence[str],
    stacks: Sequence[str],
    stage: str,
) -> str:
    """Return the run that removes what the pipeline of a delegate created, as text.

    Only a service with one of the deployments, and a stack with one of the ids, are deleted; without ids of
    stacks, none is.
    """
    delete = {"service": service, "expected": list(deployments), "delegate": name}
    unstack = {"stackName": stack, "onlyWithTags": build_stack_tags(name), "expected": list(stacks)}
    steps = [
        _build_step("delete_service", "Stop the tasks and delete the service", "EcsDeleteService", delete)
    ]
    if stacks:
        steps.append(
            _build_step("delete_stack", "Delete roles, secret and log group", "DeleteStack", unstack)
        )
    return _render_pipeline(name, identifier, (stage, "Remove"), steps)


def _render_pipeline(
    name: str, identifier: str, stage: tuple[str, str], steps: list[Document], undo: Sequence[Document] = ()
) -> str:
    execution = {"steps": [{"step": step} for step in steps]}
    if undo:
        execution["rollbackSteps"] = [{"step": step} for step in undo]
    spec = {
        "deploymentType": "ECS",
        "service": {"serviceRef": identifier},
        "environment": {
            "environmentRef": identifier,
            "infrastructureDefinitions": [{"identifier": INFRASTRUCTURE}],
        },
        "execution": execution,
    }
    document = {"identifier": stage[0], "name": stage[1], "type": "Deployment", "spec": spec}
    pipeline = {"identifier": identifier, "name": f"Delegate {name}", "stages": [{"stage": document}]}
    return json.dumps({"pipeline": pipeline}, indent=2)


def _build_step(identifier: str, name: str, type_: str, spec: Mapping[str, Any]) -> Document:
    return {"identifier": identifier, "name": name, "type": type_, "spec": dict(spec)}
