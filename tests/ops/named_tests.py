"""References of documents to tests by their pytest IDs."""

import ast
from collections.abc import Iterable
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def list_missing_tests(tests: Iterable[str]) -> list[str]:
    """Return the pytest IDs, such as `tests/a/test_b.py::test_c`, that name no existing test."""
    return [test for test in tests if not _exists(test)]


def _exists(test: str) -> bool:
    path, _, name = test.partition("::")
    return (ROOT / path).is_file() and name in _list_test_names(path)


@cache
def _list_test_names(path: str) -> frozenset[str]:
    module = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in module.body if isinstance(node, functions))
