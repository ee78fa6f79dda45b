"""What AWS refuses, the sandbox refuses, with AWS's codes."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import CLUSTER, Aws, client


def get_refusal(call: Callable[[], Any]) -> tuple[str, str]:
    with pytest.raises(ClientError) as caught:
        call()
    error = caught.value.response["Error"]
    return str(error["Code"]), str(error["Message"])


@pytest.mark.source("ECS API, RegisterTaskDefinition")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"cpu": "256", "memory": "4096"}, "No Fargate configuration exists for given values."),
        ({"cpu": "32768", "memory": "65536"}, "No Fargate configuration exists for given values."),
        ({"cpu": "8192", "memory": "17408"}, "No Fargate configuration exists for given values."),
        ({"cpu": ""}, "Fargate requires that 'cpu' be defined at the task level."),
        ({"networkMode": "bridge"}, "Fargate only supports network mode"),
        ({"networkMode": "bogus"}, "networkMode"),
        ({"requiresCompatibilities": ["MOON"]}, "requiresCompatibilities"),
        ({"family": "my app"}, "Family contains invalid characters"),
        ({"containerDefinitions": []}, "Container list cannot be empty."),
        ({"executionRoleArn": ""}, "execution role ARN to support log driver awslogs"),
        ({"ephemeralStorage": {"sizeInGiB": 10}}, "between 21 GiB and 200 GiB"),
    ],
)
def test_a_task_definition_that_makes_no_sense_is_refused(
    aws: Aws, changes: dict[str, Any], words: str
) -> None:
    definition = {k: v for k, v in aws.definition(**changes).items() if v != ""}
    code, message = get_refusal(lambda: aws.ecs.register_task_definition(**definition))
    assert code in ("ClientException", "InvalidParameterException")
    assert words in message


@pytest.mark.source("ECS API, ContainerDefinition")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"portMappings": [{"containerPort": 80, "hostPort": 8080}]}, "host ports and container ports"),
        ({"essential": False}, "at least one essential container"),
        ({"dependsOn": [{"containerName": "ghost", "condition": "START"}]}, "ghost"),
        ({"mountPoints": [{"sourceVolume": "ghost", "containerPath": "/x"}]}, "Unknown volume 'ghost'."),
        ({"logConfiguration": {"logDriver": "syslog"}}, "logDriver"),
        ({"logConfiguration": {"logDriver": "awslogs", "options": {}}}, "awslogs-group"),
        ({"image": ""}, "Container.image should not be null or empty."),
        ({"name": "a b"}, "invalid characters"),
    ],
)
def test_a_container_that_makes_no_sense_is_refused(aws: Aws, changes: dict[str, Any], words: str) -> None:
    definition = aws.definition(containerDefinitions=[aws.container(**changes)])
    assert words in get_refusal(lambda: aws.ecs.register_task_definition(**definition))[1]


@pytest.mark.source("ECS API, ContainerDefinition: name")
def test_two_containers_of_one_name_are_refused(aws: Aws) -> None:
    definition = aws.definition(containerDefinitions=[aws.container(), aws.container()])
    assert "unique" in get_refusal(lambda: aws.ecs.register_task_definition(**definition))[1]


@pytest.mark.source("ECS API, ContainerDefinition: secrets")
def test_secrets_without_an_execution_role_are_refused(aws: Aws) -> None:
    container = aws.container(secrets=[{"name": "A", "valueFrom": "arn"}])
    del container["logConfiguration"]
    definition = aws.definition(containerDefinitions=[container])
    del definition["executionRoleArn"]
    assert "container secrets" in get_refusal(lambda: aws.ecs.register_task_definition(**definition))[1]


@pytest.mark.source("ECS API, TaskDefinition: cpu, memory")
@pytest.mark.parametrize(("cpu", "memory"), [("1 vCPU", "2GB"), ("16384", "32768"), ("8192", "20480")])
def test_fargate_sizes_on_offer_are_taken(aws: Aws, cpu: str, memory: str) -> None:
    assert ":task-definition/myapp:" in aws.register(cpu=cpu, memory=memory)


def network(aws: Aws, **changes: Any) -> dict[str, Any]:
    return {"awsvpcConfiguration": {**aws.network()["awsvpcConfiguration"], **changes}}


@pytest.mark.source("ECS API, CreateService")
def test_a_service_that_makes_no_sense_is_refused(aws: Aws) -> None:
    both = {"minimumHealthyPercent": 100, "maximumPercent": 100}
    ghosts = "arn:aws:elasticloadbalancing:us-east-1:123456789012:targetgroup/ghost/0123456789abcdef"
    balancer = {"targetGroupArn": ghosts, "containerName": "web", "containerPort": 80}
    for changes, code, words in (
        ({"cluster": "ghost"}, "ClusterNotFoundException", "Cluster not found."),
        ({"taskDefinition": "ghost:1"}, "ClientException", "TaskDefinition not found."),
        ({"serviceName": "my app"}, "InvalidParameterException", "Service name"),
        (
            {"networkConfiguration": network(aws, subnets=["subnet-1"])},
            "InvalidParameterException",
            "subnet-1",
        ),
        ({"networkConfiguration": network(aws, subnets=[])}, "InvalidParameterException", "subnets"),
        (
            {"networkConfiguration": network(aws, securityGroups=["sg-1"])},
            "InvalidParameterException",
            "The security group 'sg-1' does not exist",
        ),
        ({"deploymentConfiguration": both}, "InvalidParameterException", "cannot be 100"),
        ({"loadBalancers": [balancer]}, "InvalidParameterException", "target group"),
        ({"launchType": "MOON"}, "InvalidParameterException", "launchType"),
    ):
        assert get_refusal(lambda settings=changes: aws.create(**settings))[0] == code, changes  # type: ignore[misc]
        assert words in get_refusal(lambda settings=changes: aws.create(**settings))[1]  # type: ignore[misc]


@pytest.mark.source("ECS API, AwsVpcConfiguration")
def test_an_awsvpc_service_needs_a_network_but_no_security_group(aws: Aws) -> None:
    definition = aws.register()
    bare = {"cluster": CLUSTER, "serviceName": "bare", "taskDefinition": definition, "desiredCount": 1}
    code, message = get_refusal(lambda: aws.ecs.create_service(**bare, launchType="FARGATE"))
    assert code == "InvalidParameterException"
    assert message == "Network Configuration must be provided when networkMode 'awsvpc' is specified."
    vpc = {"awsvpcConfiguration": {"subnets": list(aws.endpoint.subnets)}}
    aws.ecs.create_service(**bare, launchType="FARGATE", networkConfiguration=vpc)


@pytest.mark.source("ECS API, DeleteService")
def test_a_name_is_taken_while_its_service_is_active_or_draining(aws: Aws) -> None:
    aws.create()
    assert get_refusal(aws.create) == ("InvalidParameterException", "Creation of service was not idempotent.")
    aws.until_completed()
    aws.ecs.delete_service(cluster=CLUSTER, service="myapp", force=True)
    assert "still Draining" in get_refusal(aws.create)[1]
    aws.until(lambda: aws.service()["status"] == "INACTIVE", "the end of the service")
    aws.create()


@pytest.mark.source("ECS API, UpdateService; DeregisterTaskDefinition")
@pytest.mark.needs_sandbox("its journal")
def test_only_an_active_service_can_be_updated_and_only_to_an_active_revision(aws: Aws) -> None:
    aws.create()
    retired = aws.register("v2")
    aws.ecs.deregister_task_definition(taskDefinition=retired)
    before = aws.sandbox.last_number()
    assert get_refusal(lambda: aws.update(taskDefinition=retired)) == (
        "ClientException",
        "TaskDefinition is inactive",
    )
    assert aws.effects(before) == []
    assert get_refusal(lambda: aws.ecs.update_service(cluster=CLUSTER, service="ghost"))[0] == (
        "ServiceNotFoundException"
    )
    aws.ecs.delete_service(cluster=CLUSTER, service="myapp", force=True)
    assert get_refusal(lambda: aws.update(desiredCount=1))[0] == "ServiceNotActiveException"


@pytest.mark.source("ECS API, DeregisterTaskDefinition")
def test_a_service_on_a_retired_revision_can_still_be_scaled(aws: Aws) -> None:
    service = aws.create()
    aws.ecs.deregister_task_definition(taskDefinition=service["taskDefinition"])
    assert aws.update(desiredCount=2)["desiredCount"] == 2
    aws.until(lambda: aws.service()["runningCount"] == 2, "the second task")


@pytest.mark.source("ECS API, UpdateService")
def test_a_refused_update_leaves_no_trace(aws: Aws) -> None:
    before = aws.create()
    both = {"minimumHealthyPercent": 100, "maximumPercent": 100}
    get_refusal(lambda: aws.update(desiredCount=7, deploymentConfiguration=both))
    get_refusal(lambda: aws.update(desiredCount=7, taskDefinition="ghost"))
    after = aws.service()
    for name in ("desiredCount", "deploymentConfiguration", "taskDefinition"):
        assert after[name] == before[name]


@pytest.mark.source("ECS API, DeleteService: force")
def test_a_service_with_tasks_is_only_deleted_by_force(aws: Aws) -> None:
    aws.create()
    code, message = get_refusal(lambda: aws.ecs.delete_service(cluster=CLUSTER, service="myapp"))
    assert (code, message) == (
        "InvalidParameterException",
        "The service cannot be stopped while it is scaled above 0.",
    )


@pytest.mark.source("ECS API, DeleteCluster")
def test_a_cluster_with_services_or_tasks_is_not_deleted(aws: Aws) -> None:
    aws.create()
    assert (
        get_refusal(lambda: aws.ecs.delete_cluster(cluster=CLUSTER))[0] == "ClusterContainsServicesException"
    )


@pytest.mark.source("ECS API, DescribeServices, DescribeTasks, RunTask, ListTasks")
def test_limits_of_one_call_are_kept(aws: Aws) -> None:
    ecs, code = aws.ecs, "InvalidParameterException"
    names = [f"s{n}" for n in range(11)]
    assert get_refusal(lambda: ecs.describe_services(cluster=CLUSTER, services=names))[0] == code
    assert get_refusal(lambda: ecs.describe_tasks(cluster=CLUSTER, tasks=["a" * 32] * 101))[0] == code
    definition = aws.register()
    many = {"cluster": CLUSTER, "taskDefinition": definition, "count": 11, "launchType": "FARGATE"}
    assert get_refusal(lambda: ecs.run_task(**many, networkConfiguration=aws.network()))[0] == code
    filters = {"cluster": CLUSTER, "startedBy": "me", "family": "myapp"}
    assert get_refusal(lambda: ecs.list_tasks(**filters))[0] == code


@pytest.mark.source("ECS API, RunTask: overrides")
def test_an_override_for_a_container_that_is_not_there_is_refused(aws: Aws) -> None:
    overrides = {"containerOverrides": [{"name": "ghost", "command": ["true"]}]}
    run = {"cluster": CLUSTER, "taskDefinition": aws.register(), "launchType": "FARGATE"}
    code, message = get_refusal(
        lambda: aws.ecs.run_task(**run, networkConfiguration=aws.network(), overrides=overrides)
    )
    assert code == "InvalidParameterException"
    assert "ghost" in message


@pytest.mark.source("ECS API, RunTask: overrides, EphemeralStorage")
def test_an_override_of_the_ephemeral_storage_has_21_to_200_gib(aws: Aws) -> None:
    run = {"cluster": CLUSTER, "taskDefinition": aws.register(), "launchType": "FARGATE"}
    run |= {"networkConfiguration": aws.network()}
    (task,) = aws.ecs.run_task(**run, overrides={"ephemeralStorage": {"sizeInGiB": 50}})["tasks"]
    (described,) = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=[task["taskArn"]])["tasks"]
    assert described["ephemeralStorage"] == described["overrides"]["ephemeralStorage"] == {"sizeInGiB": 50}
    (plain,) = aws.ecs.run_task(**run)["tasks"]
    assert plain["ephemeralStorage"] == {"sizeInGiB": 20}
    code, message = get_refusal(
        lambda: aws.ecs.run_task(**run, overrides={"ephemeralStorage": {"sizeInGiB": 20}})
    )
    assert code == "InvalidParameterException"
    assert "21" in message


@pytest.mark.source("AWS JSON and query protocols, errors")
@pytest.mark.needs_sandbox("what it does not know")
@pytest.mark.parametrize(
    ("service", "operation", "params"),
    [
        ("ecs", "execute_command", {"cluster": CLUSTER, "task": "t", "command": "sh", "interactive": True}),
        ("application-autoscaling", "get_predictive_scaling_forecast", None),
        ("ec2", "describe_fpga_images", {}),
        ("elbv2", "describe_trust_stores", {}),
        ("iam", "get_context_keys_for_custom_policy", {"PolicyInputList": ["{}"]}),
    ],
)
def test_what_is_not_there_is_refused_in_the_protocol_of_its_service(
    aws: Aws, service: str, operation: str, params: dict[str, Any] | None
) -> None:
    if params is None:
        params = {
            "ServiceNamespace": "ecs",
            "ResourceId": "service/demo/myapp",
            "ScalableDimension": "ecs:service:DesiredCount",
            "PolicyName": "p",
            "StartTime": 0,
            "EndTime": 1,
        }
    code, message = get_refusal(lambda: getattr(aws.client(service), operation)(**params))
    assert code == "UnknownOperationException"
    assert "The sandbox does not know" in message


@pytest.mark.source("IAM guide, common errors")
@pytest.mark.needs_sandbox("a key that nobody has")
def test_a_key_that_aws_does_not_know_is_refused(aws: Aws) -> None:
    stranger = client(aws.sandbox.url, "sts", key="AKIAINVALIDKEY")
    assert get_refusal(stranger.get_caller_identity)[0] == "InvalidClientTokenId"
    stranger = client(aws.sandbox.url, "ecs", key="AKIAINVALIDKEY")
    assert get_refusal(stranger.list_clusters)[0] == "UnrecognizedClientException"
