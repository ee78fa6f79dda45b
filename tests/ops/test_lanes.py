"""The lists of the test lanes cover what they say they cover."""

import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import COLLECTED
from tests.lanes import (
    POSTGRES_LIST,
    THOROUGH_LIST,
    find_unmatched,
    list_entries,
    list_thorough,
    load_groups,
    match_tests,
)

TESTS = [
    "tests/a/test_one.py::test_plain",
    "tests/a/test_one.py::test_plain_too",
    "tests/a/test_one.py::test_many[1-a b]",
    "tests/a/test_one.py::test_many[2-[x]]",
    "tests/a/test_one.py::TestClass::test_inside",
    "tests/a/test_two.py::test_plain",
]


@pytest.fixture(scope="module")
def test_ids(pytestconfig: pytest.Config) -> list[str]:
    """The ids of all tests: of this run if it collected them all, else of one that only collects."""
    if pytestconfig.args_source is pytest.Config.ArgsSource.TESTPATHS:
        return pytestconfig.stash[COLLECTED]
    command = [sys.executable, "-m", "pytest", "tests", "--collect-only", "-q", "-p", "no:cacheprovider"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    return [line for line in run.stdout.splitlines() if "::" in line]


@pytest.mark.parametrize(
    ("entry", "numbers"),
    [
        ("tests/a/test_one.py::test_plain", {0}),
        ("tests/a/test_one.py::test_many", {2, 3}),
        ("tests/a/test_one.py::test_many[2-[x]]", {3}),
        ("tests/a/test_one.py::test_many[*a b]", {2}),
        ("tests/a/test_one.py::TestClass", {4}),
        ("tests/a/test_one.py", {0, 1, 2, 3, 4}),
        ("tests/a/test_*.py::test_plain", {0, 5}),
        ("tests/a", {0, 1, 2, 3, 4, 5}),
        ("tests/a/test", set()),
    ],
)
def test_an_entry_covers_examples_tests_classes_and_files(entry: str, numbers: set[int]) -> None:
    assert match_tests([entry], TESTS) == [TESTS[number] for number in sorted(numbers)]
    assert find_unmatched([entry], TESTS) == ([] if numbers else [entry])


@pytest.mark.parametrize(
    ("rules", "gate_numbers"),
    [
        ({}, []),
        ({"examples": 1}, [0]),
        ({"examples": 2}, [0, 9]),
        ({"examples": 4}, [0, 3, 6, 9]),
        ({"examples": 20}, list(range(10))),
        ({"keep": ["a.py::test[4]"]}, [4]),
        ({"keep": ["a.py::test[4]"], "examples": 2}, [0, 4, 9]),
    ],
)
def test_a_group_keeps_examples_in_the_gate(rules: dict[str, Any], gate_numbers: list[int]) -> None:
    examples = [f"a.py::test[{number}]" for number in range(10)]
    thorough = list_thorough(["a.py::other", *examples], [{"tests": ["a.py::test"], **rules}])
    assert [number for number in range(10) if examples[number] not in thorough] == gate_numbers


def test_every_entry_of_the_thorough_list_covers_a_test(test_ids: list[str]) -> None:
    entries = [*list_entries(THOROUGH_LIST), *list_entries(THOROUGH_LIST, "keep")]
    assert find_unmatched(entries, test_ids) == []


def test_every_thorough_group_names_tests_of_the_gate_that_cover_it(test_ids: list[str]) -> None:
    groups = load_groups(THOROUGH_LIST)
    thorough = list_thorough(test_ids, groups)
    gate = [test_id for test_id in test_ids if test_id not in thorough]
    assert {group["name"]: find_unmatched(group["covered_by"], gate) for group in groups} == {
        group["name"]: [] for group in groups
    }
    assert [group["name"] for group in groups if not (group["covered_by"] and group["why"])] == []


def test_every_entry_of_the_postgres_lane_covers_a_test(test_ids: list[str]) -> None:
    assert find_unmatched(list_entries(POSTGRES_LIST), test_ids) == []
