"""The log of a blue/green deployment and of its rollback, line by line, ids masked (R236, R243)."""

import re
from pathlib import Path

import pytest

from deployments.log import all_lines
from deployments.models import Execution
from tests.blue_green.world import World

pytestmark = pytest.mark.django_db(transaction=True)

GOLDEN = Path(__file__).parent / "golden"
# How often one looks decides which of these are seen.
PASSING = (
    "# AWS Event: ",
    "Waiting for pending tasks to finish.",
    "Waiting for Service shop__1 to scale down.",
)
MASKS = (
    (r"targetgroup/(\w+)/[0-9a-f]{16}", r"targetgroup/\1/<id>"),
    (r"\b(target\d)/[0-9a-f]{16}", r"\1/<id>"),
    (r"(listener(?:-rule)?/app/demo)(?:/[0-9a-f]{16})+", r"\1/<ids>"),
)


def _masked(execution: Execution, after: int = 0) -> tuple[str, int]:
    """The log as a text, without what passes, and the number of its last line."""
    lines = [line for line in all_lines(execution.pk) if line["number"] > after]
    shown = [line["text"] for line in lines if not line["text"].startswith(PASSING)]
    text = "\n".join(shown) + "\n"
    for pattern, replacement in MASKS:
        text = re.sub(pattern, replacement, text)
    return text, lines[-1]["number"]


def test_the_log_of_a_release_and_of_its_rollback_is_word_for_word_the_documented_one(shop: World) -> None:
    shop.run("1")
    execution = shop.run("2")
    release, last = _masked(execution)
    assert release == (GOLDEN / "release.txt").read_text()
    log = shop.drive.log(execution)
    assert "Waiting for pending tasks to finish. 0/2 running ..." in log
    assert "Waiting for pending tasks to finish. 2/2 running ..." in log
    assert any("registered 1 targets in (target-group arn:" in line for line in log)
    shop.roll_back(execution)
    rollback, _ = _masked(execution, after=last)
    assert rollback == (GOLDEN / "rollback.txt").read_text()
