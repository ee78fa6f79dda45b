"""A service of CodeDeploy has task sets, and goes to ECS and back in place, on whatever endpoint."""

from contextlib import ExitStack
from typing import Any

import pytest

from tests.contract.balancer import create_balancer
from tests.contract.endpoint import CLUSTER, Aws
from tests.contract.test_refusals import get_refusal

CHANGES = "ECS developer guide, Update Amazon ECS service parameters"
FAULTS = "ECS developer guide, Troubleshooting Amazon ECS deployment strategy updates"
CODE_DEPLOY, ECS = {"type": "CODE_DEPLOY"}, {"type": "ECS"}


@pytest.fixture
def theirs(aws: Aws) -> Any:
    """A service that CodeDeploy deploys, with its first task set."""
    with ExitStack() as afterwards:
        balancer = create_balancer(aws, afterwards)
        aws.create(loadBalancers=balancer.attached(), deploymentController=CODE_DEPLOY)
        aws.until(
            lambda: aws.service()["taskSets"][0]["stabilityStatus"] == "STEADY_STATE", "the steady state"
        )
        yield aws


@pytest.mark.source("ECS API, TaskSet")
def test_a_service_of_codedeploy_shows_a_primary_task_set_in_place_of_deployments(theirs: Aws) -> None:
    service = theirs.service()
    assert service["deployments"] == []
    (task_set,) = service["taskSets"]
    assert (task_set["status"], task_set["runningCount"]) == ("PRIMARY", 1)
    assert task_set["taskDefinition"] == service["taskDefinition"]


@pytest.mark.source("ECS API, UpdateService")
def test_only_codedeploy_changes_the_task_definition_of_its_services(theirs: Aws) -> None:
    code, message = get_refusal(lambda: theirs.roll("v2"))
    assert code == "InvalidParameterException"
    assert "Unable to update task definition on services with a CODE_DEPLOY" in message
    assert theirs.update(desiredCount=2)["desiredCount"] == 2


@pytest.mark.source(CHANGES)
def test_the_controller_changes_in_place_and_back(theirs: Aws) -> None:
    before = theirs.service()["taskDefinition"]
    taken = theirs.update(deploymentController=ECS)
    assert taken["deploymentController"] == ECS
    assert not taken.get("taskSets")
    service = theirs.until_completed()
    assert (service["taskDefinition"], service["runningCount"]) == (before, 1)
    given_back = theirs.update(deploymentController=CODE_DEPLOY)
    assert given_back["deploymentController"] == CODE_DEPLOY
    assert len(given_back["deployments"]) == 1, "the responses still have deployments, not task sets"


@pytest.mark.source(FAULTS)
def test_a_service_without_a_task_set_keeps_its_controller(aws: Aws) -> None:
    aws.ecs.create_service(
        cluster=CLUSTER,
        serviceName="empty",
        desiredCount=1,
        deploymentController={"type": "EXTERNAL"},
    )
    _, message = get_refusal(
        lambda: aws.ecs.update_service(cluster=CLUSTER, service="empty", deploymentController=ECS)
    )
    assert "requires a primary taskset" in message


@pytest.mark.source(CHANGES)
def test_the_controller_stays_during_a_deployment_and_with_a_circuit_breaker(theirs: Aws) -> None:
    theirs.update(deploymentController=ECS)
    _, message = get_refusal(lambda: theirs.update(deploymentController=CODE_DEPLOY))
    assert "Updating the deployment controller is not supported" in message
    theirs.until_completed()
    theirs.update(deploymentConfiguration={"deploymentCircuitBreaker": {"enable": True, "rollback": True}})
    _, message = get_refusal(lambda: theirs.update(deploymentController=CODE_DEPLOY))
    assert "circuit breaker feature is only supported with ECS deployment controller" in message
