"""Express services, whose load balancer, auto scaling and deployments ECS manages."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.endpoint import CLUSTER, Aws
from tests.contract.express_services import (
    INFRASTRUCTURE_ROLE,
    create_express_service,
    describe_express_service,
    get_image,
)

GUIDE = "ECS developer guide, Resources created by Amazon ECS Express Mode services"
pytestmark = pytest.mark.needs_sandbox(
    "AWS would make load balancers and roles that cost money for each test"
)


def get_rule(service: dict[str, Any]) -> str:
    (balancer,) = service["loadBalancers"]
    return str(balancer["advancedConfiguration"]["productionListenerRule"])


def read_targets(aws: Aws) -> list[dict[str, Any]]:
    scaling = aws.client("application-autoscaling")
    targets: list[dict[str, Any]] = scaling.describe_scalable_targets(ServiceNamespace="ecs")[
        "ScalableTargets"
    ]
    return targets


@pytest.mark.source("ECS API, CreateExpressGatewayService: defaults; Service: resourceManagementType")
def test_an_express_service_is_an_ecs_service_that_ecs_manages(aws: Aws) -> None:
    made = create_express_service(aws, tags=[{"key": "team", "value": "web"}])
    assert (made["status"]["statusCode"], made["infrastructureRoleArn"]) == ("ACTIVE", INFRASTRUCTURE_ROLE)
    (configuration,) = made["activeConfigurations"]
    assert (configuration["cpu"], configuration["memory"]) == ("256", "512")
    assert configuration["healthCheckPath"] == "/ping"
    assert configuration["ingressPaths"][0]["accessType"] == "PUBLIC"
    assert made["tags"] == [{"key": "team", "value": "web"}]
    service = aws.until_completed(name="shop")
    assert (service["resourceManagementType"], service["runningCount"]) == ("ECS", 1)
    assert service["serviceArn"] == made["serviceArn"]
    aws.create()
    assert aws.service()["resourceManagementType"] == "CUSTOMER"


@pytest.mark.source(GUIDE)
def test_its_service_has_the_resources_and_defaults_of_express_mode(aws: Aws) -> None:
    create_express_service(aws)
    service = aws.until_completed(name="shop")
    assert service["deploymentConfiguration"]["strategy"] == "CANARY"
    assert [entry["capacityProvider"] for entry in service["capacityProviderStrategy"]] == ["FARGATE"]
    assert (service["propagateTags"], service["healthCheckGracePeriodSeconds"]) == ("SERVICE", 300)
    (rule,) = aws.client("elbv2").describe_rules(RuleArns=[get_rule(service)])["Rules"]
    assert [condition["Field"] for condition in rule["Conditions"]] == ["host-header"]
    (target,) = read_targets(aws)
    assert (target["MinCapacity"], target["MaxCapacity"]) == (1, 20)
    (container,) = aws.ecs.describe_task_definition(taskDefinition=service["taskDefinition"])[
        "taskDefinition"
    ]["containerDefinitions"]
    assert container["name"] == "Main"
    assert container["logConfiguration"]["options"]["awslogs-group"].startswith(f"/aws/ecs/{CLUSTER}/shop-")


@pytest.mark.source("ECS API, ServiceRevision: ecsManagedResources")
def test_the_revision_names_the_resources_that_ecs_manages(aws: Aws) -> None:
    (configuration,) = create_express_service(aws)["activeConfigurations"]
    (revision,) = aws.ecs.describe_service_revisions(
        serviceRevisionArns=[configuration["serviceRevisionArn"]]
    )["serviceRevisions"]
    resources = revision["ecsManagedResources"]
    (path,) = resources["ingressPaths"]
    assert path["rule"]["arn"] == get_rule(aws.service("shop"))
    assert path["endpoint"] == configuration["ingressPaths"][0]["endpoint"]
    assert resources["autoScaling"]["scalableTarget"]["maxCapacity"] == 20


@pytest.mark.source(GUIDE, "up to 25 Express services in the same VPC share an Application Load Balancer")
def test_express_services_of_a_vpc_share_a_load_balancer(aws: Aws) -> None:
    create_express_service(aws)
    create_express_service(aws, "cart")
    rules = [get_rule(aws.service(name)) for name in ("shop", "cart")]
    assert len({rule.rpartition("/")[0] for rule in rules}) == 1
    assert len(set(rules)) == 2


@pytest.mark.source("ECS API, UpdateExpressGatewayService", "ECS developer guide, canary deployments")
def test_an_update_deploys_a_new_revision_by_a_canary(aws: Aws) -> None:
    arn = create_express_service(aws)["serviceArn"]
    aws.until_completed(name="shop")
    updated = aws.ecs.update_express_gateway_service(
        serviceArn=arn,
        primaryContainer={"image": "myapp:v2"},
        scalingTarget={"minTaskCount": 2, "maxTaskCount": 4},
    )["service"]
    assert get_image(updated["targetConfiguration"]) == "myapp:v2"
    described = describe_express_service(aws, arn)
    assert {get_image(c) for c in described["activeConfigurations"]} == {"myapp:v1", "myapp:v2"}
    (deployment,) = aws.ecs.describe_service_deployments(
        serviceDeploymentArns=[described["currentDeployment"]]
    )["serviceDeployments"]
    assert deployment["deploymentConfiguration"]["canaryConfiguration"]["canaryPercent"] == 5.0
    aws.until(
        lambda: len(describe_express_service(aws, arn)["activeConfigurations"]) == 1, "the end", seconds=1800
    )
    (configuration,) = describe_express_service(aws, arn)["activeConfigurations"]
    assert (get_image(configuration), configuration["cpu"]) == ("myapp:v2", "256")
    assert [(target["MinCapacity"], target["MaxCapacity"]) for target in read_targets(aws)] == [(2, 4)]


@pytest.mark.source(
    "ECS API, DeleteExpressGatewayService: DRAINING, then service and infrastructure are removed"
)
def test_a_deleted_express_service_drains_and_takes_its_resources_with_it(aws: Aws) -> None:
    arn = create_express_service(aws)["serviceArn"]
    groups = [load_balancer["targetGroupArn"] for load_balancer in aws.service("shop")["loadBalancers"]]
    aws.until_completed(name="shop")
    assert (
        aws.ecs.delete_express_gateway_service(serviceArn=arn)["service"]["status"]["statusCode"]
        == "DRAINING"
    )
    with pytest.raises(ClientError, match="ServiceNotActiveException"):
        aws.ecs.update_express_gateway_service(serviceArn=arn, cpu="512")
    aws.until(lambda: aws.service("shop")["status"] == "INACTIVE", "the end")
    assert read_targets(aws) == []
    with pytest.raises(ClientError, match="TargetGroupNotFound"):
        aws.client("elbv2").describe_target_groups(TargetGroupArns=groups)


@pytest.mark.source("ECS API, CreateExpressGatewayService: taskDefinitionArn")
def test_a_task_definition_of_the_customer_excludes_the_primary_container(aws: Aws) -> None:
    ports = [{"containerPort": 80, "name": "web"}]
    arn = aws.register(containerDefinitions=[aws.container(name="Main", portMappings=ports)])
    with pytest.raises(ClientError, match="taskDefinitionArn"):
        create_express_service(aws, taskDefinitionArn=arn)
    made = aws.ecs.create_express_gateway_service(
        cluster=CLUSTER, infrastructureRoleArn=INFRASTRUCTURE_ROLE, taskDefinitionArn=arn
    )["service"]
    assert made["activeConfigurations"][0]["taskDefinitionArn"] == arn
    with pytest.raises(ClientError, match="Main"):
        aws.ecs.create_express_gateway_service(
            cluster=CLUSTER, infrastructureRoleArn=INFRASTRUCTURE_ROLE, taskDefinitionArn=aws.register()
        )


@pytest.mark.source(GUIDE, "load balancers and the deployment strategy can't be updated on Express services")
def test_update_service_does_not_change_what_ecs_manages(aws: Aws) -> None:
    create_express_service(aws)
    aws.until_completed(name="shop")
    for changes in ({"deploymentConfiguration": {"strategy": "ROLLING"}}, {"loadBalancers": [{}]}):
        with pytest.raises(ClientError, match="InvalidParameterException"):
            aws.ecs.update_service(cluster=CLUSTER, service="shop", **changes)


@pytest.mark.source("ECS API, DescribeExpressGatewayService: an Express service alone")
def test_only_express_services_are_described(aws: Aws) -> None:
    arn = aws.create()["serviceArn"]
    with pytest.raises(ClientError, match="NotFoundException"):
        describe_express_service(aws, arn)
