"""The table of requirements on delegates is complete, and its tests exist."""

from ops.documentation.delegate_requirements import STATES, generate, read_requirements
from tests.ops.named_tests import list_missing_tests


def test_every_requirement_is_in_the_table_once_and_in_order() -> None:
    expected = [f"R{number:03}" for number in range(10, 148)]
    assert [requirement.identifier for requirement in read_requirements()] == expected


def test_every_named_test_exists() -> None:
    missing = {
        requirement.identifier: tests
        for requirement in read_requirements()
        if (tests := list_missing_tests(requirement.tests))
    }
    assert missing == {}


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
