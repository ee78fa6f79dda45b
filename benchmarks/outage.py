"""A minute without PostgreSQL while a script runs at a delegate: its lost lines, and the time to catch up."""

import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.goals import Figure
from benchmarks.soak.history import NUMBERED, Limits, check_history
from benchmarks.soak.records import HistoryReader
from benchmarks.soak.site import Site, start_site
from benchmarks.soak.workload import GOOD_TAGS, NUMBERED_LINES, SCRIPT, create_script
from tests.fixtures.processes import wait_until

OUTAGE_SECONDS: Final = 60.0
# The script prints for ten seconds, so it ends in the middle of the outage.
LONGEST_START, LONGEST_END = 60.0, 300.0
LIMITS: Final = Limits(open=0, overdue=0)
FEWEST_LINES: Final = 30
PRINTING: Final = f"SELECT 1 FROM deployments_logchunk WHERE last > {FEWEST_LINES}"
ENDED: Final = "SELECT 1 FROM deployments_execution WHERE ended_at IS NOT NULL AND due_at IS NULL"


class OutageFailed(RuntimeError):
    """The script did not run as it should: nothing to measure."""


def report() -> Iterator[str | Figure]:
    """Stop the database in the middle of a script, start it a minute later, and compare the lines."""
    with (
        tempfile.TemporaryDirectory(prefix="slipway-outage-", ignore_cleanup_errors=True) as folder,
        start_site(Path(folder)) as site,
    ):
        path = f"pipelines/{create_script(site).id}/executions"
        site.post(path, {"artifact": {"tag": GOOD_TAGS[0]}})
        wait_until(lambda: bool(site.query(PRINTING)), "the first lines of the script", LONGEST_START)
        if site.query(ENDED):
            raise OutageFailed("the script ended before the outage")
        database = site.installation.database
        database.stop(signal.SIGQUIT)
        time.sleep(OUTAGE_SECONDS)
        began = time.monotonic()
        database.start()
        wait_until(lambda: bool(site.query(ENDED)), "the end of the script", LONGEST_END)
        seconds = time.monotonic() - began
        lost = _count_lost(site)
    yield Figure("R5 lost", lost)
    yield Figure("R5 caught up", seconds)
    yield f"{lost} of {NUMBERED_LINES} lines were lost; the script ended {seconds:.1f} s after the outage"


def _count_lost(site: Site) -> int:
    """Return how many lines of the script its log lacks, stated or not. Raises `OutageFailed`."""
    reader = HistoryReader(
        site, numbered_lines=NUMBERED_LINES, scripts=frozenset({SCRIPT}), pairs=frozenset()
    )
    history = reader.read()
    if any(row.status != "SUCCESS" for row in history.executions):
        raise OutageFailed(f"the script ended with {history.executions}")
    if wrong := [breach for breach in check_history(history, LIMITS) if breach.promise != "a missing line"]:
        raise OutageFailed(", ".join(map(str, wrong)))
    stored = {text for log in history.logs for text in log.texts if text.startswith(NUMBERED)}
    return NUMBERED_LINES - len(stored)
