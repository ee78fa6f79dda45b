"""Wall clocks of processes that a soak shifts, by a library in front of the C library."""

import shutil
import struct
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_FORMAT: Final = "=q"


class ClocksUnavailable(RuntimeError):
    """Error raised without a C compiler, which the library needs."""

    def __init__(self) -> None:
        super().__init__("no C compiler was found, so no clock can be shifted")


@dataclass(frozen=True)
class Clock:
    """File with the shift of a clock in seconds, and the environment of the processes that follow it."""

    path: Path
    variables: Mapping[str, str]


def build_clock_library(folder: Path) -> Path | None:
    """Compile the library that shifts the clock of a process; None without a C compiler."""
    compiler = shutil.which("cc")
    if compiler is None:
        return None
    library = folder / "shifted_clock.so"
    source = Path(__file__).with_name("shifted_clock.c")
    subprocess.run([compiler, "-shared", "-fPIC", "-O2", "-o", library, source, "-ldl"], check=True)
    return library


def create_clock(folder: Path, name: str, library: Path | None) -> Clock:
    """Create a clock that is right; without the library, no process follows it."""
    path = folder / f"{name}.clock"
    set_shift(path, 0)
    return Clock(path, {"LD_PRELOAD": str(library), "SOAK_CLOCK": str(path)} if library else {})


def set_shift(path: Path, seconds: int) -> None:
    """Set the shift of a clock; the processes that follow it see it at once."""
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(struct.pack(_FORMAT, seconds))
