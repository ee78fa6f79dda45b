"""Groups and parallels as they are written: read from the inside out, mistakes named where they stand."""

import sys
from collections.abc import Callable
from textwrap import indent

import pytest

from pipelines.completion.drafts import PipelineDraft
from pipelines.definition.parser import InvalidPipelineError, StageSpec, parse_pipeline
from pipelines.editor.graph import build_graph
from tests.deployments.engine.conftest import DEPLOY, pipeline_text, stage_text

_SPEC = "spec: {duration: 1m}"
_WHEN = "steps.0.step.when"


def _step(name: str, more: str = "", type_: str = "EcsRollingDeploy") -> str:
    return f"- step: {{identifier: {name}, type: {type_}{', ' if more else ''}{more}}}\n"


def _inside(head: str, *entries: str) -> str:
    text, _, kind = head.partition(": ")
    if text == "parallel":
        return "- parallel:\n" + indent("".join(entries), "    ")
    return f"- stepGroup:\n    identifier: {kind}\n" + "    steps:\n" + indent("".join(entries), "      ")


_DEEP = _step("f")
for _name in "edcba":
    _DEEP = _inside(f"group: {_name}", _DEEP)


def _stage(steps: str, more: str = "") -> StageSpec:
    return parse_pipeline(pipeline_text(stage_text(steps, fields=more))).stages[0]


def _list_problems(steps: str, more: str = "") -> list[tuple[str, str, int | None]]:
    with pytest.raises(InvalidPipelineError) as bad:
        _stage(steps, more)
    return [
        (problem.path.partition("execution.")[2], problem.message, problem.line)
        for problem in bad.value.problems
    ]


def test_groups_and_parallels_are_read_with_their_places() -> None:
    stage = _stage(_step("a") + _inside("group: g", _step("b"), _inside("parallel", _step("c"))) + _step("d"))
    assert [step.identifier for step in stage.steps] == ["a", "b", "c", "d"]
    assert [step.group for step in stage.steps] == [None, 0, 1, None]
    assert [(group.kind, group.parent, group.position) for group in stage.groups] == [
        ("GROUP", None, 1),
        ("PARALLEL", 0, 2),
    ]
    assert stage.steps[2].path[2:] == (1, "stepGroup", "steps", 1, "parallel", 0, "step")


def test_a_step_takes_over_what_its_group_says_of_failures_delegates_and_when() -> None:
    steps_text = """- stepGroup:
    identifier: g
    delegateSelectors: [eu]
    when: {stageStatus: Failure, condition: <+env.type> == "x"}
    failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: Ignore}}}]
    steps:
      - step: {identifier: a, type: EcsRollingDeploy}
      - step: {identifier: b, type: EcsRollingDeploy, delegateSelectors: [us], when: {stageStatus: All}}
"""
    stage = _stage(steps_text)
    a, b = stage.steps
    assert stage.groups[0].when == {"stageStatus": "Failure", "condition": '<+env.type> == "x"'}
    assert (a.when, a.selectors, a.selectors_from) == (
        {"stageStatus": "Failure", "condition": None},
        ("eu",),
        "STEP GROUP",
    )
    assert (b.when, b.selectors) == ({"stageStatus": "All", "condition": None}, ("us",))
    assert a.failure_strategies[0]["action"]["type"] == "Ignore"


@pytest.mark.parametrize(
    ("steps", "place", "expected"),
    [
        (_inside("parallel", _step("a"), _step("b")), "steps.0.parallel", "change the same ECS service"),
        (_inside("group: a", _step("a")), "", "2 steps have the identifier a"),
        (_DEEP, "steps.0" + 4 * ".stepGroup.steps.0" + ".stepGroup", "nested at most 4 levels deep"),
        ("- parallel: []\n", "steps.0.parallel", "must not be empty"),
        ("- {}\n", "steps.0", "must have one of step, parallel, stepGroup"),
        ("- {step: {identifier: a, type: X}, parallel: []}\n", "steps.0", "has the keys step and parallel"),
        (_step("a", "when: {condition: '<+env.type> = 1'}"), f"{_WHEN}.condition", "(column 13)"),
        (
            _step("a", "when: {condition: '<+steps.b.output.c>'}") + _step("b"),
            f"{_WHEN}.condition",
            "does not end before",
        ),
        (_step("a", "when: {stageStatus: Never}"), f"{_WHEN}.stageStatus", "Success, Failure, All"),
        (_step("a", "when: {pipelineStatus: All}"), f"{_WHEN}.pipelineStatus", "unknown key"),
    ],
)
def test_a_mistake_is_named_where_it_stands(steps: str, place: str, expected: str) -> None:
    problems = _list_problems(steps)
    path, message, line = next(problem for problem in problems if expected in problem[1])
    assert path == place
    assert line or not place


def test_outputs_of_a_branch_are_known_behind_the_parallel_and_not_beside_it() -> None:
    needs = "spec: {sameAsAlreadyRunningInstances: <+steps.a.output.desiredCount>}"
    first = _step("a")
    assert _stage(_inside("parallel", first) + _step("b", needs))
    problems = _list_problems(_inside("parallel", first, _step("b", needs)))
    assert any("step a does not end before" in message for _, message, _ in problems)


def _build_rollback(entries: str) -> str:
    undo = "- step: {identifier: back_app, type: EcsRollingRollback}"
    stage = stage_text(_step("a"))
    assert undo in stage
    return pipeline_text(stage.replace(undo, entries.strip("\n").replace("\n", "\n          ")))


def test_rollback_steps_lie_in_groups_and_run_whatever_was_before_them() -> None:
    undo = "- step: {identifier: %s, type: EcsRollingRollback%s}\n"
    group = _inside("group: g", undo % ("back", "")).replace(
        "identifier: g\n", "identifier: g\n    when: {condition: <+env.type> == 'x'}\n"
    )
    other = undo % ("other", ", when: {stageStatus: All}")
    (stage,) = parse_pipeline(_build_rollback(group + other)).stages
    assert [(step.identifier, step.group, step.when) for step in stage.rollback_steps] == [
        ("back", 0, None),
        ("other", None, None),
    ]
    (group,) = stage.rollback_groups
    assert (group.name, group.when) == ("g", {"stageStatus": "All", "condition": "<+env.type> == 'x'"})


@pytest.mark.parametrize("more", ["step", "group"])
def test_a_rollback_has_no_failure_strategies(more: str) -> None:
    ignore = "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: Ignore}}}]"
    undo = "- step: {identifier: back, type: EcsRollingRollback%s}\n"
    group = _inside("group: g", undo % "").replace("identifier: g\n", f"identifier: g\n    {ignore}\n")
    text = undo % f", {ignore}" if more == "step" else group
    with pytest.raises(InvalidPipelineError, match="failureStrategies is not allowed in rollback steps"):
        parse_pipeline(_build_rollback(text))


def test_a_group_is_a_frame_around_its_steps_and_branches_have_no_arrows_between_them() -> None:
    steps = _step("a") + _inside(
        "parallel", _step("b"), _inside("group: g", _step("c", type_="Wait", more=_SPEC))
    )
    text = pipeline_text(stage_text(steps + _step("d")))
    (stage,) = build_graph(parse_pipeline(text)).stages
    outer, inner = sorted(stage.frames, key=lambda frame: -frame.height)
    assert [outer.title, inner.title] == ["Parallel", "Group g"]
    assert outer.y < inner.y
    assert inner.y + inner.height <= outer.y + outer.height
    forward = [step for step in stage.steps if not step.is_rollback]
    assert all(box.y + box.height < other.y for box, other in zip(forward, forward[1:], strict=False))
    arrows = [line for line in stage.lines if not line.is_rollback]
    # Into the parallel, and out of it: none from branch to branch.
    assert len(arrows) == 2
    assert all(step.y + step.height < stage.y + stage.height for step in stage.steps)


def test_steps_without_a_name_are_told_apart() -> None:
    waits = "".join(f"- step: {{identifier: {name}, type: Wait, spec: {{duration: 1m}}}}\n" for name in "ab")
    named_step = "- step: {identifier: c, name: Wait, type: Wait, spec: {duration: 1m}}\n"
    (stage,) = parse_pipeline(pipeline_text(stage_text(f"{waits}{named_step}{DEPLOY}"))).stages
    assert [step.name for step in stage.steps] == ["Wait (a)", "Wait (b)", "Wait", "ECS Rolling Deploy"]


def _count_calls(function: Callable[[str], object], text: str) -> int:
    """Return how many functions of Python a call runs."""
    calls = 0

    def count(frame: object, event: str, argument: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        function(text)
    finally:
        sys.setprofile(None)
    return calls


def _write_many_steps(number: int) -> str:
    condition = "when: {condition: <+provisioner.x> == <+steps.s0.output.y>}"
    steps = [_step(f"s{n}", f"{_SPEC}, {condition}" if n % 2 else _SPEC, "Wait") for n in range(number)]
    groups = [_inside(f"group: g{n}", *steps[n : n + 100]) for n in range(0, number, 100)]
    return pipeline_text(stage_text("".join(groups)))


def _find_problems(text: str) -> int:
    with pytest.raises(InvalidPipelineError) as bad:
        parse_pipeline(text)
    return len(bad.value.problems)


def _complete(text: str) -> int:
    draft = PipelineDraft(text)
    return len(draft.list_items([node for node in draft.nodes if node.is_forward][-1]))


@pytest.mark.parametrize("function", [_find_problems, _complete])
def test_thousands_of_steps_take_time_in_proportion_to_their_number(
    function: Callable[[str], object],
) -> None:
    few, many = (_count_calls(function, _write_many_steps(number)) for number in (200, 800))
    assert many < 5 * few


def test_a_pipeline_reports_fifty_of_its_problems() -> None:
    assert _find_problems(_write_many_steps(400)) == 50
