"""The lists of the test lanes cover what they say they cover."""

import subprocess
import sys

import pytest

from tests.conftest import COLLECTED
from tests.lanes import POSTGRES_LIST, find_unmatched, list_entries, match_tests

TESTS = [
    "tests/a/test_one.py::test_plain",
    "tests/a/test_one.py::test_plain_too",
    "tests/a/test_one.py::test_many[1-a b]",
    "tests/a/test_one.py::test_many[2-[x]]",
    "tests/a/test_one.py::TestClass::test_inside",
    "tests/a/test_two.py::test_plain",
]


@pytest.fixture
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
        ("tests/a/test", set()),
    ],
)
def test_an_entry_covers_examples_tests_classes_and_files(entry: str, numbers: set[int]) -> None:
    assert match_tests([entry], TESTS) == {TESTS[number] for number in numbers}
    assert find_unmatched([entry], TESTS) == ([] if numbers else [entry])


def test_every_entry_of_the_postgres_lane_covers_a_test(test_ids: list[str]) -> None:
    assert find_unmatched(list_entries(POSTGRES_LIST), test_ids) == []
