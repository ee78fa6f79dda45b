"""Networks and roles that the forms offer."""

import pytest

from delegates.access.lookup_options import fetch_options, validate_subject
from delegates.models import LookupRequest
from tests.aws.fake_caller import ListedCaller
from web.http.problems import BadInput

Kind = LookupRequest.Kind
BY_VPC = {"Filters": [{"Name": "vpc-id", "Values": ["vpc-1"]}]}


def test_vpcs_come_with_their_names_and_the_default_one_first() -> None:
    vpcs = [
        {"VpcId": "vpc-1", "CidrBlock": "10.0.0.0/16", "Tags": [{"Key": "Name", "Value": "main"}]},
        {"VpcId": "vpc-2", "CidrBlock": "172.31.0.0/16", "IsDefault": True},
    ]
    assert fetch_options(Kind.VPCS, ListedCaller({"Vpcs": vpcs}), "") == [
        {"id": "vpc-2", "name": "", "cidr": "172.31.0.0/16", "is_default": True},
        {"id": "vpc-1", "name": "main", "cidr": "10.0.0.0/16", "is_default": False},
    ]


def test_subnets_are_those_of_the_vpc_with_their_zone_and_route() -> None:
    subnet = {
        "SubnetId": "subnet-a",
        "VpcId": "vpc-1",
        "AvailabilityZone": "eu-west-1a",
        "CidrBlock": "10.0.0.0/24",
    }
    route = {"DestinationCidrBlock": "0.0.0.0/0", "NatGatewayId": "nat-1"}
    table = {"VpcId": "vpc-1", "Associations": [{"Main": True}], "Routes": [route]}
    caller = ListedCaller({"Subnets": [subnet]}, {"RouteTables": [table]})
    assert fetch_options(Kind.SUBNETS, caller, "vpc-1") == [
        {"id": "subnet-a", "name": "", "zone": "eu-west-1a", "cidr": "10.0.0.0/24", "egress_route": "nat"}
    ]
    assert caller.calls == [("ec2", "DescribeSubnets", BY_VPC), ("ec2", "DescribeRouteTables", BY_VPC)]


def test_security_groups_say_whether_https_gets_out() -> None:
    rule = {"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    groups = [
        {"GroupId": "sg-2", "GroupName": "web", "VpcId": "vpc-1", "IpPermissionsEgress": [rule]},
        {"GroupId": "sg-1", "GroupName": "closed", "VpcId": "vpc-1"},
    ]
    assert fetch_options(Kind.GROUPS, ListedCaller({"SecurityGroups": groups}), "vpc-1") == [
        {"id": "sg-1", "name": "closed", "allows_https": False},
        {"id": "sg-2", "name": "web", "allows_https": True},
    ]


def test_roles_are_those_that_ecs_tasks_may_assume() -> None:
    def build_role(name: str, *services: str) -> dict[str, object]:
        statement = {"Effect": "Allow", "Principal": {"Service": list(services)}, "Action": "sts:AssumeRole"}
        document = {"Statement": statement}
        return {"RoleName": name, "Arn": f"arn:aws:iam::1:role/{name}", "AssumeRolePolicyDocument": document}

    first = {"Roles": [build_role("web", "ecs-tasks.amazonaws.com"), build_role("vm", "ec2.amazonaws.com")]}
    caller = ListedCaller(
        first | {"Marker": "next"}, {"Roles": [build_role("job", "ecs-tasks.amazonaws.com")]}
    )
    assert [role["name"] for role in fetch_options(Kind.ROLES, caller, "")] == ["job", "web"]


def test_the_subject_of_a_network_lookup_is_a_vpc() -> None:
    assert validate_subject(Kind.SUBNETS, "vpc-0a1") == "vpc-0a1"
    for subject in ("", "subnet-1", "vpc-1; rm"):
        with pytest.raises(BadInput):
            validate_subject(Kind.GROUPS, subject)
