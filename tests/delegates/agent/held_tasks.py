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


class Said(list[str]):
    """A task's log in memory."""

    def write(self, level: str, text: str) -> None:
        self.append(text)


def held_task(kind: str, params: dict[str, Any], *, age: float = 0, **more: Any) -> HeldTask:
    """A task that was acquired `age` seconds ago."""
    fields = {"id": "t", "fence": 1, "timeout_seconds": 20.0, **more}
    return HeldTask(AgentTask(kind=kind, params=params, acquired_at=time.monotonic() - age, **fields))


def run(kind: str, params: dict[str, Any], *, said: Said | None = None, **more: Any) -> TaskResult:
    """Run a task to its end."""
    return execute_task(
        held_task(kind, params, **more), ExecutorContext(said if said is not None else Said())
    )


def error_of(answer: TaskResult) -> dict[str, Any]:
    """The error of an answer that must have one."""
    assert answer.error is not None, answer
    return dict(answer.error)


def unique_nap() -> str:
    """Seconds to sleep that no other process of this machine sleeps."""
    return f"600.{random.randrange(10**12):012}"


def sleepers(nap: str) -> list[int]:
    """Return the processes that sleep this long, in all namespaces."""
    process_ids = []
    for line in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            if line.read_bytes().split(b"\0")[:2] == [b"sleep", nap.encode()]:
                process_ids.append(int(line.parent.name))
    return process_ids


def open_to_all(folder: Path) -> None:
    """Let the users of tasks reach `folder` through all of its parents that pytest made."""
    while folder.stat().st_mode & 0o005 != 0o005:
        folder.chmod(0o755)
        folder = folder.parent
