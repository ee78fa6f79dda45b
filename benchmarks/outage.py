"""A minute without PostgreSQL while a script runs at a delegate: lost lines, and the time to catch up."""

import math
import signal
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from benchmarks.goals import Figure
from benchmarks.soak.history import NUMBERED, Limits, check_history
from benchmarks.soak.records import HistoryReader
from benchmarks.soak.site import Site, list_early_ends, start_site
from benchmarks.soak.workload import GOOD_TAGS, SCRIPT, create_script
from tests.fixtures.processes import wait_until

OUTAGE_SECONDS: Final = 60.0
# The script prints for 55 seconds, nearly all of them during the outage.
LINES, MOST_STORED_BEFORE = 1_100, 300
LONGEST_START, LONGEST_END = 60.0, 300.0
LIMITS: Final = Limits(open=0, overdue=0)
STORED: Final = "SELECT coalesce(max(last), 0) FROM deployments_logchunk"
ENDED: Final = "SELECT 1 FROM deployments_execution WHERE ended_at IS NOT NULL AND due_at IS NULL"


class OutageFailed(RuntimeError):
    """The outage did not take place in the middle of the script: nothing to measure."""


def report() -> Iterator[str | Figure]:
    """Stop the database in the middle of a script, start it a minute later, and compare the lines."""
    with (
        tempfile.TemporaryDirectory(prefix="slipway-outage-", ignore_cleanup_errors=True) as folder,
        start_site(Path(folder)) as site,
    ):
        path = f"pipelines/{create_script(site, LINES).id}/executions"
        site.post(path, {"artifact": {"tag": GOOD_TAGS[0]}})
        wait_until(lambda: _count_stored(site) > 30, "the first lines of the script", LONGEST_START)
        if (stored := _count_stored(site)) > MOST_STORED_BEFORE or site.query(ENDED):
            raise OutageFailed(f"{stored} lines were stored before the outage")
        site.installation.database.stop(signal.SIGQUIT)
        time.sleep(OUTAGE_SECONDS)
        began = time.monotonic()
        site.installation.database.start()
        while not site.query(ENDED) and time.monotonic() - began < LONGEST_END:
            time.sleep(0.1)
        seconds = time.monotonic() - began
        lost, problems = _check_log(site)
    yield Figure("R5 lost", lost)
    yield Figure("R5 caught up", math.inf if problems else seconds)
    yield f"  {stored} lines of the log before the outage, {LINES} of the script, {lost} of these lost"
    yield f"  the execution ended {seconds:.1f} s after the return of the database"
    yield from (f"  BROKEN {problem}" for problem in problems)


def _count_stored(site: Site) -> int:
    return int(site.query(STORED)[0][0])


def _check_log(site: Site) -> tuple[int, list[str]]:
    """Return how many lines of the script the log lacks, stated or not, and all other problems."""
    reader = HistoryReader(site, numbered_lines=LINES, scripts=frozenset({SCRIPT}), pairs=frozenset())
    history = reader.read()
    problems = [
        f"the script ended with {row.status}" for row in history.executions if row.status != "SUCCESS"
    ]
    problems += [str(breach) for breach in check_history(history, LIMITS)]
    problems += list_early_ends(site)
    return LINES - len(
        {text for log in history.logs for text in log.texts if text.startswith(NUMBERED)}
    ), problems
