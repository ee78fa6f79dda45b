"""Git executor: files of one commit, refs, or a push, with a cache of repositories by commit."""

import contextlib
import fcntl
import hashlib
import logging
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from delegates.agent.executors.git_client import (
    UNKNOWN_KEY,
    GitFailed,
    GitLogin,
    GitProgram,
    GitStopped,
    resolve_git_location,
)
from delegates.agent.executors.git_push import FilePush, FilePusher, PushUnanswered
from delegates.agent.executors.task_results import (
    ExecutorContext,
    TaskResult,
    build_aborted,
    build_failure,
    build_success,
)
from delegates.agent.isolation import TaskWorkspace, open_workspace
from delegates.agent.tasks import HeldTask
from guards.host_keys import parse_host_keys
from guards.limits import GIT_BYTES, GIT_CACHE_BYTES, GIT_CACHE_SECONDS, GIT_FILE_BYTES, GIT_FILES, GIT_REFS

_WAIT_SECONDS = 0.05
# An unfinished folder: the process that filled it has died.
_ABANDONED_SECONDS = 3600
_INCOMPLETE_PREFIX = "begun-"


@dataclass(frozen=True)
class GitCache:
    """Folder of repositories by URL and commit, shared by all processes of one user.

    The content of a commit never changes. The server checks access on every request.
    """

    folder: Path

    @contextlib.contextmanager
    def lock_repository(
        self, url: str, commit: str, *, fill: Callable[[Path], str], wait: Callable[[], None]
    ) -> Iterator[Path]:
        """Lock the repository of a commit for the block, and fetch it if it is missing.

        `fill` fetches into a folder and returns the commit. `wait` is called while another process has the
        lock, and may raise. Raises `OSError` if the folder is unusable.
        """
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = hashlib.sha256(f"{url}\0{commit}".encode()).hexdigest()
        with self._lock(name, wait):
            place = self.folder / name
            if place.exists():
                os.utime(place)
                yield place
                return
            begun = Path(tempfile.mkdtemp(prefix=_INCOMPLETE_PREFIX, dir=self.folder))
            try:
                if fill(begun) == commit:
                    begun.rename(place)
                    self._prune(name)
                    yield place
                else:
                    # The branch was pushed meanwhile.
                    yield begun
            finally:
                shutil.rmtree(begun, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, name: str, wait: Callable[[], None]) -> Iterator[None]:
        with (self.folder / f"lock-{name[:2]}").open("a") as lock:
            while not _try_lock(lock.fileno()):
                wait()
                time.sleep(_WAIT_SECONDS)
            yield

    def _prune(self, kept_name: str) -> None:
        """Delete old repositories, then the oldest ones above the size limit; locked ones stay."""
        now, remaining_bytes = time.time(), int(GIT_CACHE_BYTES)
        for used, path in sorted(self._list_entries(), reverse=True):
            if path.name.startswith(_INCOMPLETE_PREFIX):
                is_current = now - used < _ABANDONED_SECONDS
            else:
                remaining_bytes -= _compute_size(path)
                is_current = path.name == kept_name or (
                    remaining_bytes >= 0 and now - used < GIT_CACHE_SECONDS
                )
            if not is_current:
                self._remove(path)

    def _list_entries(self) -> Iterator[tuple[float, Path]]:
        for path in self.folder.iterdir():
            with contextlib.suppress(FileNotFoundError):
                if path.is_dir():
                    yield path.stat().st_mtime, path

    def _remove(self, path: Path) -> None:
        with (self.folder / f"lock-{path.name[:2]}").open("a") as lock:
            if path.name.startswith(_INCOMPLETE_PREFIX) or _try_lock(lock.fileno()):
                shutil.rmtree(path, ignore_errors=True)


def _try_lock(number: int) -> bool:
    try:
        fcntl.flock(number, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _compute_size(path: Path) -> int:
    size = 0
    for file in path.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            size += file.lstat().st_size
    return size


log = logging.getLogger("slipway.delegate")
MAX_SECONDS = 60.0
_COMMIT = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
_REF = re.compile(r"[\w./@+-]{1,255}\Z", re.ASCII)
_UNREACHABLE_PHRASES = (
    "Could not resolve",
    "Failed to connect",
    "Connection refused",
    "Connection timed out",
    "cannot run ssh",
)


def run_git(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
    """Fetch the files of a task, or with `refs` list branches and tags; over SSH also the server's key.

    With `suffixes`, only files whose names end with one of them are read. With `push`, one changed file is
    committed and pushed instead; with `find`, a commit of the branch `ref` is searched by its message.

    Raises `KeyError`, `ValueError`, `AddressRefused`, `HostNotResolved`.
    """
    params = held_task.task.params
    ref = str(params.get("ref") or "HEAD")
    if not _REF.match(ref) or ref.startswith("-"):
        raise ValueError(f"{ref!r} is not the name of a branch, tag or commit")
    location = resolve_git_location(str(params["url"]), around.way)
    host_keys = parse_host_keys("\n".join(str(key) for key in params.get("host_keys") or ()))
    seconds = max(1.0, min(MAX_SECONDS, held_task.seconds_left))
    with open_workspace(around.isolation) as workspace:
        login = GitLogin(workspace, Path(workspace.create_folder("login")), location, host_keys)
        environment = login.build_environment(params)
        git = GitProgram(held_task, workspace, environment, location.options, time.monotonic() + seconds)
        cache = GitCache(around.git_cache) if around.git_cache else None
        suffixes = tuple(str(suffix) for suffix in params.get("suffixes") or ())
        repository = _Repository(
            Path(workspace.create_folder("repository")), git, location.url, cache, suffixes
        )
        try:
            if params.get("refs"):
                result = repository.list_refs()
            elif "push" in params:
                result = FilePusher(repository.folder, git, location.url).push(FilePush(**params["push"]))
            elif "find" in params:
                result = FilePusher(repository.folder, git, location.url).find(ref, str(params["find"]))
            else:
                result = repository.fetch(ref, [str(path) for path in params.get("paths") or ()])
        except FileNotFoundError:
            return build_failure(
                "NoGit", "this delegate has no git program: install it in its image", capability=True
            )
        except GitStopped:
            return _build_stopped_result(held_task, seconds)
        except GitFailed as problem:
            return _build_failed_result(problem, login)
        presented_key = login.get_presented_key()
    return build_success({**result, "host_key": presented_key} if presented_key else result)


def _build_stopped_result(held_task: HeldTask, seconds: float) -> TaskResult:
    if held_task.stopped.is_set():
        return build_aborted()
    return build_failure("TimedOut", f"git did not end within {seconds:.0f} s")


def _build_failed_result(problem: GitFailed, login: GitLogin) -> TaskResult:
    if not (login.location.is_ssh and UNKNOWN_KEY in problem.errors):
        unreached = any(phrase in problem.errors for phrase in _UNREACHABLE_PHRASES)
        code = "PushUnanswered" if isinstance(problem, PushUnanswered) else "GitFailed"
        return build_failure(code, str(problem), capability=unreached)
    presented = login.probe_host_key()
    accepted = " or ".join(key.fingerprint for key in login.host_keys)
    fingerprint = parse_host_keys(presented)[0].fingerprint if presented else "none readable"
    result = build_failure(
        "HostKeyChanged",
        f"the SSH host key of {login.location.place.host} has changed: known is {accepted}, "
        f"the server shows {fingerprint}",
    )
    return replace(result, error={**(result.error or {}), "host_key": presented})


@dataclass(frozen=True)
class _Repository:
    folder: Path
    git: GitProgram
    url: str
    cache: GitCache | None = None
    suffixes: tuple[str, ...] = ()

    def fetch(self, ref: str, paths: Sequence[str]) -> dict[str, Any]:
        if self.cache is not None and (commit := self._resolve_commit(ref)):
            files = self._read_cached(self.cache, ref, commit, paths)
            if files is not None:
                return files
        self._fill(ref)
        return self._read(paths)

    def _read_cached(
        self, cache: GitCache, ref: str, commit: str, paths: Sequence[str]
    ) -> dict[str, Any] | None:
        """Return the files from the cache; None if the cache is unusable."""
        try:
            with (
                cache.lock_repository(
                    self.url,
                    commit,
                    fill=lambda folder: self._with_folder(folder)._fill_cached(ref),
                    wait=self.git.check_deadline,
                ) as folder,
                self._workspace.lend_tree(folder),
            ):
                return self._with_folder(folder)._read(paths)
        except GitFailed:
            # Damaged, or not there: the server itself has the last word.
            return None
        except OSError as problem:
            log.warning("Commits cannot be kept in %s: %s", cache.folder, problem)
            return None

    def _with_folder(self, folder: Path) -> "_Repository":
        return replace(self, folder=folder)

    @property
    def _workspace(self) -> TaskWorkspace:
        return self.git.workspace

    def _fill_cached(self, ref: str) -> str:
        with self._workspace.lend_tree(self.folder):
            return self._fill(ref)

    def _fill(self, ref: str) -> str:
        self._run("init", "--quiet", "--bare")
        self._run("fetch", "--quiet", "--no-tags", "--depth", "1", self.url, ref)
        return self._get_commit()

    def _get_commit(self) -> str:
        return self._run("rev-parse", "FETCH_HEAD^{commit}").decode().strip()

    def _read(self, paths: Sequence[str]) -> dict[str, Any]:
        commit = self._get_commit()
        return {"commit": commit, "files": self._read_files(commit, paths)}

    def _resolve_commit(self, ref: str) -> str:
        """Return the current commit of a ref, or an empty text if only a fetch can resolve it.

        The server is always queried.
        """
        if _COMMIT.match(ref):
            self._run("ls-remote", "--quiet", self.url, "HEAD")
            return ref
        if not ref.startswith(("refs/heads/", "refs/tags/")):
            return ""
        output = self._run("ls-remote", "--quiet", self.url, ref, f"{ref}^{{}}")
        commits = dict(line.split("\t", 1)[::-1] for line in output.decode("utf-8", "replace").splitlines())
        return commits.get(f"{ref}^{{}}") or commits.get(ref, "")

    def list_refs(self) -> dict[str, Any]:
        """Return the names of branches and tags, up to the limit for each."""
        arguments = ("ls-remote", "--quiet", "--heads", "--tags", self.url)
        listed = self.git.run(self.folder, *arguments, may_be_cut=True)
        names = [line.partition("\t")[2] for line in listed.decode("utf-8", "replace").splitlines()]
        return {
            kind: [name.removeprefix(prefix) for name in names if _has_kind(name, prefix)][:GIT_REFS]
            for kind, prefix in (("branches", "refs/heads/"), ("tags", "refs/tags/"))
        }

    def _read_files(self, commit: str, paths: Sequence[str]) -> dict[str, str]:
        contents: dict[str, str] = {}
        remaining_bytes = int(GIT_BYTES)
        for path in paths:
            for name, size in self._list_files(commit, path):
                remaining_bytes -= size
                if size > GIT_FILE_BYTES or remaining_bytes < 0 or len(contents) >= GIT_FILES:
                    raise GitFailed(f"{name} is too large, or all files together are too large for one task")
                content = self._run("cat-file", "blob", f"{commit}:{name}")
                if b"\0" in content:
                    raise GitFailed(f"{name} is not text: use files instead of the folder")
                try:
                    contents[name] = content.decode()
                except UnicodeDecodeError as error:
                    raise GitFailed(f"{name} is not UTF-8: byte {error.start + 1} is not valid") from error
        return contents

    def _list_files(self, commit: str, path: str) -> list[tuple[str, int]]:
        """Return the files at a path, or below a folder; links and submodules are left out."""
        clean = path.strip("/")
        listed = self._run("ls-tree", "-r", "-z", "--long", commit, "--", *([clean] if clean else []))
        files = []
        for entry in listed.decode("utf-8", "replace").split("\0"):
            about, _, name = entry.partition("\t")
            if about.startswith("100") and name.endswith(self.suffixes or ""):
                files.append((name, int(about.split()[3])))
        if not files:
            raise GitFailed(f"there is no file {path} in commit {commit[:12]}")
        return files

    def _run(self, *arguments: str) -> bytes:
        return self.git.run(self.folder, *arguments)


def _has_kind(name: str, prefix: str) -> bool:
    """Return whether a ref has a kind; an annotated tag has a second line with ^{}."""
    return name.startswith(prefix) and not name.endswith("^{}")
