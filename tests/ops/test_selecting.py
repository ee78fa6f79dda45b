"""Which tests run on PostgreSQL too follows from what they ask for, and from no list of tests."""

from collections import Counter

import pytest

CONFTEST = """
import pytest
from tests.selecting import mark_for_postgres

@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items):
    mark_for_postgres(items)

@pytest.fixture
def db(): pass

@pytest.fixture
def chromium(): pass

@pytest.fixture
def person(db): pass

@pytest.fixture
def page(chromium): pass
"""
TESTS = """
import pytest
many = pytest.mark.parametrize("number", range(60))

def test_plain(): pass
@many
def test_plain_examples(number): pass
def test_with_a_fixture_behind_which_is_the_database(person): pass
@pytest.mark.django_db
def test_with_the_mark(): pass
class TestCase:
    databases = {"default"}
    def test_of_a_case(self): pass
def test_in_a_browser(person, page): pass
@pytest.mark.postgres
def test_in_a_browser_by_hand(person, page): pass
@many
def test_examples(person, number): pass
@many
@pytest.mark.postgres
def test_examples_by_hand(person, number): pass
@pytest.mark.parametrize("number", range(2))
def test_few_examples(person, number): pass
"""
WORTH_A_THIRD = range(10, 31)
PLUGINS = ("-p", "no:django", "-p", "no:asyncio", "-p", "no:cacheprovider")


@pytest.fixture
def chosen(pytester: pytest.Pytester) -> Counter[str]:
    """How many examples of each made-up test run on PostgreSQL."""
    pytester.makeconftest(CONFTEST)
    pytester.makeini("[pytest]\nmarkers =\n  postgres: runs there\n  django_db: asks a database\n")
    pytester.makepyfile(TESTS)
    run = pytester.inline_run("--collect-only", "-m", "postgres", *PLUGINS)
    items = run.getcall("pytest_collection_finish").session.items
    return Counter(item.name.partition("[")[0].removeprefix("test_") for item in items)


def test_what_asks_the_database_without_a_browser_runs_there_and_a_part_of_many_examples(
    chosen: Counter[str],
) -> None:
    some = chosen.pop("examples")
    assert some in WORTH_A_THIRD
    assert chosen.pop("few_examples") >= 1
    assert chosen == {
        "with_a_fixture_behind_which_is_the_database": 1,
        "with_the_mark": 1,
        "of_a_case": 1,
        "in_a_browser_by_hand": 1,
        "examples_by_hand": 60,
    }
