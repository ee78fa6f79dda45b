"""Identifiers that must not come back in the code of the product."""

import ast
from collections.abc import Iterator

import pytest

from tests.ops.test_words import PACKAGES, ROOT

FORBIDDEN = {
    "world",
    "door",
    "doors",
    "open_door",
    "door_for",
    "DoorClosed",
    "parking",
    "parked",
    "parked_until",
    "remember",
    "recall",
    "look_at",
    "look_until",
    "nudged_until",
    "next_look",
    "last_look",
    "look_ahead",
    "is_look_over",
    "take_turn",
    "turning",
    "by_turn",
    "told_in",
    "tell_group",
    "tell_success",
    "judge",
    "judge_deployment",
    "DidNot",
    "NobodyKnows",
    "EngineRollout",
    "PreviewRollout",
}


def list_identifiers(source: str) -> Iterator[str]:
    """Yield the names that a module defines or uses: names, attributes, arguments and definitions."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr
        elif isinstance(node, (ast.arg, ast.keyword)):
            yield node.arg or ""
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name


def test_every_sort_of_identifier_is_listed() -> None:
    source = "class A:\n    def b(self, c): return d.e(f=1)\n"
    assert {"A", "b", "c", "d", "e", "f"} <= set(list_identifiers(source))


@pytest.mark.parametrize("package", PACKAGES)
def test_identifiers_use_no_forbidden_word(package: str) -> None:
    found = {
        str(path): words
        for path in (ROOT / package).rglob("*.py")
        if (words := FORBIDDEN.intersection(list_identifiers(path.read_text())))
    }
    assert found == {}
