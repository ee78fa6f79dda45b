"""The ready rules of the documentation, on the examples of their documents."""

import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from policies.conditions import CelDocument, evaluate_condition
from policies.subjects import EXAMPLES

PAGE = Path(__file__).resolve().parents[2] / "docs/how-to/set-policies.md"
RULES = re.findall(
    r"^### (.+?)\n\nSubject: (\w+).*?```cel\n(.+?)```", PAGE.read_text(), re.DOTALL | re.MULTILINE
)


def violate(title: str, document: dict[str, Any]) -> None:
    """Change the example so that it violates a rule."""
    if "latest" in title or "version numbers" in title:
        document["artifact"]["tag"] = "latest"
    elif "registry" in title:
        document["artifact"]["image"] = "other.example.com/shop"
    elif "approvers" in title:
        document["stages"][0]["approvals"][0]["minimum"] = 1
    else:
        del document["manifest"]["containerDefinitions"][0]["memory"]


def test_there_are_five_ready_rules() -> None:
    assert len(RULES) == 5


@pytest.mark.parametrize(("title", "subject", "condition"), RULES)
def test_a_ready_rule_is_met_by_the_example_and_not_after_a_violation(
    title: str, subject: str, condition: str
) -> None:
    document = deepcopy(dict(EXAMPLES[subject]))
    assert evaluate_condition(condition.strip(), CelDocument(document))
    violate(title, document)
    assert not evaluate_condition(condition.strip(), CelDocument(document))
