"""Isolation levels, and the workspace of one task: folder, user, commands.

Paths of a workspace are strings, as in `delegates.agent.logs.spool`.
"""

import contextlib
import errno
import json
import os
import pwd
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from pathlib import Path
from typing import IO, Any

from delegates.agent.isolation import supervisor
from delegates.agent.isolation.removal import remove_tree
from delegates.agent.isolation.users import SHARED_FOLDERS, CannotIsolate, lease_user, remove_user_files


class IsolationLevel(StrEnum):
    """Levels of task isolation, strongest first; agents report these words to the manager."""

    USERS_AND_NAMESPACES = "users_and_namespaces"
    USERS = "users"
    NAMESPACES = "namespaces"
    NONE = "none"

    @property
    def has_users(self) -> bool:
        """Return whether each task has a user of its own."""
        return self in (IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.USERS)

    @property
    def has_namespaces(self) -> bool:
        """Return whether each task has mounts, process ids and System V IPC of its own."""
        return self in (IsolationLevel.USERS_AND_NAMESPACES, IsolationLevel.NAMESPACES)


@dataclass(frozen=True)
class Isolation:
    """The level that works here, and folders of the program itself that namespaces hide from tasks."""

    level: IsolationLevel
    hidden: tuple[Path, ...] = ()

    def with_hidden(self, *folders: Path) -> "Isolation":
        """Return the isolation with more hidden folders."""
        return replace(self, hidden=(*self.hidden, *folders))


# Files and folders that this process's environment names stay visible to tasks, for reading.
_NAMED = ("SSL_CERT_FILE", "AWS_CA_BUNDLE", "TF_CLI_CONFIG_FILE")
_PASSWD = Path("/etc/passwd")
# In a shared /tmp, other users must not read a task's files.
_PRIVATE_UMASK, _USUAL_UMASK = 0o077, 0o022


@dataclass(frozen=True)
class TaskWorkspace:
    """Folder that only its task can read; it can write to `create_folder` and `lend` folders."""

    folder: str
    isolation: Isolation
    user: int | None = None
    umask: int = _USUAL_UMASK
    _lent_mounts: list[tuple[str, bool]] = field(default_factory=list)

    def create_folder(self, name: str) -> str:
        """Create a folder that the task owns."""
        path = f"{self.folder}/{name}"
        os.makedirs(path, mode=0o700)
        self.lend(path)
        return path

    def write(self, name: str, content: str | bytes) -> str:
        """Write a file that the task may read and not change."""
        path = f"{self.folder}/{name}"
        with open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(content.encode("utf-8", "surrogateescape") if isinstance(content, str) else content)
        if self.user is not None:
            os.chown(path, 0, self.user)
            os.chmod(path, 0o640)
        return path

    def lend(self, path: str | Path) -> None:
        """Make the task the owner of a tree in its folder."""
        if self.user is not None:
            change_owner(path, self.user)

    @contextlib.contextmanager
    def lend_tree(self, path: Path) -> Iterator[None]:
        """Make the task the owner of a tree outside the workspace for the block, locked against others."""
        mount = (os.path.realpath(path), True)
        self._lent_mounts.append(mount)
        try:
            if self.user is not None and not self.isolation.level.has_namespaces:
                # Tasks pass through it by name; each content belongs to its own task.
                path.parent.chmod(0o711)
            self.lend(path)
            yield
        finally:
            self._lent_mounts.remove(mount)
            if self.user is not None:
                change_owner(path, os.geteuid(), os.getegid())

    def read(self, path: str | Path, most: int) -> bytes | None:
        """Return up to `most` bytes of a file; None if it is missing or not a regular file.

        Entries of the task's folder cannot lead out of it. Raises `ValueError` for a path outside of it.
        """
        outer, inner = f"{self.folder}/", os.fspath(path)
        if not inner.startswith(outer):
            raise ValueError(f"{inner} is not in {self.folder}")
        *folders, name = inner.removeprefix(outer).split("/")
        with contextlib.ExitStack() as opened:
            at = os.open(self.folder, os.O_RDONLY | os.O_DIRECTORY)
            opened.callback(os.close, at)
            try:
                for part in folders:
                    at = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=at)
                    opened.callback(os.close, at)
                number = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=at)
            except OSError:
                return None
            with os.fdopen(number, "rb") as file:
                status = os.fstat(number)
                is_own = self.user is None or status.st_uid == self.user
                return file.read(most) if stat.S_ISREG(status.st_mode) and is_own else None

    def start(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        *,
        stderr: int = subprocess.STDOUT,
        cwd: str | Path | None = None,
    ) -> "subprocess.Popen[bytes]":
        """Start a command isolated from all others; when it ends, all its processes end.

        SIGTERM and SIGINT reach the group of the command. Raises `CannotIsolate`, `ValueError`, and
        `FileNotFoundError` if program or folder is missing.
        """
        if any("\0" in text for text in (*command, *environment, *environment.values())):
            raise ValueError("a command, a variable or its value holds a NUL")
        report_pipe, report = os.pipe()
        try:
            # The supervisor may be root: it gets the task's environment to pass on, never as its own.
            process = subprocess.Popen(  # noqa: S603  -- running what people wrote is what this is for
                [sys.executable, "-I", "-S", "-B", supervisor.__file__],
                cwd="/",
                env={},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                pass_fds=(report,),
                start_new_session=True,
            )
        finally:
            os.close(report)
            refusals = os.fdopen(report_pipe, "rb")
        with refusals:
            plan = self._build_plan(command, environment, cwd or self.folder, report)
            with contextlib.suppress(BrokenPipeError):
                _get_input(process).write(f"{json.dumps(plan)}\n".encode())
                _get_input(process).flush()
            refusal = refusals.read().decode("utf-8", "replace")
        if refusal:
            with process:
                raise _build_error(refusal)
        return process

    def _build_plan(
        self, command: Sequence[str], environment: Mapping[str, str], cwd: str | Path, report: int
    ) -> dict[str, Any]:
        level, passwd = self.isolation.level, f"{self.folder}/passwd"
        return {
            "user": self.user,
            "namespaces": level.has_namespaces,
            "folder": self.folder,
            "hidden": _list_hidden_folders(self.isolation) if level.has_namespaces else [],
            "shown": [(self.folder, True), *_list_readable_paths(os.environ), *self._lent_mounts],
            "passwd": passwd if os.path.exists(passwd) else "",
            "umask": self.umask,
            "cwd": str(cwd),
            "command": list(command),
            "environment": dict(environment),
            "report": report,
        }


def end_process(process: "subprocess.Popen[bytes]") -> None:
    """End a command at once, with all that it started, and wait for that."""
    with contextlib.suppress(BrokenPipeError):
        _get_input(process).close()
    process.wait()


@contextlib.contextmanager
def open_workspace(isolation: Isolation, *, for_others: bool = False) -> Iterator[TaskWorkspace]:
    """Create the workspace of a task, and delete it with the task's files. Raises `CannotIsolate`.

    Other users can read files that a task writes with `for_others`.
    """
    with contextlib.ExitStack() as stack:
        user = stack.enter_context(lease_user()) if isolation.level.has_users else None
        if user is not None:
            # Before too: an agent that was killed has not tidied up.
            remove_user_files(user)
            stack.callback(remove_user_files, user)
        folder = os.path.realpath(tempfile.mkdtemp(prefix="slipway-"))
        stack.callback(remove_tree, folder)
        is_shared = user is not None and not isolation.level.has_namespaces
        umask = _PRIVATE_UMASK if is_shared and not for_others else _USUAL_UMASK
        workspace = TaskWorkspace(folder, isolation, user, umask)
        if user is not None:
            os.chown(folder, 0, user)
            os.chmod(folder, 0o750)  # noqa: S103  -- its group has the task alone
        if isolation.level.has_namespaces:
            _prepare_mounts(workspace)
        yield workspace


def _prepare_mounts(workspace: TaskWorkspace) -> None:
    for number, _ in enumerate(_list_hidden_folders(workspace.isolation)):
        workspace.create_folder(f"private/{number}")
    user = workspace.user
    if user is not None and not _has_account(user):
        # ssh fails for a user without a name.
        line = f"slipway-task:x:{user}:{user}:a task of Slipway:/nonexistent:/bin/sh\n"
        path = workspace.write("passwd", _PASSWD.read_text("utf-8", "surrogateescape") + line)
        os.chmod(path, 0o644)


def _has_account(user: int) -> bool:
    try:
        pwd.getpwuid(user)
    except KeyError:
        return False
    return True


def _list_hidden_folders(isolation: Isolation) -> list[str]:
    """Return the hidden folders, outer ones first; they hide their content too."""
    folders: tuple[str | Path, ...] = (*SHARED_FOLDERS, tempfile.gettempdir(), *isolation.hidden)
    # That one gets memory of the task's own.
    return sorted({os.path.realpath(folder) for folder in folders} - {"/dev/shm"})


def _list_readable_paths(environ: Mapping[str, str]) -> list[tuple[str, bool]]:
    """Return the readable paths that the agent's environment names; the task's environment is ignored."""
    candidates = [*environ.get("PATH", "").split(os.pathsep), *(environ.get(name, "") for name in _NAMED)]
    paths = [
        (os.path.realpath(path), False) for path in candidates if os.path.isabs(path) and os.path.exists(path)
    ]
    if (cache := environ.get("TF_PLUGIN_CACHE_DIR", "")) and os.path.isdir(cache):
        paths.append((os.path.realpath(cache), True))
    return list(dict.fromkeys(paths))


def change_owner(path: str | Path, user: int, group: int | None = None) -> None:
    """Change the owner of a tree, except targets of symbolic links and files with several hard links."""
    group = user if group is None else group
    os.chown(path, user, group, follow_symlinks=False)
    for folder, folders, files, number in os.fwalk(path, follow_symlinks=False):
        del folder
        for name in (*folders, *files):
            status = os.stat(name, dir_fd=number, follow_symlinks=False)
            if stat.S_ISDIR(status.st_mode) or status.st_nlink == 1:
                os.chown(name, user, group, dir_fd=number, follow_symlinks=False)


def _build_error(refusal: str) -> Exception:
    number, _, text = refusal.partition(" ")
    if number == str(errno.ENOENT):
        return FileNotFoundError(errno.ENOENT, text)
    if number == str(errno.E2BIG):
        # The task's fault, so no other delegate could start it either.
        return ValueError("a variable is larger than 128 KiB, or all of them together are too large")
    return CannotIsolate(f"the command could not be started apart from others: {text}")


def _get_input(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    if process.stdin is None:
        raise ValueError("not started by a workspace")
    return process.stdin
