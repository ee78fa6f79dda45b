"""Selection of the tests of each lane: the gate, PostgreSQL, or all of them.

`tests/thorough.toml` lists what the gate leaves out, which the thorough lane runs alone;
`tests/postgres_lane.toml` what runs on PostgreSQL. The database lane has all tests with a database.
"""

import os
import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
GATE, THOROUGH, POSTGRES, DATABASE, ALL = LANES = ("gate", "thorough", "postgres", "database", "all")
LANE_VARIABLE = "SLIPWAY_TESTS_LANE"
POSTGRES_LIST, THOROUGH_LIST = "postgres_lane.toml", "thorough.toml"


def is_thorough() -> bool:
    """Return whether everything is to be tried, as in `make test-all` and in a run of single files."""
    return os.environ.get(LANE_VARIABLE, ALL) not in (GATE, POSTGRES)


def examples(number: int) -> int:
    """Return how many examples a property is tried with: so many in `make test-all`, a fifth in the gate."""
    return number if is_thorough() else max(number // 5, 5)


def load_groups(name: str) -> list[dict[str, Any]]:
    """Return the groups of a list in this folder."""
    groups: list[dict[str, Any]] = tomllib.loads((FOLDER / name).read_text())["group"]
    return groups


def list_entries(name: str, key: str = "tests") -> list[str]:
    """Return the entries of all groups of a list."""
    return [entry for group in load_groups(name) for entry in group.get(key, ())]


def list_postgres_files() -> set[str]:
    """Return the files that hold the PostgreSQL lane: pytest imports no other for it."""
    return {entry.partition("::")[0] for entry in list_entries(POSTGRES_LIST)}


def match_tests(entries: Iterable[str], test_ids: Sequence[str]) -> list[str]:
    """Return the ids that the entries cover, in their order.

    An entry is the id of an example or a test, a class, a file or a folder; `*` stands for any text.
    """
    patterns = [re.escape(entry).replace(r"\*", ".*") for entry in entries]
    pattern = re.compile(rf"(?:{'|'.join(patterns)})(?:\[.*|::.*|/.*)?", re.DOTALL)
    return [test_id for test_id in test_ids if pattern.fullmatch(test_id)]


def find_unmatched(entries: Iterable[str], test_ids: Sequence[str]) -> list[str]:
    """Return the entries that cover no test."""
    return [entry for entry in entries if not match_tests([entry], test_ids)]


def spread_evenly(items: Sequence[str], count: int) -> set[str]:
    """Return `count` items at even distances, from the first to the last."""
    last = len(items) - 1
    return {items[last * number // max(count - 1, 1)] for number in range(count)}


def list_thorough(test_ids: Sequence[str], groups: Iterable[dict[str, Any]]) -> set[str]:
    """Return the ids that the gate leaves out.

    Of each test of a group with `examples`, so many of its examples stay in the gate; `keep` stays anyway.
    """
    thorough: set[str] = set()
    for group in groups:
        by_test: dict[str, list[str]] = {}
        for test_id in match_tests(group["tests"], test_ids):
            by_test.setdefault(test_id.partition("[")[0], []).append(test_id)
        gate_ids = set(match_tests(group["keep"], test_ids)) if "keep" in group else set()
        for examples in by_test.values():
            gate_ids |= spread_evenly(examples, group.get("examples", 0))
        thorough |= {test_id for examples in by_test.values() for test_id in examples} - gate_ids
    return thorough


def deselect_tests(lane: str, test_ids: Sequence[str]) -> set[str]:
    """Return the ids that a lane leaves out."""
    if lane == POSTGRES:
        return set(test_ids).difference(match_tests(list_entries(POSTGRES_LIST), test_ids))
    if lane in (GATE, THOROUGH):
        thorough = list_thorough(test_ids, load_groups(THOROUGH_LIST))
        return thorough if lane == GATE else set(test_ids) - thorough
    return set()
