"""Plan of an acceptance run that its user approves: resources, estimated cost, permissions."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from aws.apis.iam import IamClient, IamDecision, StsClient, parse_principal_arn
from aws.caller import Caller
from aws.errors import AwsError
from ops.acceptance.resources import BLUE_GREEN_SUFFIX, TAG, RunKey
from ops.acceptance.scenarios import Scenario, list_aws_services, list_scenarios
from ops.acceptance.targets import AcceptanceTarget
from rbac.models import Scope

# https://aws.amazon.com/fargate/pricing/: Linux/X86 in us-east-1, USD an hour; other regions differ.
VCPU_HOUR, GIBIBYTE_HOUR = 0.04048, 0.004445
PUBLIC_ADDRESS_HOUR = 0.005
TASK_VCPU, TASK_GIBIBYTES = 0.25, 0.5
ACTIONS: Final = (
    "application-autoscaling:DescribeScalableTargets",
    "ecs:CreateService",
    "ecs:DeleteService",
    "ecs:DeregisterTaskDefinition",
    "ecs:DescribeServices",
    "ecs:DescribeTaskDefinition",
    "ecs:DescribeTasks",
    "ecs:ListServices",
    "ecs:ListTagsForResource",
    "ecs:ListTasks",
    "ecs:RegisterTaskDefinition",
    "ecs:TagResource",
    "ecs:UpdateService",
)
BLUE_GREEN_ACTIONS: Final = (
    "elasticloadbalancing:DescribeListeners",
    "elasticloadbalancing:DescribeLoadBalancers",
    "elasticloadbalancing:DescribeRules",
    "elasticloadbalancing:DescribeTargetGroups",
    "elasticloadbalancing:DescribeTargetHealth",
    "elasticloadbalancing:ModifyListener",
    "elasticloadbalancing:ModifyRule",
)


@dataclass(frozen=True)
class PermissionCheck:
    """Actions that a run needs, and those that IAM denies; `problem` says why IAM does not answer."""

    actions: tuple[str, ...]
    denied: tuple[str, ...] = ()
    problem: str = ""


def list_actions(target: AcceptanceTarget) -> tuple[str, ...]:
    """Return the IAM actions that a run needs, by name."""
    roles = ("iam:PassRole",) if target.execution_role else ()
    return tuple(sorted((*ACTIONS, *roles, *(BLUE_GREEN_ACTIONS if target.blue_green else ()))))


def check_permissions(target: AcceptanceTarget) -> PermissionCheck:
    """Return the decisions of IAM on the actions of a run, as far as it may be asked."""
    actions = list_actions(target)
    caller: Caller = target.caller
    try:
        principal = parse_principal_arn(StsClient(caller).get_identity().arn)
        if not principal:
            return PermissionCheck(actions, problem="IAM cannot simulate the policies of this principal.")
        decisions = IamClient(caller).simulate_actions(principal, actions)
    except AwsError as problem:
        return PermissionCheck(actions, problem=str(problem))
    denied = tuple(a for a in actions if decisions.get(a) is IamDecision.DENIED)
    return PermissionCheck(actions, denied)


def estimate_cost(scenarios: list[Scenario]) -> float:
    """Return the price of the tasks of these scenarios in USD, at the prices of us-east-1."""
    hour = TASK_VCPU * VCPU_HOUR + TASK_GIBIBYTES * GIBIBYTE_HOUR + PUBLIC_ADDRESS_HOUR
    return sum(scenario.task_minutes for scenario in scenarios) / 60 * hour


@dataclass(frozen=True)
class AcceptancePlan:
    """What a run would create in AWS and what it would cost; `leftovers` of earlier runs are deleted first.

    `scope` is the project of its rows in Slipway, or the organization that gets one.
    """

    run: RunKey
    target: AcceptanceTarget
    scope: Scope
    permissions: PermissionCheck
    leftovers: tuple[RunKey, ...] = ()

    @property
    def scenarios(self) -> list[Scenario]:
        return list_scenarios(self.target)

    @property
    def services(self) -> list[str]:
        """Return the names of the ECS services."""
        names = (name for each in self.scenarios for name in list_aws_services(self.run, each))
        return list(dict.fromkeys(names))

    @property
    def families(self) -> list[str]:
        """Return the families of the task definitions."""
        blue_green = [self.run.aws_name + BLUE_GREEN_SUFFIX] if self.target.blue_green else []
        return [self.run.aws_name, *blue_green]

    @property
    def swapped_rules(self) -> list[str]:
        """Return the ARNs of the rules, or of the listeners with default rules, that are swapped."""
        if (balancing := self.target.blue_green) is None:
            return []
        return [
            balancing.prod_rule or balancing.prod_listener,
            balancing.stage_rule or balancing.stage_listener,
        ]

    @property
    def cost(self) -> str:
        """Return the price in USD, at least a cent."""
        return f"{max(estimate_cost(self.scenarios), 0.01):.2f}"


def describe_plan(plan: AcceptancePlan) -> Iterator[str]:
    """Yield the lines that a person reads before the run."""
    run, target, permissions = plan.run, plan.target, plan.permissions
    yield f"Run {run.id}, in cluster {target.cluster}, {target.region}, with {target.connector}."
    if plan.leftovers:
        names = ", ".join(each.aws_name for each in plan.leftovers)
        yield f"Earlier runs left resources here, which it deletes first: {names}."
    yield f"It creates, tagged {TAG} = {run.id}, and deletes at its end:"
    yield f"  ECS services {', '.join(plan.services)}, each with one task of 0.25 vCPU and 0.5 GiB on Fargate"
    yield f"  task definitions of {', '.join(plan.families)}, with the image {target.image}"
    address = "a public address" if target.has_public_ip else "no public address"
    yield f"  in {', '.join(target.subnets)} with {', '.join(target.security_groups)} and {address}"
    if plan.swapped_rules:
        yield "It swaps the target groups of the rules that you named, and does not swap them back:"
        yield from (f"  {rule}" for rule in plan.swapped_rules)
    names = ", ".join(scenario.name for scenario in plan.scenarios)
    yield f"Scenarios: {names}. On AWS they take about an hour."
    yield (
        f"Estimated cost: about {plan.cost} USD for Fargate and addresses, at the prices of us-east-1. "
        "Traffic and your own resources are not included."
    )
    yield f"Permissions: {', '.join(permissions.actions)}."
    if permissions.denied:
        yield f"IAM DENIES {', '.join(permissions.denied)}: the run will fail there."
    elif permissions.problem:
        yield f"Permissions were not checked: {permissions.problem}"
    else:
        yield "IAM allows all of them."
