"""Declared outputs of steps are the outputs that their actions set."""

import ast
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest

import steps.actions
from pipelines.definition.deferred_expressions import find_step_problems
from steps.kinds.outputs import list_all_outputs, list_outputs
from steps.kinds.registry import get_step_kinds

ACTIONS = Path(steps.actions.__path__[0])


def _list_set_outputs() -> Iterator[str]:
    """Yield the names that actions pass to `set_outputs`, constants by their value."""
    for file in sorted(ACTIONS.rglob("*.py")):
        place = ".".join(file.relative_to(ACTIONS.parent.parent).with_suffix("").parts)
        for node in ast.walk(ast.parse(file.read_text())):
            if not (isinstance(node, ast.Call) and getattr(node.func, "attr", "") == "set_outputs"):
                continue
            for word in node.keywords:
                if word.arg is not None:
                    yield word.arg
                elif isinstance(word.value, ast.Dict):
                    names = (key.id for key in word.value.keys if isinstance(key, ast.Name))
                    yield from (getattr(import_module(place), name) for name in names)


def test_everything_that_actions_learn_is_listed_as_an_output_of_some_step() -> None:
    outputs = {name for kind in get_step_kinds() for name in list_outputs(kind, {})}
    # What only an undo sets, and what a step that failed left behind.
    only_backward = {
        "configurationRestored",
        "leftTasks",
        "restoredTaskDefinitionArn",
        "rollbackDeploymentId",
        "rollbackRunId",
    }
    set_names = set(_list_set_outputs())
    assert {"serviceName", "waitsUntil", "oldServiceName"} <= set_names
    assert set_names - only_backward <= outputs


def test_only_kinds_of_step_that_exist_are_described() -> None:
    # What provisions has the outputs of what it makes.
    silent = [
        n for n, kind in get_step_kinds().items() if kind.provisions or kind.undoes or n == "ShellScript"
    ]
    assert all(list_outputs(kind, {}) or kind in silent for kind in get_step_kinds())


def test_what_a_spec_names_is_an_output_however_it_is_written() -> None:
    assert "build" in list_outputs("ShellScript", {"outputVariables": [{"name": "build"}, 7, {"name": []}]})
    assert "approverInputs.ticket" in list_outputs(
        "HarnessApproval", {"approverInputs": [{"name": "ticket"}]}
    )
    assert list_outputs("Nothing", None) == {}


def test_every_output_is_known_where_the_step_says_which_it_has() -> None:
    names = [{"name": "build", "type": "String", "value": "BUILD"}]
    assert "build" in (list_all_outputs("ShellScript", {"outputVariables": names}) or ())
    assert "buidl" not in (list_all_outputs("ShellScript", {"outputVariables": names}) or ())
    for unknown in ("<+input>", [{"name": "<+pipeline.variables.name>"}]):
        assert list_all_outputs("ShellScript", {"outputVariables": unknown}) is None
    assert list_all_outputs("Nothing", {}) is None
    assert all(
        list_all_outputs(kind.type, {}) is None for kind in get_step_kinds().values() if kind.provisions
    )


@pytest.mark.parametrize(
    ("output", "is_there"),
    [
        ("approvers", True),
        ("approverInputs", True),
        ("approverInputs.ticket", True),
        ("approverInputs.ticket.number", True),
        ("approverInputs.tikcet", False),
        ("approver", False),
    ],
)
def test_an_output_holds_those_below_it_and_no_others(output: str, is_there: bool) -> None:
    outputs = list_all_outputs("HarnessApproval", {"approverInputs": [{"name": "ticket"}]})
    problems = list(find_step_problems({"url": f"<+steps.ask.output.{output}>"}, {"ask": outputs}, ()))
    assert (not problems) is is_there
