"""Settings of the step that shifts traffic by parts, and its place in a stage."""

from typing import Any

import pytest

from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from steps.kinds.registry import BadStepError, get_step_kind
from tests.deployments.engine.conftest import pipeline_text, stage_text

KIND = get_step_kind("EcsBlueGreenTrafficShift")
SHARES = [{"weight": 10, "bakeTime": "5m"}, {"weight": 100}]


@pytest.mark.parametrize(
    ("spec", "reason"),
    [
        ({"steps": []}, "1 to 20 weights"),
        ({"steps": "<+pipeline.variables.steps>"}, "a list of"),
        ({"steps": [{"weight": 0}]}, "from 1 to 100"),
        ({"steps": [{"weight": 101}]}, "from 1 to 100"),
        ({"steps": [{"weight": True}]}, "from 1 to 100"),
        ({"steps": [{"weight": "10"}]}, "from 1 to 100"),
        ({"steps": [{"bakeTime": "5m"}]}, "weight and bakeTime"),
        ({"steps": [{"weight": 10, "bake": "5m"}]}, "weight and bakeTime"),
        ({"steps": [{"weight": 50, "bakeTime": "5m"}, {"weight": 10}]}, "step 2: weight rises"),
        ({"steps": [{"weight": 50, "bakeTime": "5m"}, {"weight": 50}]}, "step 2: weight rises"),
        ({"steps": [{"weight": 10}, {"weight": 50}]}, "only the last"),
        ({"steps": [{"weight": 10, "bakeTime": 5}]}, "bakeTime is a text"),
        ({"steps": [{"weight": 10, "bakeTime": "8d"}]}, "bakeTime is from 1s"),
        ({"steps": [{"weight": 10}], "alarms": ["errors"]}, "none has one"),
        ({"steps": SHARES, "alarms": [""]}, "alarms is a list of names"),
        ({"steps": SHARES, "metrics": [{"namespace": "App"}]}, "metric 1: it needs"),
    ],
)
def test_a_spec_that_cannot_work_is_refused_with_the_reason(spec: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadStepError, match=reason):
        KIND.parse_spec(spec)


def test_each_weight_is_a_shift_of_its_own_and_bakes_take_longer_than_the_timeout() -> None:
    spec = {"steps": SHARES, "alarms": ["errors"]}
    titles = [action.title for unit in KIND.build_units(spec) for action in unit.actions]
    assert titles == [
        "Save the listener rules and the live service",
        "Verify alarms before the shift",
        "Wait for healthy targets of the new version",
        "Suspend scale-in of the live service",
        "Verify production traffic before the swap",
        "Shift 10 % of traffic to the new version",
        "Bake 10 % of traffic for 5 minutes",
        "Verify production traffic before the swap",
        "Shift 100 % of traffic to the new version",
    ]
    assert KIND.planned_wait_seconds(spec) == 300


@pytest.mark.parametrize(
    ("order", "reason"),
    [
        (("create", "swap", "shift"), "comes before a step of type EcsBlueGreenSwapTargetGroups"),
        (("shift", "create", "swap"), "comes after a step of type EcsBlueGreenCreateService"),
    ],
)
def test_a_shift_has_its_place_between_create_and_swap(order: tuple[str, ...], reason: str) -> None:
    listeners = "loadBalancer: demo, prodListener: 'arn:a', stageListener: 'arn:b'"
    steps = {
        "create": f"{{identifier: create, type: EcsBlueGreenCreateService, spec: {{{listeners}}}}}",
        "shift": "{identifier: shift, type: EcsBlueGreenTrafficShift, spec: {steps: [{weight: 10}]}}",
        "swap": "{identifier: swap, type: EcsBlueGreenSwapTargetGroups}",
    }
    text = pipeline_text(stage_text("\n".join(f"- step: {steps[name]}" for name in order)))
    with pytest.raises(InvalidPipelineError) as refused:
        parse_pipeline(text)
    assert any(reason in problem.message for problem in refused.value.problems)
