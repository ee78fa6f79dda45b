"""What stands against a change is named before anything is saved."""

from dataclasses import replace
from typing import Any

import pytest

from inventory.strategy_changes.obstacles import list_service_obstacles, list_setting_obstacles
from inventory.strategy_changes.readings import ServiceReading
from inventory.strategy_changes.strategies import CLASSIC, ROLLING, StrategySettings
from tests.inventory.strategy_changes.readings import (
    BLUE,
    GREEN,
    PRODUCTION,
    ROLE,
    TEST,
    build_option,
    build_reading,
)

READING = build_reading()
production, test = READING.get_rule(PRODUCTION), READING.get_rule(TEST)
assert production
assert test
CANARY = StrategySettings("CANARY", BLUE, GREEN, production.reference, test.reference, ROLE)
NATIVE: dict[str, Any] = {"deploymentConfiguration": {"strategy": "BLUE_GREEN"}}


def test_a_running_service_changes_to_each_strategy() -> None:
    assert READING.strategy == ROLLING
    assert READING.find_production() == production
    assert READING.live_groups == [BLUE]
    for settings in (CANARY, replace(CANARY, strategy=CLASSIC), StrategySettings(ROLLING, BLUE)):
        assert list(list_service_obstacles(READING, settings.strategy)) == []
        assert list(list_setting_obstacles(READING, settings)) == []


@pytest.mark.parametrize(
    ("changes", "strategy", "text"),
    [
        ({"schedulingStrategy": "DAEMON"}, "CANARY", "rolling only"),
        ({"deployments": [{"status": "PRIMARY"}, {"status": "ACTIVE"}]}, ROLLING, "is running"),
        ({"loadBalancers": []}, CLASSIC, "no load balancer"),
        ({"loadBalancers": [{"targetGroupArn": BLUE}, {"targetGroupArn": GREEN}]}, "LINEAR", "several"),
        (NATIVE, CLASSIC, "changes to rolling first"),
        ({"deploymentController": {"type": "CODE_DEPLOY"}, "deployments": []}, ROLLING, "no task set"),
        ({"desiredCount": 0, "runningCount": 0}, ROLLING, "runs no service"),
    ],
)
def test_what_no_settings_mend_is_named(changes: dict[str, Any], strategy: str, text: str) -> None:
    assert text in " ".join(list_service_obstacles(build_reading(**changes), strategy))


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        (replace(CANARY, target_group=""), "TRAFFIC_WOULD_BE_LOST"),
        (StrategySettings(ROLLING), "TRAFFIC_WOULD_BE_LOST"),
        (replace(CANARY, production=None), "Choose the production rule"),
        (replace(CANARY, production=test.reference), "does not send traffic to the service"),
        (replace(CANARY, alternate_group=BLUE), "has the production traffic"),
        (replace(CANARY, alternate_group=""), "Choose the target group"),
        (replace(CANARY, test=None), "sends traffic to the target group for the new version"),
        (replace(CANARY, test=production.reference), "are the same"),
        (replace(CANARY, role="admin"), "ARN of the role"),
        (replace(CANARY, strategy=CLASSIC, test=None), "Choose the stage rule"),
    ],
)
def test_settings_that_would_lose_traffic_are_named(settings: StrategySettings, text: str) -> None:
    assert text in " ".join(list_setting_obstacles(READING, settings))


def test_the_live_half_of_a_pair_is_the_one_with_production_traffic() -> None:
    option = build_option(serviceName="shop__2")
    reading = ServiceReading.from_option("shop", option)
    assert (reading.strategy, reading.service["serviceName"]) == (CLASSIC, "shop__2")
