"""Service definitions and pipelines are rewritten for a strategy, and keep everything else."""

import json
from typing import Any

import pytest
import yaml

from catalog.manifests.yaml_drafts import NotEditable
from inventory.strategy_changes.definitions import change_definition, change_pipeline, choose_template
from inventory.strategy_changes.strategies import CLASSIC, ROLLING, RuleReference, StrategySettings
from pipelines.definition.parser import parse_pipeline

DEFINITION = """\
# The shop
serviceName: shop
deploymentConfiguration:
  maximumPercent: 200
  deploymentCircuitBreaker: {enable: true, rollback: true}
loadBalancers:
  - targetGroupArn: arn:blue  # production
    containerName: web
    containerPort: 80
"""
PIPELINE = """\
pipeline:
  identifier: shop
  name: Shop
  stages:
    - stage:
        identifier: deploy
        name: Deploy
        type: Deployment
        spec:
          deploymentType: ECS
          service: {serviceRef: shop}
          environment: {environmentRef: dev, infrastructureDefinitions: [{identifier: main}]}
          execution:
            steps:
              # Tests come first
              - step: {type: Wait, identifier: wait, name: Wait, spec: {duration: 1m}}
              - step: {type: EcsRollingDeploy, identifier: roll, name: Roll}
            rollbackSteps:
              - step: {type: EcsRollingRollback, identifier: back, name: Back}
"""
STAGE = ("pipeline", "stages", 0)
PRODUCTION = RuleReference("demo", "arn:listener/80", "arn:rule/80")
TEST = RuleReference("demo", "arn:listener/8080", "arn:rule/8080")
CANARY = StrategySettings(
    "CANARY", "arn:blue", "arn:green", PRODUCTION, TEST, role="arn:role", percent=10, service="shop"
)


def read(text: str) -> Any:
    return yaml.safe_load(text)


def list_types(pipeline: str) -> tuple[list[str], list[str]]:
    (stage,) = parse_pipeline(pipeline).stages
    return [step.type for step in stage.steps], [step.type for step in stage.rollback_steps]


def test_a_canary_of_ecs_gets_both_target_groups_and_the_rules() -> None:
    text = change_definition(DEFINITION, CANARY)
    assert text.startswith("# The shop\n")
    definition = read(text)
    assert definition["deploymentConfiguration"] == {
        "maximumPercent": 200,
        "deploymentCircuitBreaker": {"enable": True, "rollback": True},
        "strategy": "CANARY",
        "bakeTimeInMinutes": 5,
        "canaryConfiguration": {"canaryPercent": 10, "canaryBakeTimeInMinutes": 5},
    }
    (balancer,) = definition["loadBalancers"]
    assert balancer["targetGroupArn"] == "arn:blue"
    assert balancer["advancedConfiguration"] == {
        "alternateTargetGroupArn": "arn:green",
        "productionListenerRule": "arn:rule/80",
        "testListenerRule": "arn:rule/8080",
        "roleArn": "arn:role",
    }


def test_back_to_rolling_the_target_group_is_the_one_with_traffic() -> None:
    native = change_definition(DEFINITION, CANARY)
    definition = read(change_definition(native, StrategySettings(ROLLING, "arn:green")))
    assert definition["deploymentConfiguration"]["strategy"] == "ROLLING"
    assert "canaryConfiguration" not in definition["deploymentConfiguration"]
    (balancer,) = definition["loadBalancers"]
    assert balancer == {"targetGroupArn": "arn:green", "containerName": "web", "containerPort": 80}


def test_blue_green_of_slipway_has_no_circuit_breaker_and_chooses_the_target_group() -> None:
    settings = StrategySettings(CLASSIC, "arn:blue", production=PRODUCTION, test=TEST)
    definition = read(change_definition(DEFINITION, settings))
    assert definition["deploymentConfiguration"] == {"maximumPercent": 200}
    assert definition["loadBalancers"][0]["targetGroupArn"] == "<+targetGroupArn>"


def test_json_stays_json() -> None:
    text = change_definition(json.dumps(read(DEFINITION)), CANARY)
    assert json.loads(text)["deploymentConfiguration"]["strategy"] == "CANARY"


def test_several_load_balancers_are_changed_by_hand() -> None:
    definition = read(DEFINITION)
    definition["loadBalancers"].append({"targetGroupArn": "arn:other"})
    with pytest.raises(NotEditable, match="several load balancers"):
        change_definition(yaml.safe_dump(definition), CANARY)


def test_a_stage_gets_the_steps_of_the_strategy_and_keeps_its_own() -> None:
    text = change_pipeline(PIPELINE, STAGE, CANARY, template="Native")
    assert "# Tests come first" in text
    assert list_types(text) == (["Wait", "EcsNativeDeploy"], ["EcsNativeRollback"])


def test_blue_green_of_slipway_gets_the_listeners() -> None:
    settings = StrategySettings(CLASSIC, production=PRODUCTION, test=TEST)
    text = change_pipeline(PIPELINE, STAGE, settings, template="BlueGreen")
    (stage,) = parse_pipeline(text).stages
    assert stage.steps[1].spec["prodListenerRuleArn"] == "arn:rule/80"
    assert stage.steps[1].spec["stageListener"] == "arn:listener/8080"
    assert list_types(change_pipeline(text, STAGE, StrategySettings(ROLLING), template="Rolling")) == (
        ["Wait", "EcsRollingDeploy"],
        ["EcsRollingRollback"],
    )


def test_a_service_of_codedeploy_is_handed_to_ecs_first_and_once() -> None:
    settings = StrategySettings("CANARY", controller="CODE_DEPLOY", service="shop")
    text = change_pipeline(PIPELINE, STAGE, settings, template="Native")
    expected = (
        ["EcsChangeController", "Wait", "EcsNativeDeploy"],
        ["EcsNativeRollback", "EcsChangeControllerRollback"],
    )
    assert list_types(text) == expected
    assert list_types(change_pipeline(text, STAGE, settings, template="Native")) == expected


def test_a_strategy_inside_a_group_is_changed_by_hand() -> None:
    document = read(PIPELINE)
    execution = document["pipeline"]["stages"][0]["stage"]["spec"]["execution"]
    group = {"identifier": "group", "name": "Group", "steps": [execution["steps"].pop()]}
    execution["steps"].append({"stepGroup": group})
    with pytest.raises(NotEditable, match="in a group"):
        change_pipeline(yaml.safe_dump(document), STAGE, CANARY, template="Native")


@pytest.mark.parametrize(
    ("strategy", "running", "template"),
    [
        ("ROLLING", "BLUE_GREEN", "Native"),
        ("ROLLING", "ROLLING", "Rolling"),
        ("ROLLING", "SLIPWAY_BLUE_GREEN", "Rolling"),
        ("LINEAR", "CODE_DEPLOY", "Native"),
        ("SLIPWAY_BLUE_GREEN", "ROLLING", "BlueGreen"),
    ],
)
def test_the_steps_fit_both_the_running_and_the_new_strategy(
    strategy: str, running: str, template: str
) -> None:
    assert choose_template(strategy, running) == template
