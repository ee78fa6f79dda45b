"""What the processes of a worker hold and use, as the kernel counts it."""

import os
import time
from dataclasses import dataclass
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")
TICKS = os.sysconf("SC_CLK_TCK")
MIB = 1024 * 1024


def family_of(pid: int) -> list[int]:
    """A process and its children, the process first."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return [pid, *(one for child in children for one in family_of(int(child)))]


def resident_mib(pid: int) -> float:
    """The resident memory of one process in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE / MIB


def cpu_seconds(pid: int) -> float:
    """The processor time that one process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


@dataclass(frozen=True)
class Used:
    """What one process held at most, in MiB, and which share of a core it used."""

    pid: int
    mib: float
    cores: float


def watch(pid: int, seconds: float) -> list[Used]:
    """Watch a process and its children for a while, the process first."""
    family = family_of(pid)
    began, before = time.monotonic(), {one: cpu_seconds(one) for one in family}
    most = dict.fromkeys(family, 0.0)
    while time.monotonic() - began < seconds:
        most = {one: max(held, resident_mib(one)) for one, held in most.items()}
        time.sleep(0.5)
    took = time.monotonic() - began
    return [Used(one, most[one], (cpu_seconds(one) - before[one]) / took) for one in family]
