"""Weights of a rule that give the new version a share of the traffic."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from steps.actions.blue_green.traffic_shares import compute_weights


@pytest.mark.parametrize(
    ("old", "percent", "weights"),
    [
        ({"blue": 1}, 10, {"blue": 90, "green": 10}),
        ({"blue": 100}, 50, {"blue": 50, "green": 50}),
        ({"blue": 7}, 100, {"blue": 0, "green": 100}),
        ({"blue": 70, "canary": 30}, 10, {"blue": 63, "canary": 27, "green": 10}),
        ({"blue": 3, "canary": 1}, 50, {"blue": 3, "canary": 1, "green": 4}),
    ],
)
def test_old_groups_share_what_the_new_version_does_not_get(
    old: dict[str, int], percent: int, weights: dict[str, int]
) -> None:
    assert compute_weights(old, "green", percent) == weights


@given(
    st.dictionaries(st.sampled_from("abcd"), st.integers(1, 999), min_size=1),
    st.integers(1, 100),
)
def test_weights_are_those_that_aws_takes_and_near_the_percent(old: dict[str, int], percent: int) -> None:
    weights = compute_weights(old, "green", percent)
    assert all(0 <= weight <= 999 for weight in weights.values())
    assert all(weight > 0 for group, weight in weights.items() if percent < 100 or group == "green")
    assert 100 * weights["green"] / sum(weights.values()) == pytest.approx(percent, abs=1)
