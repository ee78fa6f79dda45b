"""Selection of the tests of each lane: `tests/postgres_lane.toml` lists those that run on PostgreSQL."""

import re
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent
POSTGRES, ALL = "postgres", "all"
LANES = (ALL, POSTGRES)
POSTGRES_LIST = "postgres_lane.toml"


def load_groups(name: str) -> list[dict[str, Any]]:
    """Return the groups of a list in this folder."""
    groups: list[dict[str, Any]] = tomllib.loads((FOLDER / name).read_text())["group"]
    return groups


def list_entries(name: str) -> list[str]:
    """Return the entries of all groups of a list."""
    return [entry for group in load_groups(name) for entry in group["tests"]]


def list_postgres_files() -> set[str]:
    """Return the files that hold the PostgreSQL lane: pytest imports no other for it."""
    return {entry.partition("::")[0] for entry in list_entries(POSTGRES_LIST)}


def match_tests(entries: Iterable[str], test_ids: Sequence[str]) -> set[str]:
    """Return the ids that the entries cover.

    An entry is the id of an example, of a test, of a class or of a file; `*` stands for any text.
    """
    patterns = [re.escape(entry).replace(r"\*", ".*") for entry in entries]
    pattern = re.compile(rf"(?:{'|'.join(patterns)})(?:\[.*|::.*)?", re.DOTALL)
    return {test_id for test_id in test_ids if pattern.fullmatch(test_id)}


def find_unmatched(entries: Iterable[str], test_ids: Sequence[str]) -> list[str]:
    """Return the entries that cover no test."""
    return [entry for entry in entries if not match_tests([entry], test_ids)]


def deselect_tests(lane: str, test_ids: Sequence[str]) -> set[str]:
    """Return the ids that a lane leaves out."""
    if lane == POSTGRES:
        return set(test_ids) - match_tests(list_entries(POSTGRES_LIST), test_ids)
    return set()
