"""What each strategy says, line by line. `SLIPWAY_WRITE_GOLDEN=1` writes the files anew; read them."""

import os
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import pytest

from tests.fixtures.engine_driver import Drive
from tests.stories.strategies.conftest import unplayed
from tests.stories.strategies.documented_logs import REFERENCE
from tests.stories.strategies.scenario import Play
from tests.stories.strategies.strategies import STRATEGIES

pytestmark = pytest.mark.django_db(transaction=True)

GOLDEN = Path(__file__).parent / "golden"
FIRST, SECOND, CRASHING = "# The first deployment", "# The next deployment", "# A version that crashes"
MASKS = (
    (r"# AWS Event: \d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+", "# AWS Event: <time>"),
    (r"until \d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "until <time>"),
    (r"\b[0-9a-f]{32}\b", "<id>"),
    (r"ecs-svc/\d+", "ecs-svc/<id>"),
    (r"ervice deployment [\w-]{21}", "ervice deployment <id>"),
    (r"/[0-9a-f]{16}\b", "/<id>"),
)


def mask_lines(lines: Iterable[str]) -> Iterator[str]:
    """Yield the lines without the parts that differ between runs."""
    for line in lines:
        for pattern, word in MASKS:
            line = re.sub(pattern, word, line)
        yield line


@pytest.fixture(params=STRATEGIES, ids=lambda strategy: strategy.name)
def plain(request: pytest.FixtureRequest, drive: Drive, monkeypatch: pytest.MonkeyPatch) -> Play:
    """The demo as it is, on a clock whose looks always fall into the same moments."""
    monkeypatch.setattr("deployments.engine.service_waits.crc32", lambda _: 0)
    # The grid of looks is counted from the epoch.
    now = datetime.now(UTC) + timedelta(seconds=30)
    drive.clock.moment = now + timedelta(seconds=100 - now.timestamp() % 100)
    return unplayed(request.param, drive, is_plain=True)


def test_the_log_is_as_written_down(plain: Play) -> None:
    strategy = plain.strategy
    logs = [
        (title, list(mask_lines(plain.log(plain.run(tag)))))
        for title, tag in ((FIRST, strategy.versions[0]), (SECOND, strategy.versions[1]), (CRASHING, "crash"))
    ]
    text = "\n".join(line for title, lines in logs for line in (title, "", *lines, "")) + "\n"
    file = GOLDEN / f"{strategy.name}.txt"
    if os.environ.get("SLIPWAY_WRITE_GOLDEN"):
        file.write_text(text)
    assert text.splitlines() == file.read_text().splitlines()


@pytest.mark.parametrize("name", REFERENCE)
def test_the_reference_is_followed_word_for_word(name: str) -> None:
    lines = (GOLDEN / f"{name}.txt").read_text().splitlines()
    remaining = iter(lines[lines.index(SECOND) : lines.index(CRASHING)])
    for pattern in REFERENCE[name]:
        assert any(fnmatchcase(line, pattern.replace("[", "[[]")) for line in remaining), (
            f"nowhere: {pattern}"
        )
