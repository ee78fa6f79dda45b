"""What the processes of a worker hold and use, as the kernel counts it."""

import os
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
