"""Pipelines with steps of CloudFormation, in front of the sandbox."""

from textwrap import indent

from deployments.models import Execution, StepExecution
from tests.deployments.conftest import _full_buckets, drive
from tests.deployments.engine.conftest import write
from tests.fixtures.engine_driver import Drive

__all__ = ["_full_buckets", "drive", "write"]

TEMPLATE = """\
AWSTemplateFormatVersion: 2010-09-09
Parameters:
  ClusterName: {Type: String}
  Retention: {Type: Number, Default: 7}
Resources:
  ECSCluster:
    Type: AWS::ECS::Cluster
    Properties: {ClusterName: !Ref ClusterName}
  Logs:
    Type: AWS::Logs::LogGroup
    Properties:
      LogGroupName: !Sub "/ecs/${ECSCluster}"
      RetentionInDays: !Ref Retention
Outputs:
  region_name: {Value: !Ref AWS::Region}
  cluster_name: {Value: !Ref ECSCluster}
  group: {Value: !GetAtt Logs.Arn}
"""
CLUSTER = "{name: ClusterName, value: made}"


def create_step(
    template: str = TEMPLATE, name: str = "infra", more: str = "", parameters: str = CLUSTER
) -> str:
    """A step that creates or updates the stack `shop`; `more` are further lines of its spec."""
    return f"""
- step:
    identifier: {name}
    type: CreateStack
    spec:
      stackName: shop
      templateFile:
        type: Inline
        spec:
          content: |
{indent(template, " " * 12)}
      parameters: [{parameters}]
{indent(more, " " * 6)}
"""


def add_rollback(text: str) -> str:
    """A pipeline whose stage also puts stacks back."""
    return text.replace(
        "rollbackSteps:\n",
        "rollbackSteps:\n              - step: {identifier: unstack, type: RollbackStack}\n",
    )


def step_of(execution: Execution, name: str = "infra") -> StepExecution:
    """A step of an execution."""
    return StepExecution.objects.get(stage__execution=execution, identifier=name)


def stack(drive: Drive, name: str = "shop") -> dict[str, str]:
    """Return the newest stack of a name, including deleted ones."""
    stacks = drive.call("cloudformation", "ListStacks", {})["StackSummaries"]
    return next((summary for summary in reversed(stacks) if summary["StackName"] == name), {})


def clusters(drive: Drive) -> list[str]:
    """The names of the account's clusters."""
    arns = drive.call("ecs", "ListClusters", {})["clusterArns"]
    return sorted(arn.rpartition("/")[2] for arn in arns)
