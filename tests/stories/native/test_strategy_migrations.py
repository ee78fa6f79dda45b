"""A rolling service becomes blue/green of ECS in place, and rolling again; a bad version changes nothing."""

from typing import Any

import pytest
import yaml

from connectors.models import FileNode
from deployments.execution.operations import roll_back_execution
from deployments.models import Execution
from tests.stories.native.conftest import SERVICE_FILE, Native

pytestmark = pytest.mark.django_db(transaction=True)

# What each deployment changes.
_MOVES = {"deployments", "events", "currentServiceDeployment", "currentServiceRevisions", "taskDefinition"}
Settings = dict[str, Any]


def choose_rolling(native: Native, target_group: str) -> None:
    """Write a service definition with this target group and without a strategy of ECS."""
    native.choose("ROLLING")
    node = FileNode.objects.get(path=SERVICE_FILE)
    document = yaml.safe_load(node.content)
    for balancer in document["loadBalancers"]:
        del balancer["advancedConfiguration"]
        balancer["targetGroupArn"] = native.shop.group(target_group)
    node.content = yaml.safe_dump(document)
    node.save()


def save_steps(native: Native, deploy: str, rollback: str) -> None:
    document = native.shop.document()
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    execution["steps"] = [{"step": {"type": deploy, "identifier": "deploy", "name": "Deploy"}}]
    execution["rollbackSteps"] = [{"step": {"type": rollback, "identifier": "rollback", "name": "Rollback"}}]
    native.shop.save(document)


def get_settings(native: Native) -> Settings:
    """Return what a deployment leaves as it is."""
    return {key: value for key, value in native.shop.service("shop").items() if key not in _MOVES}


def get_result(execution: Execution) -> tuple[str, str]:
    return execution.status, execution.outcome


def test_a_rolling_service_becomes_blue_green_and_rolling_again(native: Native) -> None:
    choose_rolling(native, "target1")
    save_steps(native, "EcsRollingDeploy", "EcsRollingRollback")
    assert get_result(native.run("1")) == ("SUCCESS", "COMPLETED")
    before, definition = get_settings(native), native.shop.service("shop")["taskDefinition"]

    native.choose("BLUE_GREEN")
    native.save_pipeline({})
    failed = native.shop.run("crash", visited=True)
    assert failed.status == "FAILED", native.log(failed)[-6:]
    assert get_settings(native) == before, "strategy and load balancers are as before"
    assert native.shop.service("shop")["taskDefinition"] == definition
    assert native.shop.forwards(native.shop.prod) == [native.shop.group("target1")]

    assert get_result(native.shop.run("2", visited=True)) == ("SUCCESS", "COMPLETED")
    assert get_settings(native)["deploymentConfiguration"]["strategy"] == "BLUE_GREEN"

    mark = native.shop.drive.mark()
    choose_rolling(native, "target1")
    refused = native.run("3")
    assert refused.failure["code"] == "TRAFFIC_WOULD_BE_LOST"
    assert native.shop.group("target2") in refused.failure["message"]
    assert "UpdateService" not in native.shop.drive.effects(mark)

    choose_rolling(native, "target2")
    back = native.shop.run("3", visited=True)
    assert get_result(back) == ("SUCCESS", "COMPLETED"), native.log(back)[-6:]
    save_steps(native, "EcsRollingDeploy", "EcsRollingRollback")
    last = native.shop.run("4", visited=True)
    assert get_result(last) == ("SUCCESS", "COMPLETED"), native.log(last)[-6:]
    assert get_settings(native)["deploymentConfiguration"]["strategy"] == "ROLLING"
    assert native.shop.meetings == [], "production always had a healthy target"


def test_a_rollback_to_a_rolling_service_asks_before_it_leaves_the_production_traffic(native: Native) -> None:
    choose_rolling(native, "target1")
    save_steps(native, "EcsRollingDeploy", "EcsRollingRollback")
    native.run("1")
    native.choose("BLUE_GREEN")
    native.save_pipeline({})
    execution = native.shop.run("2", visited=True)
    mark = native.shop.drive.mark()
    roll_back_execution(actor=native.shop.drive.deployer, execution=execution)
    for _ in range(120):
        native.shop.drive.pass_time(1)
        native.shop.visit()
        execution.refresh_from_db()
        if execution.status == "INTERVENTION_WAITING":
            break
    assert execution.status == "INTERVENTION_WAITING", native.log(execution)[-8:]
    assert any("Production traffic goes to target group" in line for line in native.log(execution))
    assert "UpdateService" not in native.shop.drive.effects(mark)
    assert native.shop.meetings == []
