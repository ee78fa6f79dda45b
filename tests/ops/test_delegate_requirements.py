"""The table of requirements on delegates is complete, and its tests exist."""

import ast
from functools import cache
from pathlib import Path

from ops.documentation.delegate_requirements import STATES, generate, read_requirements

ROOT = Path(__file__).resolve().parents[2]


@cache
def list_test_names(path: str) -> frozenset[str]:
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in module.body if isinstance(node, functions))


def test_every_requirement_is_in_the_table_once_and_in_order() -> None:
    expected = [f"R{number:03}" for number in range(10, 148)]
    assert [requirement.identifier for requirement in read_requirements()] == expected


def test_every_named_test_exists() -> None:
    missing = [
        (requirement.identifier, test)
        for requirement in read_requirements()
        for test in requirement.tests
        for path, _, name in [test.partition("::")]
        if not (ROOT / path).is_file() or name not in list_test_names(path)
    ]
    assert missing == []


def test_what_is_done_has_a_test_and_everything_else_a_reason() -> None:
    requirements = read_requirements()
    assert {requirement.state for requirement in requirements} <= set(STATES)
    assert [r.identifier for r in requirements if r.state == "done" and not r.tests] == []
    assert [r.identifier for r in requirements if (r.state == "done") == bool(r.reason)] == []


def test_the_page_has_every_requirement_with_its_tests() -> None:
    (page,) = generate()
    for requirement in read_requirements():
        (row,) = [line for line in page.text.splitlines() if line.startswith(f"| {requirement.identifier} ")]
        assert [name for name in requirement.test_names if f"`{name}`" not in row] == []
