"""A blue/green pair is taken over with its load balancer, its listeners and rules, and deployed."""

from typing import Any

import pytest
import yaml

from catalog.models import Infrastructure
from deployments.models import Execution
from inventory.models.adoption import Adoption
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceRecord, ServiceInstance
from inventory.operations.adoptions import (
    RUNTIME_INPUT,
    AdoptionSpec,
    adopt_service,
    list_unmanaged_services,
    read_for_adoption,
)
from rbac.models import User
from tests.fixtures.engine_driver import Drive
from tests.inventory.adoption.foreign_services import STATES, adopted, make, read, settle
from tests.inventory.drift.scans import compared, drifts, state, synced
from tests.stories.blue_green.shop import Shop
from web.http.problems import BadInput, Conflict

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(drive: Drive) -> Shop:
    """The account's load balancer, and what a client would meet there."""
    return Shop(drive, drive.sandbox.seed()["load_balancer"])


def pair(world: Shop, *names: str, group: str = "target1", **fields: Any) -> None:
    """Somebody has deployed these ones of a pair, the first live in the group of production."""
    other = "target2" if group == "target1" else "api2"
    for name, where, count in zip(names, (group, other), (2, 0), strict=False):
        balancers = [{"targetGroupArn": world.group(where), "containerName": "web", "containerPort": 80}]
        settings = {"desiredCount": count, "loadBalancers": balancers, **fields}
        make(world.drive, name, task={"family": "store"}, **settings)


def spec_of(adoption: Adoption) -> dict[str, Any]:
    """The settings of the step that creates the stage service."""
    steps = document(adoption)["stages"][0]["stage"]["spec"]["execution"]["steps"]
    found: dict[str, Any] = steps[0]["step"]["spec"]
    return found


def document(adoption: Adoption) -> dict[str, Any]:
    assert adoption.pipeline is not None
    found: dict[str, Any] = yaml.safe_load(adoption.pipeline.yaml)["pipeline"]
    return found


def run(world: Shop, adoption: Adoption, tag: str = "", **choices: Any) -> Execution:
    assert adoption.pipeline is not None
    world.drive.pipeline = adoption.pipeline
    return world.until_over(world.drive.start(tag, **choices))


def test_a_pair_is_adopted_with_its_listeners_and_deployed_there_and_back(world: Shop) -> None:
    pair(world, "store__1", "store__2")
    synced()
    before = world.drive.mark()
    adoption = adopted("store__1")
    assert world.drive.effects(before) == []
    prod, stage = world.prod, world.stage
    assert spec_of(adoption) == {
        "loadBalancer": world.balancer["arn"],
        "prodListener": prod["arn"],
        "prodListenerRuleArn": prod["default_rule_arn"],
        "stageListener": stage["arn"],
        "stageListenerRuleArn": stage["default_rule_arn"],
    }
    assert "variables" not in document(adoption)
    assert drifts() == []
    assert state("store__1") == DriftComparison.State.IN_STEP
    owners = EcsServiceRecord.objects.filter(name__startswith="store").values_list("service", flat=True)
    assert set(owners) == {adoption.service_id}, "both of the pair are ours"
    assert not list_unmanaged_services(Infrastructure.objects.get()).filter(name__startswith="store").exists()

    was = _state(world)
    bad = run(world, adoption, "crash")
    assert (bad.status, bad.outcome) == ("FAILED", "ROLLED_BACK"), world.drive.log(bad)[-8:]
    assert _state(world) == was
    assert drifts() == []
    assert state("store__1") == DriftComparison.State.IN_STEP

    good = run(world, adoption)
    assert (good.status, good.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(good)[-8:]
    assert world.forwards(prod) == [world.group("target2")]
    assert world.forwards(stage) == [world.group("target1")]
    assert world.service("store__2")["runningCount"] == 2
    assert world.service("store__1")["desiredCount"] == 0
    assert drifts() == [], "the one that was adopted is the idle one now"
    assert state("store__2") == DriftComparison.State.IN_STEP
    live = ServiceInstance.objects.filter(ecs_service__name="store__2", stopped_at=None)
    assert set(live.values_list("origin", "execution")) == {("EXECUTION", good.pk)}


def test_one_that_was_deployed_once_finds_its_stage_by_the_same_conditions(world: Shop) -> None:
    pair(world, "store__1", group="api1")
    synced()
    adoption = adopted("store__1")
    assert spec_of(adoption)["prodListenerRuleArn"] == world.prod["path_rule_arn"]
    assert spec_of(adoption)["stageListenerRuleArn"] == world.stage["path_rule_arn"]
    good = run(world, adoption)
    assert (good.status, good.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(good)[-8:]
    assert world.forwards(world.prod, path=True) == [world.group("api2")]
    assert drifts() == []


def test_a_pair_behind_a_network_load_balancer_has_listeners_and_no_rules(world: Shop) -> None:
    seed = world.drive.sandbox.seed()
    made = world.call("elbv2", "CreateLoadBalancer", Name="net", Type="network", Subnets=seed["subnets"])
    arn, groups, listeners = made["LoadBalancers"][0]["LoadBalancerArn"], [], []
    for name, port in (("live", 80), ("next", 8080)):
        group = world.call(
            "elbv2",
            "CreateTargetGroup",
            Name=f"net-{name}",
            Protocol="TCP",
            Port=80,
            VpcId=seed["vpc"],
            TargetType="ip",
            HealthCheckIntervalSeconds=8,
            HealthCheckTimeoutSeconds=5,
        )
        groups.append(group["TargetGroups"][0]["TargetGroupArn"])
        listener = world.call(
            "elbv2",
            "CreateListener",
            LoadBalancerArn=arn,
            Protocol="TCP",
            Port=port,
            DefaultActions=[{"Type": "forward", "TargetGroupArn": groups[-1]}],
        )
        listeners.append(listener["Listeners"][0]["ListenerArn"])
    world.balancer = {"target_groups": {"target1": groups[0], "target2": groups[1]}}
    pair(world, "store__1", "store__2")
    synced()
    adoption = adopted("store__1")
    assert spec_of(adoption) == {
        "loadBalancer": arn,
        "prodListener": listeners[0],
        "prodListenerRuleArn": "",
        "stageListener": listeners[1],
        "stageListenerRuleArn": "",
    }
    good = run(world, adoption)
    assert (good.status, good.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(good)[-8:]
    assert drifts() == []


def test_what_is_not_there_is_said_exactly_and_asked_for_by_variables(world: Shop) -> None:
    world.call("elbv2", "DeleteListener", ListenerArn=world.stage["arn"])
    pair(world, "store__1")
    synced()
    adoption = adopted("store__1", traffic=world.prod["default_rule_arn"])
    (said,) = [one for one in adoption.warnings if "No stage rule found" in one]
    assert "a target group of type ip with protocol HTTP and port 80" in said
    assert "load balancer demo" in said
    assert spec_of(adoption) == {
        "loadBalancer": world.balancer["arn"],
        "prodListener": world.prod["arn"],
        "prodListenerRuleArn": world.prod["default_rule_arn"],
        "stageListener": "<+pipeline.variables.stageListener>",
        "stageListenerRuleArn": "<+pipeline.variables.stageListenerRuleArn>",
    }
    with pytest.raises(BadInput) as refused:
        run(world, adoption)
    assert [one["path"] for one in refused.value.errors] == ["inputs.stageListener"]
    forward = [{"Type": "forward", "TargetGroupArn": world.group("target2")}]
    made = world.call(
        "elbv2",
        "CreateListener",
        LoadBalancerArn=world.balancer["arn"],
        Protocol="HTTP",
        Port=8081,
        DefaultActions=forward,
    )
    listener = made["Listeners"][0]["ListenerArn"]
    good = run(world, adoption, inputs={"stageListener": listener})
    assert (good.status, good.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(good)[-8:]


def test_a_person_may_choose_to_be_asked_at_each_run(world: Shop) -> None:
    pair(world, "store__1", "store__2")
    synced()
    adoption = adopted("store__1", traffic=RUNTIME_INPUT)
    assert set(document(adoption)["variables"]) == set(spec_of(adoption))
    given = {"loadBalancer": "demo", "prodListener": world.prod["arn"], "stageListener": world.stage["arn"]}
    good = run(world, adoption, inputs=given)
    assert (good.status, good.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(good)[-8:]


def test_where_several_fit_a_person_has_to_choose(world: Shop) -> None:
    pair(world, "store__1")
    forward = [{"Type": "forward", "TargetGroupArn": world.group("target1")}]
    world.call(
        "elbv2",
        "CreateListener",
        LoadBalancerArn=world.balancer["arn"],
        Protocol="HTTP",
        Port=8443,
        DefaultActions=forward,
    )
    synced()
    found, admin = read("store__1"), User.objects.get(username="admin")
    with pytest.raises(BadInput) as refused:
        adopt_service(actor=admin, adoption=found, spec=AdoptionSpec("taken", "Taken"))
    assert [one["path"] for one in refused.value.errors] == ["traffic"]
    with pytest.raises(BadInput, match="Choose the listener rules"):
        adopt_service(
            actor=admin, adoption=found, spec=AdoptionSpec("taken", "Taken", traffic="arn:of-nobody")
        )
    key = next(one["production"]["key"] for one in found.traffic["options"])
    chosen = next(one for one in _keys(found) if one.startswith(key))
    done = adopt_service(actor=admin, adoption=found, spec=AdoptionSpec("taken", "Taken", traffic=chosen))
    assert spec_of(done)["prodListenerRuleArn"] == key


def test_a_denied_call_is_named_and_everything_else_is_read(world: Shop) -> None:
    pair(world, "store__1", "store__2")
    synced()
    world.drive.sandbox.fault("denied", service="elbv2", operation="DescribeListeners")
    found = read("store__1")
    world.drive.sandbox.clear_faults()
    assert found.state == STATES.READY
    assert any("elasticloadbalancing:DescribeListeners" in one for one in found.warnings)
    admin = User.objects.get(username="admin")
    done = adopt_service(actor=admin, adoption=found, spec=AdoptionSpec("taken", "Taken"))
    assert set(document(done)["variables"]) == set(spec_of(done))


def test_the_idle_one_of_a_pair_is_refused_and_names_the_live_one(world: Shop) -> None:
    pair(world, "store__1", "store__2")
    synced()
    found = read("store__2")
    assert found.state == STATES.REFUSED
    assert "Adopt the production service store__1" in found.reason


def test_one_with_a_circuit_breaker_is_refused_before_every_deployment_would_be(world: Shop) -> None:
    breaker = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    pair(world, "store__1", deploymentConfiguration=breaker)
    synced()
    found = read("store__1")
    assert found.state == STATES.REFUSED
    assert "deploymentCircuitBreaker" in found.reason
    world.call("ecs", "UpdateService", cluster="demo", service="store__1", deploymentConfiguration={
        "deploymentCircuitBreaker": {"enable": False, "rollback": False}
    })  # fmt: skip
    settle(world.drive)
    synced()
    assert read("store__1").state == STATES.READY


def test_one_that_is_only_called_like_a_pair_is_taken_over_by_itself(world: Shop) -> None:
    make(world.drive, "batch__1")
    synced()
    adoption = adopted("batch__1", strategy="Rolling")
    world.drive.pipeline = adoption.pipeline
    good = world.drive.run()
    assert (good.status, good.outcome) == ("SUCCESS", "COMPLETED")
    assert world.service("batch__1")["runningCount"] == 2
    assert drifts() == []


def test_the_other_one_of_a_pair_that_is_ours_is_nobodys_to_adopt(world: Shop) -> None:
    pair(world, "store__1")
    synced()
    adopted("store__1")
    pair(world, "store__2", group="api1")
    EcsServiceRecord.objects.filter(name="store__2").update(service=None)
    compared()
    admin, place = User.objects.get(username="admin"), Infrastructure.objects.get()
    with pytest.raises((BadInput, Conflict)):
        read_for_adoption(actor=admin, infrastructure=place, ecs_service="store__2")


def _keys(adoption: Adoption) -> list[str]:
    return [f"{one['production']['key']} {one['stage']['key']}" for one in adoption.traffic["options"]]


def _state(world: Shop) -> dict[str, Any]:
    """What a rollback must bring back; the idle one is made again, with another ARN."""
    kept = ("taskDefinition", "desiredCount", "runningCount", "loadBalancers", "status")
    services = {
        name: {key: world.service(name).get(key) for key in kept} for name in ("store__1", "store__2")
    }
    return {"prod": world.forwards(world.prod), "stage": world.forwards(world.stage), **services}
