"""Targets follow the tasks behind them, and their health takes time."""

from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.contract.balancer import Balancer
from tests.contract.endpoint import BREAKER, states


@pytest.mark.source("ELBv2 API, TargetHealth")
def test_a_target_is_initial_then_healthy_and_the_deployment_waits_for_it(balancer: Balancer) -> None:
    aws = balancer.aws
    aws.create(loadBalancers=balancer.attached())
    aws.until(lambda: balancer.health() == ["initial"], "the registration of the task", step=1)
    assert aws.service()["deployments"][0]["rolloutState"] == "IN_PROGRESS"
    aws.until(lambda: balancer.health() == ["healthy"], "its health")
    aws.until_completed()
    assert f"(service myapp) registered 1 targets in (target-group {balancer.blue})" in aws.events()


@pytest.mark.source("ELBv2 guide, deregistration delay; ECS developer guide, task lifecycle")
def test_the_target_of_an_old_task_drains_before_it_stops(balancer: Balancer) -> None:
    aws = balancer.aws
    old = aws.create(loadBalancers=balancer.attached())["deployments"][0]["id"]
    aws.until_completed(old)
    aws.roll("v2")
    aws.until(lambda: sorted(balancer.health()) == ["draining", "healthy"], "the draining", step=2)
    (task,) = aws.tasks("STOPPED")
    assert task["lastStatus"] == "DEACTIVATING"
    events = aws.events()
    assert f"(service myapp) deregistered 1 targets in (target-group {balancer.blue})" in events
    assert f"(service myapp, taskSet {old}) has begun draining connections on 1 tasks." in events
    aws.until(lambda: aws.tasks("STOPPED")[0]["lastStatus"] == "STOPPED", "the end of the old task")
    aws.until_completed()
    assert balancer.health() == ["healthy"]


@pytest.mark.source("ECS developer guide, deployment circuit breaker")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_sick_is_unhealthy_and_replaced_until_the_breaker_trips(balancer: Balancer) -> None:
    aws = balancer.aws
    aws.create(loadBalancers=balancer.attached(), deploymentConfiguration=BREAKER)
    aws.advance(90)
    old = aws.service()["deployments"][0]["id"]
    aws.roll("sick")
    aws.advance(40)
    (task, *_) = aws.tasks("STOPPED")
    reason = f"Task failed ELB health checks in (target-group {balancer.blue})"
    assert task["stoppedReason"] == reason
    number = task["taskArn"].rpartition("/")[2]
    assert (
        f"(service myapp) (task {number}) (port 80) is unhealthy in (target-group {balancer.blue})"
        " due to (reason Health checks failed with these codes: [503])."
    ) in aws.events()
    aws.advance(300)
    (deployment,) = aws.service()["deployments"]
    assert deployment["id"] == old
    assert states([deployment]) == [("PRIMARY", "COMPLETED")]


@pytest.mark.source("ECS API, Service: healthCheckGracePeriodSeconds")
@pytest.mark.needs_sandbox("an image that decides how its container ends")
def test_the_grace_period_keeps_a_sick_task_alive(balancer: Balancer) -> None:
    aws = balancer.aws
    aws.create("sick", loadBalancers=balancer.attached(), healthCheckGracePeriodSeconds=120)
    aws.advance(120)
    assert balancer.health() == ["unhealthy"]
    assert aws.tasks("STOPPED") == []
    aws.advance(60)
    assert len(aws.tasks("STOPPED")) == 1


@pytest.mark.source("ELBv2 API, TargetHealth: Target.NotInUse")
@pytest.mark.needs_sandbox("a load balancer within milliseconds")
def test_a_group_without_a_listener_is_refused_and_its_targets_never_get_healthy(balancer: Balancer) -> None:
    aws, elb = balancer.aws, balancer.aws.client("elbv2")
    idle = [{"targetGroupArn": balancer.green, "containerName": "web", "containerPort": 80}]
    with pytest.raises(ClientError, match="does not have an associated load balancer"):
        aws.create(loadBalancers=idle)
    aws.create(loadBalancers=balancer.attached())
    elb.delete_listener(ListenerArn=balancer.listener)
    aws.advance(120)
    assert balancer.health() == ["unused"]
    assert aws.service()["deployments"][0]["rolloutState"] == "IN_PROGRESS"


@pytest.mark.source("ECS API, LoadBalancer: containerName, containerPort")
@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"containerName": "ghost"}, "The container ghost does not exist in the task definition."),
        ({"containerPort": 81}, "did not have a container port 81 defined."),
    ],
)
def test_a_target_group_must_fit_the_containers(
    balancer: Balancer, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(ClientError, match=words):
        balancer.aws.create(loadBalancers=[{**balancer.attached()[0], **changes}])


@pytest.mark.source("ELBv2 API, TargetGroupTuple: Weight")
def test_a_listener_forwards_only_to_groups_and_weights_that_exist(balancer: Balancer) -> None:
    elb = balancer.aws.client("elbv2")

    def weigh(weight: int, group: str) -> None:
        forward = {"TargetGroups": [{"TargetGroupArn": group, "Weight": weight}]}
        actions = [{"Type": "forward", "ForwardConfig": forward}]
        elb.modify_listener(ListenerArn=balancer.listener, DefaultActions=actions)

    with pytest.raises(ClientError, match="0 to 999"):
        weigh(1000, balancer.green)
    with pytest.raises(ClientError, match="TargetGroupNotFound|not found"):
        weigh(1, balancer.green[:-3] + "000")
    weigh(1, balancer.green)
    groups = elb.describe_target_groups(TargetGroupArns=[balancer.blue, balancer.green])["TargetGroups"]
    assert {g["TargetGroupName"]: len(g["LoadBalancerArns"]) for g in groups} == {"blue": 0, "green": 1}
