"""What ECS will do by its own strategy, in words."""

from typing import Any

import pytest

from steps.actions.ecs_service.native_strategies import describe_strategy

FUNCTION = "arn:aws:lambda:us-east-1:123456789012:function:smoke-test"


@pytest.mark.parametrize(
    ("configuration", "sentence"),
    [
        ({}, ""),
        ({"strategy": "ROLLING", "bakeTimeInMinutes": 5}, ""),
        ({"strategy": "BLUE_GREEN"}, "ECS deploys it BLUE_GREEN: all traffic at once."),
        (
            {
                "strategy": "LINEAR",
                "linearConfiguration": {"stepPercent": 12.5, "stepBakeTimeInMinutes": 1},
                "bakeTimeInMinutes": 5,
            },
            "ECS deploys it LINEAR: 12.5 % of the traffic every 1 minute, then a bake time of 5 minutes.",
        ),
        (
            {
                "strategy": "CANARY",
                "canaryConfiguration": {"canaryPercent": 5.0, "canaryBakeTimeInMinutes": 10},
                "lifecycleHooks": [
                    {"targetType": "PAUSE", "lifecycleStages": ["POST_TEST_TRAFFIC_SHIFT"]},
                    {"hookTargetArn": FUNCTION, "lifecycleStages": ["POST_SCALE_UP", "BAKE_TIME"]},
                ],
                "alarms": {"enable": True, "rollback": True, "alarmNames": ["errors", "latency"]},
            },
            "ECS deploys it CANARY: 5 % of the traffic for 10 minutes, then all of it. It pauses at "
            "POST_TEST_TRAFFIC_SHIFT. Function smoke-test runs at POST_SCALE_UP, BAKE_TIME. An alarm rolls "
            "it back: errors, latency.",
        ),
        ({"strategy": "NEW_ONE"}, "ECS deploys it NEW_ONE."),
    ],
)
def test_a_strategy_is_told_with_its_traffic_pauses_functions_and_alarms(
    configuration: dict[str, Any], sentence: str
):
    assert describe_strategy({"deploymentConfiguration": configuration}) == sentence
