"""The sandbox ends whenever it is told to, whatever it does at that moment."""

import json
import subprocess
import sys

import pytest

from tests.fixtures.processes import ROOT
from tests.sandbox.endings import WAYS

ROUNDS = 4


@pytest.mark.timeout(240)
def test_it_ends_at_whatever_moment_and_however_often_it_is_told_to() -> None:
    """Before it listens, while calls hang or the door is closed, in the middle of ending already."""
    done = subprocess.run(
        [sys.executable, "-m", "tests.sandbox.endings", str(ROUNDS)],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    assert json.loads(done.stdout) == {f"{way}: 0": ROUNDS for way in WAYS}
