"""Heaps of glibc: their number in one process, and the release of their free memory."""

import ctypes
import gc
import os
from typing import Final

HEAPS: Final = 2
# Of mallopt(3) in glibc.
_M_ARENA_MAX: Final = -8
_M_MMAP_THRESHOLD: Final = -3
_LARGE_BYTES: Final = 128 * 1024


def limit_heaps(heaps: int = HEAPS) -> None:
    """Let all threads share so many heaps of glibc; call it before the first thread starts.

    By default there are eight for each core, and each of them keeps what it once needed: web servers grew by
    3 MiB an hour for as long as they were measured. `MALLOC_ARENA_MAX` sets another number. Other C libraries
    have one heap, or manage them otherwise.
    """
    _set_option(_M_ARENA_MAX, heaps, "MALLOC_ARENA_MAX")


def allocate_large_blocks_apart() -> None:
    """Keep blocks of 128 KiB and more out of the heaps for good, so that they leave no holes there.

    By itself glibc raises this limit up to 32 MiB, to the size of the largest such block freed so far.
    `MALLOC_MMAP_THRESHOLD_` sets another one.
    """
    _set_option(_M_MMAP_THRESHOLD, _LARGE_BYTES, "MALLOC_MMAP_THRESHOLD_")


def _set_option(option: int, value: int, variable: str) -> None:
    """Set an option of glibc, unless the operator has set the variable of the same meaning."""
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    if mallopt is not None and variable not in os.environ:
        mallopt(option, value)


def release_free_memory() -> None:
    """Collect garbage, and give the free pages of all heaps back to the system.

    By itself glibc returns only the free end of a heap, and Python collects cycles of old objects when there
    are many. In an agent it takes 20 to 60 ms of processor, nearly all of it for the garbage: the heaps of a
    web server take 1 to 5 ms.
    """
    gc.collect()
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)
