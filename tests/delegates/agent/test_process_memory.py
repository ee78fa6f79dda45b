"""What scripts may not read of the agent."""

import subprocess
import sys

MEMORY_SCRIPT = """
import ctypes
from delegates.agent.__main__ import hide_memory
hide_memory()
print(ctypes.CDLL(None).prctl(3, 0, 0, 0, 0))
"""


def test_a_process_that_hides_cannot_be_read_by_others_of_its_user() -> None:
    process = subprocess.run(
        [sys.executable, "-c", MEMORY_SCRIPT], capture_output=True, text=True, check=True
    )
    assert process.stdout.strip() == "0"
