"""Initial resources of the emulated account, with a load balancer for blue/green deployments."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from moto.ec2 import ec2_backends
from moto.ecs.models import ecs_backends
from moto.elbv2 import elbv2_backends
from moto.elbv2.models import ELBv2Backend, FakeListener, FakeTargetGroup
from moto.iam import iam_backends
from moto.iam.models import AWSManagedPolicy
from moto.logs.models import logs_backends
from moto.moto_api._internal import mock_random

from sandbox.services.ecs import container_instances
from sandbox.services.ecs.backend import SandboxEcs

LOAD_BALANCER = "demo"
# The port of the demo's containers and of both target groups of a pair (R226).
CONTAINER_PORT = 80
DRAIN_SECONDS = 60
RULE_PATH = "/api/*"
RULE_PRIORITY = 10


@dataclass(frozen=True)
class ListenerSeed:
    """A listener with its default rule and a path rule, and the target groups of both."""

    arn: str
    port: int
    default_rule_arn: str
    target_group: str
    path: str
    path_rule_arn: str
    path_target_group: str


@dataclass(frozen=True)
class BalancerSeed:
    """The load balancer, its production and stage listeners, and its target group ARNs by name."""

    arn: str
    prod_listener: ListenerSeed
    stage_listener: ListenerSeed
    target_groups: dict[str, str]


def create_load_balancer(
    account: str, region: str, *, vpc: str, subnets: tuple[str, ...], security_group: str
) -> BalancerSeed:
    """Create the load balancer and two pairs of target groups, for default and path rules.

    The path rule has its own pair, so that a swap of one pair does not affect the other.
    """
    elb = elbv2_backends[account][region]
    balancer = elb.create_load_balancer(LOAD_BALANCER, [security_group], list(subnets))
    groups = {name: _create_target_group(elb, vpc, name) for name in ("target1", "target2", "api1", "api2")}
    return BalancerSeed(
        arn=balancer.arn,
        prod_listener=_create_listener(elb, balancer.arn, 80, (groups["target1"], groups["api1"])),
        stage_listener=_create_listener(elb, balancer.arn, 8080, (groups["target2"], groups["api2"])),
        target_groups={name: group.arn for name, group in groups.items()},
    )


def _create_target_group(elb: ELBv2Backend, vpc: str, name: str) -> FakeTargetGroup:
    group = elb.create_target_group(
        name,
        vpc_id=vpc,
        protocol="HTTP",
        protocol_version="HTTP1",
        port=str(CONTAINER_PORT),
        target_type="ip",
        healthcheck_protocol="HTTP",
        healthcheck_port="traffic-port",
        healthcheck_path="/",
        # moto compares interval and timeout as texts, so both need one digit.
        healthcheck_interval_seconds="8",
        healthcheck_timeout_seconds="5",
        healthcheck_enabled="true",
        healthy_threshold_count="3",
        unhealthy_threshold_count="2",
        matcher={"HttpCode": "200"},
    )
    group.attributes["deregistration_delay.timeout_seconds"] = str(DRAIN_SECONDS)
    return group


def _create_listener(
    elb: ELBv2Backend, balancer_arn: str, port: int, groups: tuple[FakeTargetGroup, FakeTargetGroup]
) -> ListenerSeed:
    group, path_group = groups
    listener = elb.create_listener(balancer_arn, "HTTP", str(port), "", None, [_build_forward_action(group)])
    elb.create_rule(listener.arn, _build_conditions(), RULE_PRIORITY, [_build_forward_action(path_group)])
    path_rule, default_rule = _get_rule_arns(listener)
    return ListenerSeed(
        arn=listener.arn,
        port=port,
        default_rule_arn=default_rule,
        target_group=group.arn,
        path=RULE_PATH,
        path_rule_arn=path_rule,
        path_target_group=path_group.arn,
    )


def _build_conditions() -> list[dict[str, Any]]:
    return [{"Field": "path-pattern", "PathPatternConfig": {"Values": [RULE_PATH]}}]


def _build_forward_action(group: FakeTargetGroup) -> dict[str, str]:
    return {"Type": "forward", "TargetGroupArn": group.arn}


def _get_rule_arns(listener: FakeListener) -> tuple[str, str]:
    """Return the ARNs of the path rule and of the default rule."""
    by_default = {rule.is_default: rule.arn for rule in listener.rules.values()}
    return by_default[False], by_default[True]


ACCOUNT = "123456789012"
REGION = "us-east-1"
CLUSTER = "demo"
LOG_GROUP = "/ecs/myapp"
EXECUTION_ROLE = "ecsTaskExecutionRole"
TRUST_POLICY = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": '
    '{"Service": "ecs-tasks.amazonaws.com"}, "Action": "sts:AssumeRole"}]}'
)
# AWS's own policies that roles attach, with what each allows on everything.
AWS_POLICIES = {
    "AmazonECSTaskExecutionRolePolicy": (
        "ecr:GetAuthorizationToken",
        "ecr:BatchCheckLayerAvailability",
        "ecr:GetDownloadUrlForLayer",
        "ecr:BatchGetImage",
        "logs:CreateLogStream",
        "logs:PutLogEvents",
    ),
    "AWSLambdaBasicExecutionRole": ("logs:CreateLogGroup", "logs:CreateLogStream", "logs:PutLogEvents"),
}


@dataclass(frozen=True)
class AccountSeed:
    """The names and ids that a manifest for the emulated account needs."""

    account: str
    region: str
    cluster: str
    vpc: str
    subnets: tuple[str, ...]
    security_group: str
    execution_role_arn: str
    log_group: str
    # Absent in the state of an older sandbox; `complete_seed` adds it.
    load_balancer: BalancerSeed | None = None

    def to_wire(self) -> dict[str, Any]:
        return asdict(self)


def complete_seed(seed: AccountSeed) -> AccountSeed:
    """Add resources that an older sandbox lacks: container instances, the ECS policy, a load balancer."""
    backend = ecs_backends[ACCOUNT][REGION]
    if isinstance(backend, SandboxEcs) and not backend.container_instances.get(CLUSTER):
        container_instances.add_container_instances(backend, CLUSTER)
    _create_aws_policies()
    if seed.load_balancer is not None:
        return seed
    balancer = create_load_balancer(
        ACCOUNT, REGION, vpc=seed.vpc, subnets=seed.subnets, security_group=seed.security_group
    )
    return replace(seed, load_balancer=balancer)


def build_policy(actions: Sequence[str]) -> str:
    """Return a policy document that allows actions on everything."""
    statement = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
    return json.dumps({"Version": "2012-10-17", "Statement": [statement]})


def _create_aws_policies() -> None:
    """Create the policies of AWS_POLICIES alone: moto's thousand would take most of the memory."""
    known = iam_backends[ACCOUNT]["aws"].managed_policies
    location = {"account_id": ACCOUNT, "region": REGION, "path": "/service-role/"}
    for name, actions in AWS_POLICIES.items():
        policy = AWSManagedPolicy(name, document=build_policy(actions), **location)
        known.setdefault(policy.arn, policy)


def create_seed() -> AccountSeed:
    """Create the initial resources; their ids are stable, so that manifests survive a reset."""
    mock_random.seed("sandbox")
    try:
        return _create_resources()
    finally:
        mock_random.seed(None)


def _create_resources() -> AccountSeed:
    ec2 = ec2_backends[ACCOUNT][REGION]
    vpc = ec2.create_vpc("10.42.0.0/16")
    subnets = [
        ec2.create_subnet(vpc.id, f"10.42.{number}.0/18", availability_zone=f"{REGION}{zone}")
        for number, zone in ((0, "a"), (64, "b"))
    ]
    group = ec2.create_security_group("demo", "Tasks of the demo cluster", vpc_id=vpc.id)
    iam = iam_backends[ACCOUNT]["aws"]
    role = iam.create_role(EXECUTION_ROLE, TRUST_POLICY, "/", None, "", [], 3600)
    name = "AmazonECSTaskExecutionRolePolicy"
    iam.put_role_policy(EXECUTION_ROLE, name, build_policy(AWS_POLICIES[name]))
    logs_backends[ACCOUNT][REGION].create_log_group(LOG_GROUP, {})
    ecs_backends[ACCOUNT][REGION].create_cluster(CLUSTER)
    # The subnets of an account's default VPC are public.
    (default,) = ec2.describe_vpcs(filters={"is-default": ["true"]})
    for connected in (vpc, default):
        _connect_to_internet(connected.id)
    seed = AccountSeed(
        account=ACCOUNT,
        region=REGION,
        cluster=CLUSTER,
        vpc=vpc.id,
        subnets=tuple(subnet.id for subnet in subnets),
        security_group=group.id,
        execution_role_arn=role.arn,
        log_group=LOG_GROUP,
    )
    return complete_seed(seed)


def _connect_to_internet(vpc: str) -> None:
    ec2 = ec2_backends[ACCOUNT][REGION]
    gateway = ec2.create_internet_gateway()
    ec2.attach_internet_gateway(gateway.id, vpc)
    (table,) = ec2.describe_route_tables(filters={"vpc-id": [vpc]})
    ec2.create_route(table.id, "0.0.0.0/0", gateway_id=gateway.id)
