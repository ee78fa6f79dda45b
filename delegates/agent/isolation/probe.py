"""Probe for the strongest isolation that kernel and container allow."""

import functools
import logging
import os
import secrets
import sys

from delegates.agent.isolation.users import CannotIsolate
from delegates.agent.isolation.workspaces import (
    Isolation,
    IsolationLevel,
    TaskWorkspace,
    end_process,
    open_workspace,
)

log = logging.getLogger("slipway.delegate")
_BEGAN = b"began\n"
_STAY = 'echo "$MARK" > "/tmp/$MARK"; echo began; exec sleep 60'
# Succeeds only if no trace of the other task is found; the mark is split so that it does not match itself.
_LOOK = """cat "/tmp/$A$B" >/dev/null 2>&1 && exit 11
for at in /proc/[0-9]*/environ; do grep -q "$A$B" "$at" 2>/dev/null && exit 12; done
: > mine"""


@functools.cache
def detect_isolation() -> Isolation:
    """Return the strongest level that works for this process, tried once."""
    for level in _list_candidates():
        isolation = Isolation(level)
        if problem := _find_fault(isolation):
            log.info("Task isolation with %s is not available: %s", level, problem)
            continue
        return isolation
    return Isolation(IsolationLevel.NONE)


def _list_candidates() -> tuple[IsolationLevel, ...]:
    if sys.platform != "linux":
        return ()
    if os.geteuid() == 0:
        return (IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS, IsolationLevel.NAMESPACES)
    return (IsolationLevel.NAMESPACES,)


def _find_fault(isolation: Isolation) -> str:
    """Run two tasks side by side; return an empty text if they are isolated, else the reason."""
    mark = secrets.token_hex(8)
    try:
        with open_workspace(isolation) as first, open_workspace(isolation) as second:
            return _compare(first, second, mark)
    except (CannotIsolate, OSError) as problem:
        return str(problem)


def _compare(first: TaskWorkspace, second: TaskWorkspace, mark: str) -> str:
    path, own = os.environ.get("PATH", os.defpath), first.create_folder("own")
    staying = first.start(["/bin/sh", "-c", _STAY], {"PATH": path, "MARK": mark}, cwd=own)
    try:
        with staying:
            if staying.stdout is None or staying.stdout.readline() != _BEGAN:
                return "a task cannot write to its /tmp"
            parts = {"PATH": path, "A": mark[:8], "B": mark[8:]}
            search = second.start(["/bin/sh", "-c", _LOOK], parts, cwd=second.create_folder("own"))
            with search:
                output = search.stdout.read(1000).decode("utf-8", "replace") if search.stdout else ""
                search.wait()
            faults = {
                0: "",
                11: "a task reads the files of another",
                12: "a task reads the environment of another",
            }
            return faults.get(search.returncode, f"a task ended with {search.returncode}: {output}")
    finally:
        end_process(staying)
