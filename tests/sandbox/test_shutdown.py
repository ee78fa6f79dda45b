"""The sandbox ends whenever it is told to, whatever it does at that moment."""

import json
import subprocess
import sys

import pytest

from tests.fixtures.processes import ROOT
from tests.sandbox.shutdown_rounds import MIDDLE

ROUNDS = 4


@pytest.mark.timeout(240)
def test_it_ends_at_whatever_moment_and_however_often_it_is_told_to() -> None:
    """Before it listens, while calls hang or the door is closed, in the middle of ending already."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.shutdown_rounds", str(ROUNDS)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    ends = json.loads(process.stdout)
    assert ends["input closed"] == ends[MIDDLE] == {"0": ROUNDS}
    # A signal that comes before the sandbox listens for signals ends it at once.
    assert {result for results in ends.values() for result in results} <= {"0", "-15"}, ends
