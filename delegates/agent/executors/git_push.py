"""Push of one changed file: a commit on the head of a branch, made without a work tree."""

import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from delegates.agent.executors.git_client import GitFailed, GitProgram, list_error_lines

# Commits among which that of an earlier attempt is searched.
_SEARCHED_COMMITS: Final = 50
_BRANCH: Final = re.compile(r"[\w][\w./+-]{0,254}\Z", re.ASCII)
_COMMIT: Final = re.compile(r"[0-9a-f]{40}(?:[0-9a-f]{24})?\Z")
# What git says if somebody else has pushed meanwhile.
_MOVED_PHRASES: Final = ("[rejected]", "cannot lock ref", "failed to update ref", "reference already exists")
_REMOTE_PREFIX: Final = "remote: "
_REFUSED_PHRASE: Final = "[remote rejected]"
# What git says if the server, or what is before it, refused the push itself.
_REFUSAL: Final = re.compile(
    r"\[remote rejected\]|returned error: 4\d\d|authentication failed|could not read (?:username|password)"
    r"|permission denied|host key verification failed",
    re.IGNORECASE,
)
# What git says if a connection over SSH ends before the push begins. After an error of the server, such as
# about a key that may only read, it is a refusal; without one, the server may just be away.
_NOT_BEGUN_PHRASE: Final = "Could not read from remote repository"
_SERVER_ERROR: Final = re.compile(r"(?:remote: )?ERROR:")


class PushUnanswered(GitFailed):
    """Error raised if a push ended without a refusal, so that the branch may have the commit."""


@dataclass(frozen=True)
class FilePush:
    """Change of a file for the head `parent` of a branch, which is created from `base` if it is missing."""

    branch: str
    base: str
    parent: str
    path: str
    content: str
    message: str
    author_name: str
    author_email: str
    made_at: int

    def __post_init__(self) -> None:
        if not (_BRANCH.match(self.branch) and _BRANCH.match(self.base)):
            raise ValueError(f"{self.branch!r} or {self.base!r} is not the name of a branch")
        if not _COMMIT.match(self.parent):
            raise ValueError(f"{self.parent!r} is not a commit")


@dataclass(frozen=True)
class FilePusher:
    """Pusher into a repository through an empty folder."""

    folder: Path
    git: GitProgram
    url: str

    def find(self, branch: str, words: str) -> dict[str, Any]:
        """Return {"commit"}, the newest one of a branch whose message has these words; empty for none."""
        if branch not in self._list_heads(branch):
            return {"commit": ""}
        self._fetch(branch, _SEARCHED_COMMITS)
        search = ("--fixed-strings", f"--grep={words}", "--max-count=1", "--format=%H")
        return {"commit": self._read("log", *search, "FETCH_HEAD")}

    def push(self, change: FilePush) -> dict[str, Any]:
        """Return {"commit"} that the branch has, or {"is_moved"} if its head is no longer `parent`.

        Raises `GitFailed` with the words of the server, and `PushUnanswered` if it did not refuse the push.
        """
        heads = self._list_heads(change.branch, change.base)
        head = heads.get(change.branch, "")
        if (head or heads.get(change.base, "")) != change.parent:
            return {"is_moved": True}
        self._fetch(change.branch if head else change.base, 1)
        if self._read("rev-parse", "FETCH_HEAD^{commit}") != change.parent:
            return {"is_moved": True}
        commit = self._create_commit(change)
        return {"commit": commit} if commit == change.parent else self._push_commit(change, commit, head)

    def _list_heads(self, *branches: str) -> dict[str, str]:
        names = {f"refs/heads/{name}": name for name in branches}
        lines = self._read("ls-remote", "--quiet", self.url, *names).splitlines()
        pairs = [line.split("\t", 1) for line in lines]
        return {names[ref]: commit for commit, ref in pairs if ref in names}

    def _fetch(self, branch: str, depth: int) -> None:
        ref = f"refs/heads/{branch}"
        self._run("init", "--quiet", "--bare")
        self._run("fetch", "--quiet", "--no-tags", "--depth", str(depth), self.url, ref)

    def _create_commit(self, change: FilePush) -> str:
        """Return a commit with the change, or its parent if it changes nothing."""
        mode, kind, *_ = self._read("ls-tree", change.parent, "--", change.path).split() or ("", "")
        if kind != "blob" or mode not in ("100644", "100755"):
            raise GitFailed(f"there is no file {change.path} in commit {change.parent[:12]}")
        content = self.git.workspace.write("content", change.content)
        blob = self._read("hash-object", "-w", "--no-filters", str(content))
        self._run("read-tree", change.parent)
        self._run("update-index", "--cacheinfo", f"{mode},{blob},{change.path}")
        tree = self._read("write-tree")
        if tree == self._read("rev-parse", f"{change.parent}^{{tree}}"):
            return change.parent
        authored = replace(self.git, environment={**self.git.environment, **_build_identity(change)})
        arguments = ("commit-tree", tree, "-p", change.parent, "-m", change.message)
        return authored.run(self.folder, *arguments).decode().strip()

    def _push_commit(self, change: FilePush, commit: str, head: str) -> dict[str, Any]:
        """Push a commit if the branch still has this head; an empty one stands for no branch."""
        ref = f"refs/heads/{change.branch}"
        try:
            self._run("push", "--quiet", f"--force-with-lease={ref}:{head}", self.url, f"{commit}:{ref}")
        except GitFailed as problem:
            if any(phrase in problem.errors for phrase in _MOVED_PHRASES):
                return {"is_moved": True}
            if not _is_refusal(problem.errors):
                raise PushUnanswered(str(problem), problem.errors) from problem
            raise GitFailed(_find_refusal(problem.errors) or str(problem), problem.errors) from problem
        return {"commit": commit}

    def _run(self, *arguments: str) -> bytes:
        return self.git.run(self.folder, *arguments)

    def _read(self, *arguments: str) -> str:
        return self._run(*arguments).decode("utf-8", "replace").strip()


def _build_identity(change: FilePush) -> dict[str, str]:
    # The same commit in each attempt.
    date = f"@{change.made_at} +0000"
    return {
        "GIT_AUTHOR_NAME": change.author_name,
        "GIT_AUTHOR_EMAIL": change.author_email,
        "GIT_AUTHOR_DATE": date,
        "GIT_COMMITTER_NAME": "Slipway",
        "GIT_COMMITTER_EMAIL": change.author_email,
        "GIT_COMMITTER_DATE": date,
    }


def _is_refusal(errors: str) -> bool:
    """Return whether the server refused the push, so that the branch does not have the commit."""
    if _REFUSAL.search(errors):
        return True
    return _NOT_BEGUN_PHRASE in errors and any(map(_SERVER_ERROR.match, list_error_lines(errors)))


def _find_refusal(errors: str) -> str:
    """Return the lines of the server, and why it refused the branch."""
    lines = list_error_lines(errors)
    words = [
        line.removeprefix(_REMOTE_PREFIX).strip()
        for line in lines
        if line.startswith(_REMOTE_PREFIX) or _SERVER_ERROR.match(line)
    ]
    refusals = [line.partition(_REFUSED_PHRASE)[2].strip() for line in lines if _REFUSED_PHRASE in line]
    return "; ".join(filter(None, [*words, *refusals]))
