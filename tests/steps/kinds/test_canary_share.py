"""Settings of a canary's share of the traffic."""

from typing import Any

import pytest

from steps.kinds.registry import BadStepError, get_step_kind

KIND = get_step_kind("EcsCanaryDeploy")
TRAFFIC = {"percent": 10, "listener": "arn:listener", "targetGroup": "arn:group"}


@pytest.mark.parametrize(
    ("traffic", "reason"),
    [
        ({}, "needs percent, listener, targetGroup"),
        ({"percent": 10, "listener": "arn:listener"}, "needs targetGroup"),
        ({**TRAFFIC, "percent": 0}, "from 1 to 99"),
        ({**TRAFFIC, "percent": 100}, "from 1 to 99"),
        ({**TRAFFIC, "percent": True}, "from 1 to 99"),
        ({**TRAFFIC, "tasks": 0}, "from 1 to 1,000"),
        ({**TRAFFIC, "targetGroup": 5}, "targetGroup of traffic is a text"),
        ({**TRAFFIC, "weight": 5}, "is a mapping with"),
        ("10", "is a mapping with"),
    ],
)
def test_a_share_that_cannot_work_is_refused_with_the_reason(traffic: Any, reason: str) -> None:
    with pytest.raises(BadStepError, match=reason):
        KIND.parse_spec({"traffic": traffic})


def test_only_a_canary_with_a_share_touches_a_rule() -> None:
    plain, shared = (
        [type(action).__name__ for unit in KIND.build_units(spec) for action in unit.actions]
        for spec in ({}, {"traffic": TRAFFIC})
    )
    added = ["SaveCanaryRule", "AttachCanaryGroup", "ShareCanaryTraffic"]
    assert [name for name in shared if name not in plain] == added
    assert [name for name in shared if name not in added] == plain
