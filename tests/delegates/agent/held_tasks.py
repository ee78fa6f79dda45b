"""Tasks as an agent holds them, for tests that run executors without a manager."""

import contextlib
import random
import time
from pathlib import Path
from typing import Any

from delegates.agent.executors import ExecutorContext, TaskResult, execute_task
from delegates.agent.tasks import AgentTask, HeldTask

# What root may do in a container of Fargate; https://github.com/aws/containers-roadmap/issues/409
_FARGATE = (
    "chown,dac_override,fowner,fsetid,kill,setgid,setuid,setpcap,net_bind_service,net_raw,sys_chroot,mknod,"
    "audit_write,setfcap"
)
AS_ON_FARGATE = ("setpriv", "--bounding-set", f"-all,+{_FARGATE.replace(',', ',+')}", "--inh-caps", "-all")


class MemoryLog(list[str]):
    """A task's log in memory."""

    def write(self, level: str, text: str) -> None:
        self.append(text)


def create_task(kind: str, params: dict[str, Any], *, age: float = 0, **extra_fields: Any) -> HeldTask:
    """Create a task that was acquired `age` seconds ago."""
    fields = {"id": "t", "fence": 1, "timeout_seconds": 20.0, **extra_fields}
    return HeldTask(AgentTask(kind=kind, params=params, acquired_at=time.monotonic() - age, **fields))


def run_task(
    kind: str, params: dict[str, Any], *, lines: MemoryLog | None = None, **fields: Any
) -> TaskResult:
    """Run a task to its end."""
    return execute_task(
        create_task(kind, params, **fields), ExecutorContext(lines if lines is not None else MemoryLog())
    )


def get_error(result: TaskResult) -> dict[str, Any]:
    """Return the error of a failed task."""
    assert result.error is not None, result
    return dict(result.error)


def choose_duration() -> str:
    """Choose a sleep duration that no other process of this machine uses."""
    return f"600.{random.randrange(10**12):012}"


def list_sleepers(duration: str) -> list[int]:
    """Return the processes that sleep this long, in all namespaces."""
    process_ids = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if line.read_bytes().split(b"\0")[:2] == [b"sleep", duration.encode()]:
                process_ids.append(int(line.parent.name))
    return process_ids


def open_to_all_users(folder: Path) -> None:
    """Let the users of tasks reach `folder` through all of its parents that pytest made."""
    while folder.stat().st_mode & 0o005 != 0o005:
        folder.chmod(0o755)
        folder = folder.parent
