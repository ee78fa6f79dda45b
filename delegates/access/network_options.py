"""Account, VPCs, subnets, security groups and task roles to choose from."""

from dataclasses import dataclass

from aws.apis.ec2 import Ec2Client, EgressRoute, Vpc
from aws.apis.iam import IamClient, StsClient
from aws.caller import Caller

TASKS_SERVICE = "ecs-tasks.amazonaws.com"


@dataclass(frozen=True)
class SubnetOption:
    """A subnet to choose, with its route to other networks."""

    id: str
    name: str
    zone: str
    cidr: str
    egress_route: EgressRoute


@dataclass(frozen=True)
class SecurityGroupOption:
    """A security group to choose; `allows_https` if it lets HTTPS out to all destinations."""

    id: str
    name: str
    allows_https: bool


@dataclass(frozen=True)
class RoleOption:
    """A role that ECS tasks can have."""

    name: str
    arn: str


@dataclass(frozen=True)
class AccountOption:
    """The AWS account of a connector."""

    id: str


def fetch_accounts(caller: Caller, _of: str = "") -> list[AccountOption]:
    """Return the account of the caller, which needs no permission. Raises `AwsError`."""
    return [AccountOption(StsClient(caller).get_account_id())]


def fetch_vpcs(caller: Caller, _of: str = "") -> list[Vpc]:
    """Return the VPCs of the region, the default one first. Raises `AwsError`."""
    return sorted(Ec2Client(caller).list_vpcs(), key=lambda vpc: (not vpc.is_default, vpc.name, vpc.id))


def fetch_subnets(caller: Caller, vpc: str) -> list[SubnetOption]:
    """Return the subnets of a VPC, by zone. Raises `AwsError`."""
    options = [
        SubnetOption(subnet.id, subnet.name, subnet.zone, subnet.cidr, subnet.egress_route)
        for subnet in Ec2Client(caller).list_subnets(vpc)
    ]
    return sorted(options, key=lambda option: (option.zone, option.name, option.id))


def fetch_security_groups(caller: Caller, vpc: str) -> list[SecurityGroupOption]:
    """Return the security groups of a VPC, by name. Raises `AwsError`."""
    options = [
        SecurityGroupOption(group.id, group.name, group.allows_egress(443))
        for group in Ec2Client(caller).list_security_groups(vpc)
    ]
    return sorted(options, key=lambda option: (option.name, option.id))


def fetch_task_roles(caller: Caller, _of: str = "") -> list[RoleOption]:
    """Return the roles that ECS tasks may assume, by name. Raises `AwsError`."""
    roles = [role for role in IamClient(caller).list_roles() if TASKS_SERVICE in role.trusted_services]
    return sorted((RoleOption(role.name, role.arn) for role in roles), key=lambda option: option.name)
