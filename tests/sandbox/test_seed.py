"""The planted account has what the documents' commands for a delegate ask for."""

from tests.contract.endpoint import Aws


def test_the_subnets_lead_to_the_internet(aws: Aws) -> None:
    tables = aws.client("ec2").describe_route_tables(
        Filters=[{"Name": "vpc-id", "Values": [aws.endpoint.vpc]}]
    )
    routes = [route for table in tables["RouteTables"] for route in table["Routes"]]
    assert any(r["DestinationCidrBlock"] == "0.0.0.0/0" and r["GatewayId"].startswith("igw-") for r in routes)


def test_the_policy_that_aws_keeps_for_execution_roles_can_be_attached(aws: Aws) -> None:
    iam = aws.client("iam")
    policy = "arn:aws:iam::aws:policy/service-role/AmazonECSTaskExecutionRolePolicy"
    iam.attach_role_policy(RoleName="ecsTaskExecutionRole", PolicyArn=policy)
    attached = iam.list_attached_role_policies(RoleName="ecsTaskExecutionRole")["AttachedPolicies"]
    assert [attachment["PolicyArn"] for attachment in attached] == [policy]
