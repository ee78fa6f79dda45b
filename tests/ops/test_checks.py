"""`make check` fails with the output of the target that failed, and with no other."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MAKE = """#!/bin/sh
echo "output of $2"
[ "$2" != "$FAILING" ]
"""


@pytest.mark.parametrize("failing", ["", "types", "test"])
def test_only_a_failed_check_shows_its_output(failing: str, tmp_path: Path) -> None:
    make = tmp_path / "make"
    make.write_text(MAKE)
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "FAILING": failing}
    command = [sys.executable, "-m", "tests.checks"]
    run = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    assert run.returncode == (1 if failing else 0)
    printed_names = {
        name for name in ("lint", "types", "wiring", "test") if f"output of {name}" in run.stdout
    }
    assert printed_names == {"test", failing} - {""}
    assert [name for name in ("lint", "types", "wiring", "test") if f"{name}: FAILED" in run.stdout] == (
        [failing] if failing else []
    )
