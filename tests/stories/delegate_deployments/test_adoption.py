"""A blue/green pair is adopted, deployed and left alone through the API, whose calls a real agent makes."""

from typing import Any

import boto3
import pytest
from rest_framework.test import APIClient

from catalog.models import Infrastructure
from deployments.log import iterate_lines
from deployments.models import Execution
from inventory.models.drift import DriftComparison
from inventory.models.instances import SyncedCluster
from rbac.models import User
from tests.fixtures.processes import wait_until
from tests.stories.delegate_deployments.conftest import StartDying
from tests.stories.delegate_deployments.demo_deployments import Work

pytestmark = pytest.mark.django_db(transaction=True)
WEB = {
    "name": "web",
    "image": "library/nginx:1.27",
    "essential": True,
    "portMappings": [{"containerPort": 80, "protocol": "tcp"}],
}


def _deployed_by_somebody(work: Work) -> None:
    """The live one of a pair, behind the account's load balancer."""
    seed = work.aws.seed()
    keys = {"aws_access_key_id": "AKIASANDBOX", "aws_secret_access_key": "any"}
    ecs = boto3.client("ecs", region_name="us-east-1", endpoint_url=work.aws.url, **keys)
    revision = ecs.register_task_definition(
        family="store",
        requiresCompatibilities=["FARGATE"],
        networkMode="awsvpc",
        cpu="256",
        memory="512",
        executionRoleArn=seed["execution_role_arn"],
        containerDefinitions=[WEB],
    )["taskDefinition"]["taskDefinitionArn"]
    vpc = {
        "subnets": seed["subnets"],
        "securityGroups": [seed["security_group"]],
        "assignPublicIp": "ENABLED",
    }
    group = seed["load_balancer"]["target_groups"]["target1"]
    ecs.create_service(
        cluster="demo",
        serviceName="store__1",
        taskDefinition=revision,
        desiredCount=1,
        launchType="FARGATE",
        networkConfiguration={"awsvpcConfiguration": vpc},
        loadBalancers=[{"targetGroupArn": group, "containerName": "web", "containerPort": 80}],
    )
    wait_until(lambda: _is_steady(ecs), "the ECS service of somebody")


def _is_steady(ecs: Any) -> bool:
    (service,) = ecs.describe_services(cluster="demo", services=["store__1"])["services"]
    (deployment,) = service["deployments"]
    return bool(deployment["rolloutState"] == "COMPLETED")


def test_a_pair_is_adopted_and_deployed_through_a_delegate(work: Work, start: StartDying) -> None:
    start("adopts")
    _deployed_by_somebody(work)
    client = APIClient()
    client.force_login(User.objects.get(username="admin"))
    place = Infrastructure.objects.get()
    SyncedCluster.objects.get_or_create(
        connector=place.connector,
        region=place.region,
        cluster=place.cluster,
        defaults={"last_used_at": place.environment.updated_at},
    )
    client.post(f"/api/v1/infrastructures/{place.pk}/sync")
    address = f"/api/v1/infrastructures/{place.pk}/unknown-services"
    wait_until(lambda: "store__1" in _names(client.get(address).json()), "sync", 60)
    before = work.mark()

    response = client.post(
        f"/api/v1/infrastructures/{place.pk}/adoptions", {"ecs_service": "store__1"}, format="json"
    )
    assert response.status_code == 202, response.content
    at = f"/api/v1/adoptions/{response.json()['id']}"
    wait_until(lambda: client.get(at).json()["state"] != "READING", "what is read back", 60)
    adoption = client.get(at).json()
    assert (adoption["state"], adoption["reason"], adoption["trouble"]) == ("READY", "", "")
    (sure,) = [target for target in adoption["traffic"] if target["is_sure"]]
    balancer = work.aws.seed()["load_balancer"]
    assert sure["production"]["rule"] == balancer["prod_listener"]["default_rule_arn"]
    assert sure["stage"]["rule"] == balancer["stage_listener"]["default_rule_arn"]

    names = {"identifier": "store", "name": "Store"}
    adoption_response = client.post(f"{at}/adopt", names, format="json")
    assert (adoption_response.status_code, adoption_response.json()["state"]) == (200, "ADOPTED"), (
        adoption_response.content
    )
    assert adoption_response.json()["adopted_by"] == "admin"
    repeat = client.post(f"{at}/adopt", names, format="json")
    assert (repeat.status_code, repeat.json()["service"]) == (200, "store"), "who lost the answer asks again"
    assert client.post(f"{at}/adopt", {**names, "identifier": "other"}, format="json").status_code == 409

    back = client.post(f"{at}/undo")
    assert (back.status_code, back.json()["state"], back.json()["service"]) == (200, "READY", None)
    assert client.post(f"{at}/undo").status_code == 409
    adoption_response = client.post(f"{at}/adopt", names, format="json")
    assert adoption_response.status_code == 200, adoption_response.content
    assert not work.effects(before), "nothing in AWS was changed"

    execution = work.until_over(work.run("", "deploy_store"))
    last_lines = [line["text"] for line in iterate_lines(execution.pk)][-12:]
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), (execution.failure, last_lines)
    assert client.post(f"{at}/undo").status_code == 409
    wait_until(lambda: _state("store__2") == DriftComparison.State.IN_STEP, "the look for drift", 90)
    assert Execution.objects.count() == 1


def _names(page: dict[str, Any]) -> set[str]:
    return {row["name"] for row in page["results"]}


def _state(name: str) -> str:
    return (
        DriftComparison.objects.filter(ecs_service__name=name).values_list("state", flat=True).first() or ""
    )
