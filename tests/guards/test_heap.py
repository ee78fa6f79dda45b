"""Free memory of a process goes back to the system."""

import subprocess
import sys

PROGRAM = """
from pathlib import Path
from guards.heap import release_free_memory

def read_mebibytes():
    lines = Path("/proc/self/smaps_rollup").read_text().splitlines()
    return next(float(line.split()[1]) / 1024 for line in lines if line.startswith("Pss_Anon:"))

blocks = [bytes(4000) for _ in range(16_000)]
in_use = blocks[-1]
blocks.append(blocks)
del blocks
print(read_mebibytes())
release_free_memory()
print(read_mebibytes())
"""


def test_garbage_in_front_of_something_in_use_goes_back_to_the_system() -> None:
    result = subprocess.run([sys.executable, "-c", PROGRAM], check=True, capture_output=True, text=True)
    kept, left = map(float, result.stdout.split())
    assert kept > 60
    assert left < 30
