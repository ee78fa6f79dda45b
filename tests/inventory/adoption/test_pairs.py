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
from tests.inventory.adoption.foreign_services import (
    STATES,
    adopt,
    create_foreign_service,
    read_adoption,
    wait_until_steady,
)
from tests.inventory.drift.scans import get_state, list_drifts, scan_after_sync, sync_cluster
from tests.stories.blue_green.shop import Shop
from web.http.problems import BadInput, Conflict

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def world(drive: Drive) -> Shop:
    """The account's load balancer, and what a client would meet there."""
    return Shop(drive, drive.sandbox.seed()["load_balancer"])


def create_pair(world: Shop, *names: str, group: str = "target1", **fields: Any) -> None:
    """Deploy services of a blue/green pair by hand; the first gets the production traffic."""
    other = "target2" if group == "target1" else "api2"
    for name, group_name, count in zip(names, (group, other), (2, 0), strict=False):
        balancers = [{"targetGroupArn": world.group(group_name), "containerName": "web", "containerPort": 80}]
        settings = {"desiredCount": count, "loadBalancers": balancers, **fields}
        create_foreign_service(world.drive, name, task={"family": "store"}, **settings)


def get_step_spec(adoption: Adoption) -> dict[str, Any]:
    """Return the settings of the step that creates the stage service."""
    steps = load_pipeline(adoption)["stages"][0]["stage"]["spec"]["execution"]["steps"]
    step_spec: dict[str, Any] = steps[0]["step"]["spec"]
    return step_spec


def load_pipeline(adoption: Adoption) -> dict[str, Any]:
    assert adoption.pipeline is not None
    pipeline: dict[str, Any] = yaml.safe_load(adoption.pipeline.yaml)["pipeline"]
    return pipeline


def run_execution(world: Shop, adoption: Adoption, tag: str = "", **choices: Any) -> Execution:
    assert adoption.pipeline is not None
    world.drive.pipeline = adoption.pipeline
    return world.until_over(world.drive.start(tag, **choices))


def test_a_pair_is_adopted_with_its_listeners_and_deployed_there_and_back(world: Shop) -> None:
    create_pair(world, "store__1", "store__2")
    sync_cluster()
    before = world.drive.mark()
    adoption = adopt("store__1")
    assert world.drive.effects(before) == []
    prod, stage = world.prod, world.stage
    assert get_step_spec(adoption) == {
        "loadBalancer": world.balancer["arn"],
        "prodListener": prod["arn"],
        "prodListenerRuleArn": prod["default_rule_arn"],
        "stageListener": stage["arn"],
        "stageListenerRuleArn": stage["default_rule_arn"],
    }
    assert "variables" not in load_pipeline(adoption)
    assert list_drifts() == []
    assert get_state("store__1") == DriftComparison.State.IN_STEP
    owners = EcsServiceRecord.objects.filter(name__startswith="store").values_list("service", flat=True)
    assert set(owners) == {adoption.service_id}, "both of the pair are ours"
    assert not list_unmanaged_services(Infrastructure.objects.get()).filter(name__startswith="store").exists()

    state_before = _read_state(world)
    failed_execution = run_execution(world, adoption, "crash")
    assert (failed_execution.status, failed_execution.outcome) == ("FAILED", "ROLLED_BACK"), world.drive.log(
        failed_execution
    )[-8:]
    assert _read_state(world) == state_before
    assert list_drifts() == []
    assert get_state("store__1") == DriftComparison.State.IN_STEP

    execution = run_execution(world, adoption)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(execution)[-8:]
    assert world.forwards(prod) == [world.group("target2")]
    assert world.forwards(stage) == [world.group("target1")]
    assert world.service("store__2")["runningCount"] == 2
    assert world.service("store__1")["desiredCount"] == 0
    assert list_drifts() == [], "the one that was adopted is the idle one now"
    assert get_state("store__2") == DriftComparison.State.IN_STEP
    running_instances = ServiceInstance.objects.filter(ecs_service__name="store__2", stopped_at=None)
    assert set(running_instances.values_list("origin", "execution")) == {("EXECUTION", execution.pk)}


def test_one_that_was_deployed_once_finds_its_stage_by_the_same_conditions(world: Shop) -> None:
    create_pair(world, "store__1", group="api1")
    sync_cluster()
    adoption = adopt("store__1")
    assert get_step_spec(adoption)["prodListenerRuleArn"] == world.prod["path_rule_arn"]
    assert get_step_spec(adoption)["stageListenerRuleArn"] == world.stage["path_rule_arn"]
    execution = run_execution(world, adoption)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(execution)[-8:]
    assert world.forwards(world.prod, path=True) == [world.group("api2")]
    assert list_drifts() == []


def test_a_pair_behind_a_network_load_balancer_has_listeners_and_no_rules(world: Shop) -> None:
    seed = world.drive.sandbox.seed()
    response = world.call("elbv2", "CreateLoadBalancer", Name="net", Type="network", Subnets=seed["subnets"])
    arn, groups, listeners = response["LoadBalancers"][0]["LoadBalancerArn"], [], []
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
    create_pair(world, "store__1", "store__2")
    sync_cluster()
    adoption = adopt("store__1")
    assert get_step_spec(adoption) == {
        "loadBalancer": arn,
        "prodListener": listeners[0],
        "prodListenerRuleArn": "",
        "stageListener": listeners[1],
        "stageListenerRuleArn": "",
    }
    execution = run_execution(world, adoption)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(execution)[-8:]
    assert list_drifts() == []


def test_what_is_not_there_is_said_exactly_and_asked_for_by_variables(world: Shop) -> None:
    world.call("elbv2", "DeleteListener", ListenerArn=world.stage["arn"])
    create_pair(world, "store__1")
    sync_cluster()
    adoption = adopt("store__1", traffic=world.prod["default_rule_arn"])
    (warning,) = [text for text in adoption.warnings if "No stage rule found" in text]
    assert "a target group of type ip with protocol HTTP and port 80" in warning
    assert "load balancer demo" in warning
    assert get_step_spec(adoption) == {
        "loadBalancer": world.balancer["arn"],
        "prodListener": world.prod["arn"],
        "prodListenerRuleArn": world.prod["default_rule_arn"],
        "stageListener": "<+pipeline.variables.stageListener>",
        "stageListenerRuleArn": "<+pipeline.variables.stageListenerRuleArn>",
    }
    with pytest.raises(BadInput) as error:
        run_execution(world, adoption)
    assert [entry["path"] for entry in error.value.errors] == ["inputs.stageListener"]
    forward_actions = [{"Type": "forward", "TargetGroupArn": world.group("target2")}]
    response = world.call(
        "elbv2",
        "CreateListener",
        LoadBalancerArn=world.balancer["arn"],
        Protocol="HTTP",
        Port=8081,
        DefaultActions=forward_actions,
    )
    listener = response["Listeners"][0]["ListenerArn"]
    execution = run_execution(world, adoption, inputs={"stageListener": listener})
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(execution)[-8:]


def test_a_person_may_choose_to_be_asked_at_each_run(world: Shop) -> None:
    create_pair(world, "store__1", "store__2")
    sync_cluster()
    adoption = adopt("store__1", traffic=RUNTIME_INPUT)
    assert set(load_pipeline(adoption)["variables"]) == set(get_step_spec(adoption))
    inputs = {"loadBalancer": "demo", "prodListener": world.prod["arn"], "stageListener": world.stage["arn"]}
    execution = run_execution(world, adoption, inputs=inputs)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), world.drive.log(execution)[-8:]


def test_where_several_fit_a_person_has_to_choose(world: Shop) -> None:
    create_pair(world, "store__1")
    forward_actions = [{"Type": "forward", "TargetGroupArn": world.group("target1")}]
    world.call(
        "elbv2",
        "CreateListener",
        LoadBalancerArn=world.balancer["arn"],
        Protocol="HTTP",
        Port=8443,
        DefaultActions=forward_actions,
    )
    sync_cluster()
    adoption, admin = read_adoption("store__1"), User.objects.get(username="admin")
    with pytest.raises(BadInput) as error:
        adopt_service(actor=admin, adoption=adoption, spec=AdoptionSpec("taken", "Taken"))
    assert [entry["path"] for entry in error.value.errors] == ["traffic"]
    with pytest.raises(BadInput, match="Choose the listener rules"):
        adopt_service(
            actor=admin, adoption=adoption, spec=AdoptionSpec("taken", "Taken", traffic="arn:of-nobody")
        )
    key = next(option["production"]["key"] for option in adoption.traffic["options"])
    option_key = next(candidate for candidate in _list_keys(adoption) if candidate.startswith(key))
    adopted = adopt_service(
        actor=admin, adoption=adoption, spec=AdoptionSpec("taken", "Taken", traffic=option_key)
    )
    assert get_step_spec(adopted)["prodListenerRuleArn"] == key


def test_a_denied_call_is_named_and_everything_else_is_read(world: Shop) -> None:
    create_pair(world, "store__1", "store__2")
    sync_cluster()
    world.drive.sandbox.fault("denied", service="elbv2", operation="DescribeListeners")
    adoption = read_adoption("store__1")
    world.drive.sandbox.clear_faults()
    assert adoption.state == STATES.READY
    assert any("elasticloadbalancing:DescribeListeners" in warning for warning in adoption.warnings)
    admin = User.objects.get(username="admin")
    adopted = adopt_service(actor=admin, adoption=adoption, spec=AdoptionSpec("taken", "Taken"))
    assert set(load_pipeline(adopted)["variables"]) == set(get_step_spec(adopted))


def test_the_idle_one_of_a_pair_is_refused_and_names_the_live_one(world: Shop) -> None:
    create_pair(world, "store__1", "store__2")
    sync_cluster()
    adoption = read_adoption("store__2")
    assert adoption.state == STATES.REFUSED
    assert "Adopt the production service store__1" in adoption.reason


def test_one_with_a_circuit_breaker_is_refused_before_every_deployment_would_be(world: Shop) -> None:
    breaker = {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}
    create_pair(world, "store__1", deploymentConfiguration=breaker)
    sync_cluster()
    adoption = read_adoption("store__1")
    assert adoption.state == STATES.REFUSED
    assert "deploymentCircuitBreaker" in adoption.reason
    world.call("ecs", "UpdateService", cluster="demo", service="store__1", deploymentConfiguration={
        "deploymentCircuitBreaker": {"enable": False, "rollback": False}
    })  # fmt: skip
    wait_until_steady(world.drive)
    sync_cluster()
    assert read_adoption("store__1").state == STATES.READY


def test_one_that_is_only_called_like_a_pair_is_taken_over_by_itself(world: Shop) -> None:
    create_foreign_service(world.drive, "batch__1")
    sync_cluster()
    adoption = adopt("batch__1", strategy="Rolling")
    world.drive.pipeline = adoption.pipeline
    execution = world.drive.run()
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")
    assert world.service("batch__1")["runningCount"] == 2
    assert list_drifts() == []


def test_the_other_one_of_a_pair_that_is_ours_is_nobodys_to_adopt(world: Shop) -> None:
    create_pair(world, "store__1")
    sync_cluster()
    adopt("store__1")
    create_pair(world, "store__2", group="api1")
    EcsServiceRecord.objects.filter(name="store__2").update(service=None)
    scan_after_sync()
    admin, infrastructure = User.objects.get(username="admin"), Infrastructure.objects.get()
    with pytest.raises((BadInput, Conflict)):
        read_for_adoption(actor=admin, infrastructure=infrastructure, ecs_service="store__2")


def _list_keys(adoption: Adoption) -> list[str]:
    return [
        f"{option['production']['key']} {option['stage']['key']}" for option in adoption.traffic["options"]
    ]


def _read_state(world: Shop) -> dict[str, Any]:
    """Return the state that a rollback must restore; the idle service is created again with another ARN."""
    fields = ("taskDefinition", "desiredCount", "runningCount", "loadBalancers", "status")
    services = {
        name: {key: world.service(name).get(key) for key in fields} for name in ("store__1", "store__2")
    }
    return {"prod": world.forwards(world.prod), "stage": world.forwards(world.stage), **services}
