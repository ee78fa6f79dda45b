"""Keeps the token of this process from the scripts that it runs."""

import ctypes
import sys

_SET_DUMPABLE = 4


def hide_memory() -> None:
    """Close environment and memory in /proc to other processes of this user; root reads them all the same."""
    if sys.platform == "linux":
        ctypes.CDLL(None, use_errno=True).prctl(_SET_DUMPABLE, 0, 0, 0, 0)
