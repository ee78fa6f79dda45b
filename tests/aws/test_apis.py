"""The verbs: what they send, and what they make of the answers."""

from datetime import UTC, datetime

import pytest

from aws.apis.cloudwatch import CloudWatchClient, CloudWatchMetric
from aws.apis.ec2 import Ec2Client
from aws.apis.ecs import EcsClient, select_update_fields
from aws.apis.elb import ElbClient
from aws.apis.iam import StsClient
from aws.apis.logs import LogsClient
from aws.apis.scaling import ScalableTarget, ScalingClient
from aws.errors import NotFound, Unanswered, Unavailable
from tests.aws.fake_caller import ListedCaller

SERVICE = {
    "serviceArn": "arn:aws:ecs:us-east-1:123456789012:service/demo/myapp",
    "serviceName": "myapp",
    "status": "ACTIVE",
    "clusterArn": "arn:aws:ecs:us-east-1:123456789012:cluster/demo",
    "taskDefinition": "arn:aws:ecs:us-east-1:123456789012:task-definition/myapp:4",
    "desiredCount": 2,
    "runningCount": 1,
    "pendingCount": 1,
    "deployments": [
        {
            "id": "ecs-svc/9219274889298964351",
            "status": "PRIMARY",
            "taskDefinition": "arn:aws:ecs:us-east-1:123456789012:task-definition/myapp:4",
            "desiredCount": 2,
            "runningCount": 1,
            "pendingCount": 1,
            "failedTasks": 1,
            "rolloutState": "IN_PROGRESS",
            "createdAt": "2026-01-01T10:00:00.000000+00:00",
        }
    ],
    "events": [{"id": "e1", "createdAt": "2026-01-01T10:00:01.250000+00:00", "message": "(service myapp) …"}],
}


def test_a_service_is_read_with_its_deployments_and_events() -> None:
    service = EcsClient(ListedCaller({"services": [SERVICE]})).describe_service("demo", "myapp")
    assert service is not None
    assert service.is_active
    assert (service.desired, service.running, service.pending) == (2, 1, 1)
    assert service.primary is service.find_deployment("ecs-svc/9219274889298964351")
    assert service.primary is not None
    assert service.primary.short_id == "9219274889298964351"
    assert service.primary.failed == 1
    assert service.events[0].at == datetime(2026, 1, 1, 10, 0, 1, 250_000, tzinfo=UTC)
    assert service.raw == SERVICE


def test_a_missing_service_is_none() -> None:
    missing = {"services": [], "failures": [{"arn": "arn", "reason": "MISSING"}]}
    assert EcsClient(ListedCaller(missing)).describe_service("demo", "myapp") is None


def test_many_services_are_described_ten_to_a_call() -> None:
    caller = ListedCaller({"services": [SERVICE] * 10}, {"services": [SERVICE] * 2})
    assert len(EcsClient(caller).describe_services("demo", [f"s{n}" for n in range(12)])) == 12
    assert [len(params["services"]) for _, _, params in caller.calls] == [10, 2]


def test_what_only_create_service_takes_is_left_out_of_an_update() -> None:
    definition = {
        "serviceName": "myapp",
        "launchType": "FARGATE",
        "schedulingStrategy": "REPLICA",
        "role": "r",
        "tags": [],
        "clientToken": "t",
        "cluster": "elsewhere",
        "desiredCount": 2,
        "loadBalancers": [],
        "networkConfiguration": {},
    }
    assert select_update_fields(definition) == {
        "desiredCount": 2,
        "loadBalancers": [],
        "networkConfiguration": {},
    }


def test_registering_adds_tags_to_those_of_the_definition() -> None:
    caller = ListedCaller({"taskDefinition": {"taskDefinitionArn": "arn:1", "family": "f", "revision": 7}})
    definition = {"family": "f", "tags": [{"key": "team", "value": "a"}]}
    registered = EcsClient(caller).register_task_definition(definition, {"slipway:intent": "x"})
    assert (registered.arn, registered.revision) == ("arn:1", 7)
    assert caller.calls[0][2]["tags"] == [
        {"key": "team", "value": "a"},
        {"key": "slipway:intent", "value": "x"},
    ]
    assert definition["tags"] == [{"key": "team", "value": "a"}]


def test_the_newest_revision_of_an_unknown_family_is_none_at_all() -> None:
    unknown = NotFound("ClientException", "Unable to describe task definition.")
    assert EcsClient(ListedCaller(unknown)).get_latest_revision("f") == 0
    assert EcsClient(ListedCaller({"taskDefinition": {"revision": 9}})).get_latest_revision("f") == 9


def test_a_write_answered_without_its_result_may_have_happened() -> None:
    with pytest.raises(Unanswered):
        EcsClient(ListedCaller({})).update_service("demo", "myapp", {})


def test_tasks_are_listed_page_by_page() -> None:
    caller = ListedCaller({"taskArns": ["a", "b"], "nextToken": "2"}, {"taskArns": ["c"]})
    assert EcsClient(caller).list_tasks("demo", "myapp", "STOPPED") == ["a", "b", "c"]
    assert caller.calls[1][2]["nextToken"] == "2"


def test_a_page_token_that_repeats_does_not_loop() -> None:
    page = {"clusterArns": ["a"], "nextToken": "1"}
    assert EcsClient(ListedCaller(page, page)).list_clusters() == ["a", "a"]


def test_a_stopped_task_tells_why() -> None:
    raw_task = {
        "taskArn": "arn:aws:ecs:us-east-1:1:task/demo/0123abcd",
        "lastStatus": "STOPPED",
        "stopCode": "EssentialContainerExited",
        "stoppedReason": "Essential container in task exited",
        "startedBy": "ecs-svc/1",
        "containers": [{"name": "web", "exitCode": 1, "reason": None, "lastStatus": "STOPPED"}],
        "stoppedAt": "2026-01-01T10:00:00.000000+00:00",
    }
    (task,) = EcsClient(ListedCaller({"tasks": [raw_task]})).describe_tasks("demo", ["0123abcd"])
    assert (task.id, task.stop_code, task.started_by) == ("0123abcd", "EssentialContainerExited", "ecs-svc/1")
    assert (task.containers[0].name, task.containers[0].exit_code) == ("web", 1)
    assert task.containers[0].reason == ""


def test_service_deployments_since_a_moment_travel_as_json() -> None:
    caller = ListedCaller({"serviceDeployments": [{"serviceDeploymentArn": "a", "status": "NOVEL"}]})
    since = datetime(2026, 1, 1, tzinfo=UTC)
    assert EcsClient(caller).list_service_deployments("demo", "myapp", since)[0].status == "NOVEL"
    assert caller.calls[0][2]["createdAt"] == {"after": "2026-01-01T00:00:00+00:00"}


def test_suspending_keeps_the_bounds_and_resuming_restores_what_was() -> None:
    scalable_target = {
        "ResourceId": "service/demo/myapp",
        "ScalableDimension": "ecs:service:DesiredCount",
        "MinCapacity": 1,
        "MaxCapacity": 3,
        "SuspendedState": {"DynamicScalingInSuspended": True},
    }
    caller = ListedCaller({"ScalableTargets": [scalable_target]}, {}, {})
    scaling = ScalingClient(caller)
    (target,) = scaling.list_targets("arn:aws:ecs:us-east-1:1:cluster/demo", "myapp")
    scaling.suspend(target)
    scaling.resume(target)
    assert caller.calls[0][2]["ResourceIds"] == ["service/demo/myapp"]
    suspended, resumed = caller.calls[1][2], caller.calls[2][2]
    assert "MinCapacity" not in suspended
    assert set(suspended["SuspendedState"].values()) == {True}
    assert resumed["SuspendedState"] == {
        "DynamicScalingInSuspended": True,
        "DynamicScalingOutSuspended": False,
        "ScheduledScalingSuspended": False,
    }


def test_a_scalable_target_survives_json() -> None:
    target = ScalableTarget.from_aws({"ResourceId": "r", "MinCapacity": 1, "MaxCapacity": 2})
    assert ScalableTarget.from_aws(target.raw) == target


def test_the_tail_of_a_stream_that_was_never_written_is_empty() -> None:
    assert LogsClient(ListedCaller(NotFound("ResourceNotFoundException", ""))).tail("/ecs/myapp", "s") == []
    lines = LogsClient(ListedCaller({"events": [{"timestamp": 1700000000250, "message": "boom"}]})).tail(
        "g", "s"
    )
    assert (lines[0].message, lines[0].at.microsecond) == ("boom", 250_000)


@pytest.mark.parametrize(("timestamp", "year"), [(2**62, 5138), (-(2**62), 1970)])
def test_a_line_with_a_time_beyond_all_calendars_is_read_with_the_nearest_one(
    timestamp: int, year: int
) -> None:
    events = [{"timestamp": timestamp, "message": "boom"}]
    page = LogsClient(ListedCaller({"events": events})).read("g", "s")
    assert [(line.message, line.at.year) for line in page.events] == [("boom", year)]


def test_target_health_without_a_reason_is_empty_text() -> None:
    health = {"Target": {"Id": "10.0.0.1", "Port": 80}, "TargetHealth": {"State": "healthy"}}
    (target,) = ElbClient(ListedCaller({"TargetHealthDescriptions": [health]})).list_target_health("arn")
    assert (target.state, target.reason) == ("healthy", "")


def test_the_account_id_comes_from_the_caller_identity() -> None:
    assert StsClient(ListedCaller({"Account": "123456789012", "Arn": "a"})).get_account_id() == "123456789012"


def test_a_subnet_leads_where_its_own_route_table_says_or_else_that_of_its_vpc() -> None:
    described = [
        {"SubnetId": f"subnet-{name}", "VpcId": "vpc-1", "AvailabilityZone": f"us-east-1{name}"}
        for name in "abcd"
    ]
    everywhere = {"DestinationCidrBlock": "0.0.0.0/0"}
    tables = [
        {
            "VpcId": "vpc-1",
            "Associations": [{"Main": True}],
            "Routes": [
                {"DestinationCidrBlock": "10.0.0.0/16", "GatewayId": "local"},
                {**everywhere, "GatewayId": "igw-1"},
            ],
        },
        {
            "VpcId": "vpc-1",
            "Associations": [{"SubnetId": "subnet-b"}],
            "Routes": [{**everywhere, "NatGatewayId": "nat-1"}],
        },
        {
            "VpcId": "vpc-1",
            "Associations": [{"SubnetId": "subnet-c"}],
            "Routes": [{**everywhere, "NatGatewayId": "nat-2", "State": "blackhole"}],
        },
        {
            "VpcId": "vpc-1",
            "Associations": [{"SubnetId": "subnet-d"}],
            "Routes": [{**everywhere, "TransitGatewayId": "tgw-1"}],
        },
    ]
    caller = ListedCaller({"Subnets": described}, {"RouteTables": tables})
    subnets = Ec2Client(caller).describe_subnets(["subnet-a", "subnet-b", "subnet-c", "subnet-d"])
    assert [subnet.egress_route for subnet in subnets] == ["internet", "nat", "", "other"]
    assert caller.calls[1][2] == {"Filters": [{"Name": "vpc-id", "Values": ["vpc-1"]}]}


def test_a_security_group_lets_out_what_its_rules_for_everywhere_say() -> None:
    out = {"IpRanges": [{"CidrIp": "0.0.0.0/0"}]}
    rules: dict[str, list[dict[str, object]]] = {
        "sg-1": [{**out, "IpProtocol": "-1"}],
        "sg-2": [{**out, "IpProtocol": "tcp", "FromPort": 440, "ToPort": 450}],
        "sg-3": [{**out, "IpProtocol": "udp", "FromPort": 443, "ToPort": 443}],
        "sg-4": [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "10.0.0.0/8"}]}],
        "sg-5": [],
    }
    groups = [
        {"GroupId": name, "VpcId": "vpc-1", "IpPermissionsEgress": permissions}
        for name, permissions in rules.items()
    ]
    security_groups = Ec2Client(ListedCaller({"SecurityGroups": groups})).describe_security_groups(
        list(rules)
    )
    assert [group.id for group in security_groups if group.allows_egress(443)] == ["sg-1", "sg-2"]
    assert [group.id for group in security_groups if group.allows_egress(22)] == ["sg-1"]


def _metric_page(minute: int, status: str, **fields: str) -> dict[str, object]:
    at = f"2026-01-01T10:{minute:02}:00+00:00"
    result = {"Id": "m0", "Timestamps": [at], "Values": [float(minute)], "StatusCode": status}
    return {"MetricDataResults": [result], **fields}


def test_the_values_of_a_metric_are_read_from_all_pages() -> None:
    caller = ListedCaller(_metric_page(1, "PartialData", NextToken="more"), _metric_page(2, "Complete"))
    since, until = datetime(2026, 1, 1, 10, tzinfo=UTC), datetime(2026, 1, 1, 11, tzinfo=UTC)
    metric = CloudWatchMetric("AWS/ApplicationELB", "HTTPCode_Target_5XX_Count")
    (points,) = CloudWatchClient(caller).get_metric_values([metric], since, until)
    assert [point.value for point in points] == [1, 2]
    assert caller.calls[1][2]["NextToken"] == "more"


@pytest.mark.parametrize("status", ["PartialData", "InternalError"])
def test_values_that_cloudwatch_does_not_return_are_no_good_ones(status: str) -> None:
    since, until = datetime(2026, 1, 1, 10, tzinfo=UTC), datetime(2026, 1, 1, 11, tzinfo=UTC)
    client = CloudWatchClient(ListedCaller(_metric_page(1, status)))
    with pytest.raises(Unavailable, match="CloudWatch did not return all values"):
        client.get_metric_values([CloudWatchMetric("AWS/ECS", "CPUUtilization")], since, until)
