"""Words that must not come back on pages, in messages and in scripts."""

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = [
    "accounts",
    "aws",
    "catalog",
    "cli",
    "config",
    "connectors",
    "delegates",
    "deployments",
    "gitsync",
    "guards",
    "inventory",
    "notifications",
    "ops",
    "pipelines",
    "policies",
    "rbac",
    "steps",
    "web",
]
FORBIDDEN = (
    "Needs a person",
    "Nothing waits for a decision",
    "None that was connected is away",
    "What counts",
    "Which value counts",
    "Good in",
    "Good for",
    "Came by",
    "Everything that its user may",
    "In force",
    "Keep secret",
    "Keep it",
    "What it is called",
    "Its place in AWS",
    "Kind and size",
    "How the account is entered",
    "Calls go out from",
    "Tags and digests are asked for at",
    "With commas or blanks",
    "What the network has to let out",
    "Told is what happens",
    "Give tasks a public address",
    "those have 12 digits",
    "none got healthy",
    "What ECS said last",
    "Two, so that one may stop",
    "Have it back",
    "Give it to them",
    "Accept them no longer",
    "Slipway made a mistake",
    "You may not do this",
    "Remember the ECS service as it is",
    "Put the ECS service back",
    "What runs where",
    "One more<",
)


def _find_forbidden(text: str) -> list[str]:
    return [word for word in FORBIDDEN if re.search(rf"{re.escape(word)}(?!\w)", text)]


def _list_strings(source: str) -> list[str]:
    return [
        node.value
        for node in ast.walk(ast.parse(source))
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]


@pytest.mark.parametrize("folder", ["templates", "static/js"])
def test_pages_and_scripts_use_no_forbidden_word(folder: str) -> None:
    files = [path for path in (ROOT / folder).rglob("*") if path.suffix in (".html", ".txt", ".js")]
    assert files
    assert {str(path): words for path in files if (words := _find_forbidden(path.read_text()))} == {}


@pytest.mark.parametrize("package", PACKAGES)
def test_literals_use_no_forbidden_word(package: str) -> None:
    violations = {
        str(path): words
        for path in (ROOT / package).rglob("*.py")
        if (words := _find_forbidden("\n".join(_list_strings(path.read_text()))))
    }
    assert violations == {}


def test_the_glossary_has_no_double_entry() -> None:
    rows = re.findall(r"^\| *([^|]+?) *\|", (ROOT / "docs/reference/glossary.md").read_text(), re.M)
    # A row may name several terms: "Account, organization, project".
    terms = [term.lower() for row in rows if not row.startswith("-") for term in row.split(", ")]
    assert len(terms) > 10
    assert sorted(terms) == sorted(set(terms))
