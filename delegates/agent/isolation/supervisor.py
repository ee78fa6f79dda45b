"""Supervisor of one command and all its processes; standard library only, run as a script.

It reads a plan, one line of JSON, from standard input, then waits until the parent closes that input.
The parent closes the input when it dies or ends the command at once. The `report` descriptor of the plan
receives errors that prevent the start. Its exit code is the command's; a signal is 128 and its number, as in
shells.
"""

import contextlib
import ctypes
import json
import os
import select
import signal
import stat
import sys
import time
from typing import Any, NoReturn

_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_CAPBSET_DROP = 1, 4, 24
_PR_SET_CHILD_SUBREAPER, _PR_SET_NO_NEW_PRIVS = 36, 38
_NEWNS, _NEWIPC, _NEWUSER, _NEWPID = 0x0002_0000, 0x0800_0000, 0x1000_0000, 0x2000_0000
_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_NOEXEC = 1, 2, 4, 8
_MS_REMOUNT, _MS_BIND, _MS_REC, _MS_PRIVATE = 32, 4096, 16384, 1 << 18
# Flags that a bind mount preserves; a user namespace may not remove them.
_PRESERVED_FLAGS = _MS_RDONLY | _MS_NOSUID | _MS_NODEV | _MS_NOEXEC
_FORWARDED = (signal.SIGTERM, signal.SIGINT)
_LAST_CAPABILITY = 63
END_SECONDS = 10.0
CANNOT_START = 126

_IS_LINUX = sys.platform == "linux"
_libc = ctypes.CDLL(None, use_errno=True)


def main() -> int:
    """Run the command of the plan until it ends, and return the exit code."""
    plan = json.loads(_read_line(0))
    try:
        if _IS_LINUX:
            # Orphaned processes outside the session become children of this process.
            _prctl(_PR_SET_CHILD_SUBREAPER, 1)
        if plan["user"] is not None and not plan["namespaces"]:
            # A killed supervisor, for example without memory, leaves its command's processes running.
            _end_processes(plan["user"], os.getpid())
            _wait_until_ended(plan["user"])
        _enter_namespaces(plan)
        return _CommandProcess(_fork(plan), plan).wait()
    except OSError as problem:
        _report_problem(plan, problem)
        return CANNOT_START


class _CommandProcess:
    """The command, or the first process of its namespaces, with its descendants."""

    def __init__(self, pid: int, plan: dict[str, Any]) -> None:
        self._pid, self._plan = pid, plan
        self._code: int | None = None

    def wait(self) -> int:
        """Wait for the end of the command or of the input; then end the remaining processes."""
        woken, wake = os.pipe()
        os.set_blocking(wake, False)
        signal.set_wakeup_fd(wake)
        for number in (*_FORWARDED, signal.SIGCHLD):
            signal.signal(number, lambda *_: None)
        os.close(self._plan["report"])
        while not self._collect() and self._code is None:
            ready, _, _ = select.select([0, woken], [], [])
            if 0 in ready and not os.read(0, 4096):
                break
            if woken in ready:
                self._forward(os.read(woken, 4096))
        self._end_all()
        return 128 + signal.SIGKILL if self._code is None else self._code

    def _forward(self, numbers: bytes) -> None:
        for number in numbers:
            if number in _FORWARDED:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    # The first process of a namespace passes it on; else the command leads a group.
                    (os.kill if self._plan["namespaces"] else os.killpg)(self._pid, number)

    def _collect(self) -> bool:
        """Collect ended children, and return whether none is left."""
        while True:
            try:
                pid, status = os.waitpid(-1, os.WNOHANG)
            except ChildProcessError:
                return True
            if pid == 0:
                return False
            if pid == self._pid:
                self._code = _get_exit_code(status)
                return False

    def _end_all(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if self._code is None:
                os.kill(self._pid, signal.SIGKILL)
            if not self._plan["namespaces"]:
                os.killpg(self._pid, signal.SIGKILL)
        deadline = time.monotonic() + END_SECONDS
        while time.monotonic() < deadline:
            if not self._plan["namespaces"]:
                _end_processes(self._plan["user"], os.getpid())
            if self._collect():
                return
            time.sleep(0.002)


def _end_processes(user: int | None, ancestor: int) -> None:
    """Kill a user's processes and remove its System V IPC, or kill the descendants of a process."""
    if user is None:
        for pid in _list_descendants(ancestor):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        return
    if (pid := os.fork()) == 0:
        # This user may be unable to read modules that are not loaded by now.
        with contextlib.suppress(OSError, ValueError, LookupError):
            os.setgroups([])
            os.setresgid(user, user, user)
            os.setresuid(user, user, user)
            # All of this user at one moment, so that none escapes by multiplying.
            with contextlib.suppress(ProcessLookupError):
                os.kill(-1, signal.SIGKILL)
            _remove_ipc(user)
        os._exit(0)
    with contextlib.suppress(ChildProcessError):
        os.waitpid(pid, 0)


def _wait_until_ended(user: int) -> None:
    """Wait until no process of a user runs: SIGKILL takes effect after `kill` has returned."""
    deadline = time.monotonic() + END_SECONDS
    while _has_processes(user) and time.monotonic() < deadline:
        time.sleep(0.002)


def _has_processes(user: int) -> bool:
    for name in os.listdir("/proc"):
        with contextlib.suppress(OSError, LookupError):
            if name.isdigit():
                with open(f"/proc/{name}/status", encoding="utf-8", errors="replace") as file:
                    fields = dict(line.split(":", 1) for line in file if ":" in line)
                if fields["Uid"].split()[0] == str(user) and fields["State"].split()[0] not in "ZX":
                    return True
    return False


def _remove_ipc(user: int) -> None:
    """Remove a user's IPC objects: they outlive processes, and the user's next task could read them."""
    for kind in ("shm", "sem", "msg"):
        with contextlib.suppress(OSError), open(f"/proc/sysvipc/{kind}", encoding="utf-8") as file:
            columns = file.readline().split()
            for line in file:
                row = dict(zip(columns, line.split(), strict=False))
                if row["cuid"] == str(user):
                    # IPC_RMID is 0, and so is each further argument that it ignores.
                    getattr(_libc, f"{kind}ctl")(int(row[f"{kind}id" if kind != "msg" else "msqid"]), 0, 0)


def _list_descendants(ancestor: int) -> list[int]:
    parents = {}
    for name in os.listdir("/proc") if _IS_LINUX else ():
        with contextlib.suppress(OSError, ValueError, IndexError):
            if name.isdigit():
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])
    descendants: list[int] = []
    front = {ancestor}
    while front:
        front = {pid for pid, parent in parents.items() if parent in front}
        descendants += front
    return descendants


def _enter_namespaces(plan: dict[str, Any]) -> None:
    """Enter new mount and process namespaces for the command."""
    if not plan["namespaces"]:
        return
    user, group = os.geteuid(), os.getegid()
    kinds = _NEWNS | _NEWPID | _NEWIPC
    if plan["user"] is not None:
        _call("unshare", kinds)
        return
    _call("unshare", kinds | _NEWUSER)
    _write("/proc/self/setgroups", "deny")
    _write("/proc/self/uid_map", f"{user} {user} 1")
    _write("/proc/self/gid_map", f"{group} {group} 1")


def _fork(plan: dict[str, Any]) -> int:
    """Start the command, or a first process for it in separate namespaces."""
    parent = os.getpid()
    if pid := os.fork():
        return pid
    try:
        if plan["namespaces"]:
            _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
            # The parent may have died before; in this process namespace its id is then 0.
            _run_as_init(plan)
        if os.getppid() == parent:
            _replace_process(plan)
    except OSError as problem:
        _report_problem(plan, problem)
    os._exit(CANNOT_START)


def _run_as_init(plan: dict[str, Any]) -> NoReturn:
    """Run as process 1 of the namespaces; when it ends, the kernel ends all others there."""
    _prctl(_PR_SET_DUMPABLE, 0)
    _mount_all(plan)
    if (pid := os.fork()) == 0:
        try:
            _replace_process(plan)
        except OSError as problem:
            _report_problem(plan, problem)
        os._exit(CANNOT_START)
    for number in _FORWARDED:
        signal.signal(number, lambda number, _: _kill_group(pid, number))
    os.close(plan["report"])
    while True:
        ended, status = os.waitpid(-1, 0)
        if ended == pid:
            os._exit(_get_exit_code(status))


def _kill_group(pid: int, number: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, number)


def _mount_all(plan: dict[str, Any]) -> None:
    """Hide folders behind empty ones, mount the required parts of them again, and mount /proc."""
    # The task passes through the folders created here to the mounted ones.
    os.umask(0o022)
    _mount(None, "/", None, _MS_REC | _MS_PRIVATE)
    mounts = [(path, os.open(path, os.O_PATH), writable) for path, writable in plan["shown"]]
    hidden = []
    for number, place in enumerate(plan["hidden"]):
        # The content below another hidden folder is hidden with it.
        if os.path.isdir(place):
            empty = os.path.join(plan["folder"], "private", str(number))
            _mount(_build_inner_path(mounts, plan["folder"], empty), place, None, _MS_BIND)
            hidden.append(place)
    for path, opened, writable in mounts:
        if any(path.startswith(f"{place}/") for place in hidden):
            _mount_path(path, opened, writable)
    if os.path.isdir("/dev/shm"):
        _mount("tmpfs", "/dev/shm", "tmpfs", _MS_NOSUID | _MS_NODEV, "mode=1777,size=67108864")
    if plan["passwd"]:
        _mount(plan["passwd"], "/etc/passwd", None, _MS_BIND)
    _mount("proc", "/proc", "proc", _MS_NOSUID | _MS_NODEV | _MS_NOEXEC)


def _build_inner_path(mounts: list[tuple[str, int, bool]], folder: str, path: str) -> str:
    """Return a path in the task's folder, which a mount may hide by now."""
    opened = next(number for place, number, _ in mounts if place == folder)
    return f"/proc/self/fd/{opened}{path.removeprefix(folder)}"


def _mount_path(path: str, opened: int, writable: bool) -> None:
    if stat.S_ISDIR(os.fstat(opened).st_mode):
        os.makedirs(path, mode=0o755, exist_ok=True)
    else:
        os.makedirs(os.path.dirname(path), mode=0o755, exist_ok=True)
        with open(path, "ab"):
            pass
    _mount(f"/proc/self/fd/{opened}", path, None, _MS_BIND)
    if not writable:
        flags = os.statvfs(path).f_flag & _PRESERVED_FLAGS
        _mount(None, path, None, _MS_REMOUNT | _MS_BIND | _MS_RDONLY | flags)
    os.close(opened)


def _replace_process(plan: dict[str, Any]) -> NoReturn:
    """Replace this process by the command with its user, folder, environment and no new privileges."""
    os.setsid()
    for number in (*_FORWARDED, signal.SIGCHLD, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    os.umask(plan["umask"])
    if plan["user"] is not None or plan["namespaces"]:
        for capability in range(_LAST_CAPABILITY):
            # Those beyond the last of this kernel are refused.
            _libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0)
        _prctl(_PR_SET_NO_NEW_PRIVS, 1)
    if (user := plan["user"]) is not None:
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
    if _IS_LINUX:
        _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.chdir(plan["cwd"])
    nothing = os.open("/dev/null", os.O_RDONLY)
    os.dup2(nothing, 0)
    os.set_inheritable(plan["report"], False)
    command = plan["command"]
    os.execvpe(command[0], command, plan["environment"])


def _read_line(descriptor: int) -> bytes:
    parts = []
    while data := os.read(descriptor, 65_536):
        parts.append(data)
        if data.endswith(b"\n"):
            break
    return b"".join(parts)


def _report_problem(plan: dict[str, Any], problem: OSError) -> None:
    with contextlib.suppress(OSError):
        os.write(
            plan["report"], f"{problem.errno or 0} {problem.strerror or problem}".encode("utf-8", "replace")
        )


def _get_exit_code(status: int) -> int:
    code = os.waitstatus_to_exitcode(status)
    return 128 - code if code < 0 else code


def _write(path: str, text: str) -> None:
    with open(path, "w", encoding="utf-8") as file:
        file.write(text)


def _prctl(option: int, value: int) -> None:
    _call("prctl", option, value, 0, 0, 0)


def _mount(source: str | None, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else os.fsencode(text) for text in (source, target, kind)]
    try:
        _call("mount", *texts, ctypes.c_ulong(flags), options.encode() or None)
    except OSError as problem:
        raise OSError(problem.errno, f"mount {target}: {problem.strerror}") from problem


def _call(name: str, *arguments: Any) -> None:
    if getattr(_libc, name)(*arguments) != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")


if __name__ == "__main__":
    sys.exit(main())
