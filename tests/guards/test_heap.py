"""Free memory of a process goes back to the system, and large blocks leave no holes in its heap."""

import subprocess
import sys

RELEASE = """
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

PLACE = """
import sys
from pathlib import Path
from guards.heap import allocate_large_blocks_apart

def is_in_heap(block):
    line = next(line for line in Path("/proc/self/maps").read_text().splitlines() if line.endswith("[heap]"))
    first, last = (int(address, 16) for address in line.split()[0].split("-"))
    return first <= id(block) < last

if sys.argv[1] == "apart":
    allocate_large_blocks_apart()
freed = bytes(8_000_000)
del freed
print(is_in_heap(bytes(1_000_000)))
"""


def test_garbage_in_front_of_something_in_use_goes_back_to_the_system() -> None:
    kept, left = map(float, run(RELEASE).split())
    assert kept > 60
    assert left < 30


def test_a_large_block_stays_out_of_the_heap_also_after_a_larger_one_was_freed() -> None:
    assert run(PLACE, "as by default") == "True\n"
    assert run(PLACE, "apart") == "False\n"


def run(program: str, *arguments: str) -> str:
    command = [sys.executable, "-c", program, *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout
