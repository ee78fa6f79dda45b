"""What is in the pretend account from the first start."""

from dataclasses import asdict, dataclass, replace
from typing import Any

from moto.ec2 import ec2_backends
from moto.ecs.models import ecs_backends
from moto.iam import iam_backends
from moto.iam.models import AWSManagedPolicy
from moto.logs.models import logs_backends
from moto.moto_api._internal import mock_random

from sandbox.balancer_seed import BalancerSeed, plant_balancer
from sandbox.ecs import instances
from sandbox.ecs.backend import SandboxEcs

ACCOUNT = "123456789012"
REGION = "us-east-1"
CLUSTER = "demo"
LOG_GROUP = "/ecs/myapp"
EXECUTION_ROLE = "ecsTaskExecutionRole"
TRUST = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Principal": '
    '{"Service": "ecs-tasks.amazonaws.com"}, "Action": "sts:AssumeRole"}]}'
)
EXECUTION_POLICY = (
    '{"Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": ["ecr:GetAuthorizationToken",'
    ' "ecr:BatchCheckLayerAvailability", "ecr:GetDownloadUrlForLayer", "ecr:BatchGetImage",'
    ' "logs:CreateLogStream", "logs:PutLogEvents"], "Resource": "*"}]}'
)

AWS_POLICY = "arn:aws:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"


@dataclass(frozen=True)
class Seed:
    """The names and ids that a manifest for the pretend account needs."""

    account: str
    region: str
    cluster: str
    vpc: str
    subnets: tuple[str, ...]
    security_group: str
    execution_role_arn: str
    log_group: str
    # A state that an older sandbox left has none yet; complete() adds it.
    load_balancer: BalancerSeed | None = None

    def to_wire(self) -> dict[str, Any]:
        return asdict(self)


def complete(seed: Seed) -> Seed:
    """Add what an older sandbox did not plant: machines, AWS's own policy for ECS, a load balancer."""
    backend = ecs_backends[ACCOUNT][REGION]
    if isinstance(backend, SandboxEcs) and not backend.container_instances.get(CLUSTER):
        instances.equip(backend, CLUSTER)
    iam = iam_backends[ACCOUNT]["aws"]
    if AWS_POLICY not in iam.managed_policies:
        # moto's own copies are a thousand, and most of the memory.
        where = {"account_id": ACCOUNT, "region": REGION, "path": "/service-role/"}
        name = AWS_POLICY.rpartition("/")[2]
        iam.managed_policies[AWS_POLICY] = AWSManagedPolicy(name, document=EXECUTION_POLICY, **where)
    if seed.load_balancer is not None:
        return seed
    balancer = plant_balancer(
        ACCOUNT, REGION, vpc=seed.vpc, subnets=seed.subnets, security_group=seed.security_group
    )
    return replace(seed, load_balancer=balancer)


def plant() -> Seed:
    """Fill the empty account. The ids are the same every time, so that manifests outlive a reset."""
    mock_random.seed("sandbox")
    try:
        return _plant()
    finally:
        mock_random.seed(None)


def _plant() -> Seed:
    ec2 = ec2_backends[ACCOUNT][REGION]
    vpc = ec2.create_vpc("10.42.0.0/16")
    subnets = [
        ec2.create_subnet(vpc.id, f"10.42.{number}.0/18", availability_zone=f"{REGION}{zone}")
        for number, zone in ((0, "a"), (64, "b"))
    ]
    group = ec2.create_security_group("demo", "Tasks of the demo cluster", vpc_id=vpc.id)
    iam = iam_backends[ACCOUNT]["aws"]
    role = iam.create_role(EXECUTION_ROLE, TRUST, "/", None, "", [], 3600)
    iam.put_role_policy(EXECUTION_ROLE, "AmazonECSTaskExecutionRolePolicy", EXECUTION_POLICY)
    logs_backends[ACCOUNT][REGION].create_log_group(LOG_GROUP, {})
    ecs_backends[ACCOUNT][REGION].create_cluster(CLUSTER)
    gateway = ec2.create_internet_gateway()
    ec2.attach_internet_gateway(gateway.id, vpc.id)
    (table,) = ec2.describe_route_tables(filters={"vpc-id": [vpc.id]})
    ec2.create_route(table.id, "0.0.0.0/0", gateway_id=gateway.id)
    seed = Seed(
        account=ACCOUNT,
        region=REGION,
        cluster=CLUSTER,
        vpc=vpc.id,
        subnets=tuple(subnet.id for subnet in subnets),
        security_group=group.id,
        execution_role_arn=role.arn,
        log_group=LOG_GROUP,
    )
    return complete(seed)
