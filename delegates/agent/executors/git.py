"""Fetches files of one commit, or lists refs, with the git program: nothing is checked out, nothing run."""

import os
import re
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from delegates.agent.executors.answers import Answer, Surroundings, failed, succeeded
from delegates.agent.work import Held
from guards.addresses import Reach
from guards.limits import GIT_BYTES, GIT_FILE_BYTES, GIT_FILES, GIT_REFS
from guards.places import Place, find_place, read_url

_PROGRAM = "git"
FETCH_SECONDS, READ_SECONDS = 60.0, 10.0
_SHORT_SSH = re.compile(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(.+)\Z")
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_REF = re.compile(r"[\w./@+-]{1,255}\Z", re.ASCII)
# What git and ssh add to the reason of every failure.
_NO_REASON = ("warning:", "please make sure", "and the repository exists")
_UNREACHED = (
    "Could not resolve",
    "Failed to connect",
    "Connection refused",
    "Connection timed out",
    "cannot run ssh",
)


class GitFailed(Exception):
    """The git program ended with an error; the text is its own last words."""


def run_git(held: Held, around: Surroundings) -> Answer:
    """Fetch the files of a task, or with `refs` list branches and tags.

    Raises `KeyError`, `ValueError`, `AddressRefused`, `NameNotResolved`.
    """
    params = held.task.params
    ref = str(params.get("ref") or "HEAD")
    if not _REF.match(ref) or ref.startswith("-"):
        raise ValueError(f"{ref!r} is not the name of a branch, tag or commit")
    url, place = _place(str(params["url"]), around.reach)
    seconds = max(1.0, min(FETCH_SECONDS, held.seconds_left))
    with tempfile.TemporaryDirectory(prefix="slipway-", ignore_cleanup_errors=True) as folder:
        git = _Git(Path(folder), _environment(Path(folder), params, place), _pinned(url, place), seconds)
        try:
            if params.get("refs"):
                return succeeded(git.refs(url))
            return succeeded(git.fetch(url, ref, [str(path) for path in params.get("paths") or ()]))
        except FileNotFoundError:
            return failed(
                "NoGit", "this delegate has no git program: install it in its image", capability=True
            )
        except subprocess.TimeoutExpired:
            return failed("TimedOut", f"git did not end within {seconds:.0f} s")
        except GitFailed as problem:
            unreached = any(one in str(problem) for one in _UNREACHED)
            return failed("GitFailed", str(problem), capability=unreached)


@dataclass(frozen=True)
class _Git:
    folder: Path
    environment: Mapping[str, str] = field(repr=False)
    options: Sequence[str]
    seconds: float

    def fetch(self, url: str, ref: str, paths: Sequence[str]) -> dict[str, Any]:
        self._run("init", "--quiet", "--bare")
        self._run("fetch", "--quiet", "--no-tags", "--depth", "1", url, ref, seconds=self.seconds)
        commit = self._run("rev-parse", "FETCH_HEAD").decode().strip()
        return {"commit": commit, "files": self._files(commit, paths)}

    def refs(self, url: str) -> dict[str, Any]:
        """The names of branches and of tags, as many of each as are taken."""
        listed = self._run("ls-remote", "--quiet", "--heads", "--tags", url, seconds=self.seconds)
        names = [line.partition("\t")[2] for line in listed.decode("utf-8", "replace").splitlines()]
        return {
            kind: [name.removeprefix(prefix) for name in names if _is_of(name, prefix)][:GIT_REFS]
            for kind, prefix in (("branches", "refs/heads/"), ("tags", "refs/tags/"))
        }

    def _files(self, commit: str, paths: Sequence[str]) -> dict[str, str]:
        found: dict[str, str] = {}
        left = int(GIT_BYTES)
        for path in paths:
            for name, size in self._listed(commit, path):
                left -= size
                if size > GIT_FILE_BYTES or left < 0 or len(found) >= GIT_FILES:
                    raise GitFailed(f"{name} is too large, or with the others too much for one task")
                content = self._run("cat-file", "blob", f"{commit}:{name}")
                found[name] = content.decode("utf-8", "replace")
        return found

    def _listed(self, commit: str, path: str) -> list[tuple[str, int]]:
        """The files at a path, or below it if it is a folder; links and submodules are none."""
        clean = path.strip("/")
        listed = self._run("ls-tree", "-r", "-z", "--long", commit, "--", *([clean] if clean else []))
        files = []
        for entry in listed.decode("utf-8", "replace").split("\0"):
            about, _, name = entry.partition("\t")
            if about.startswith("100"):
                files.append((name, int(about.split()[3])))
        if not files:
            raise GitFailed(f"there is no file {path} in commit {commit[:12]}")
        return files

    def _run(self, *arguments: str, seconds: float = READ_SECONDS) -> bytes:
        done = subprocess.run(  # noqa: S603  -- a list of arguments; what a person wrote follows checked options
            [_PROGRAM, *self.options, *arguments],
            cwd=self.folder,
            env=dict(self.environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=seconds,
            check=False,
        )
        if done.returncode:
            said = _reason(done.stderr.decode("utf-8", "replace"))
            raise GitFailed(f"git {arguments[0]}: {said or f'exit code {done.returncode}'}")
        return done.stdout


def _is_of(name: str, prefix: str) -> bool:
    """Whether a ref is of a kind; what a tag points at is listed beside it, with ^{}."""
    return name.startswith(prefix) and not name.endswith("^{}")


def _reason(said: str) -> str:
    """The lines that say why: of ssh the first, of git the last."""
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if line and not line.lower().startswith(_NO_REASON)]
    return "; ".join(dict.fromkeys([*telling[:1], *telling[-1:]]))


def _place(url: str, reach: Reach) -> tuple[str, Place]:
    """The URL in its long form, and the checked address of its host."""
    if "://" not in url and (short := _SHORT_SSH.match(url)):
        url = f"ssh://{short[1] or 'git'}@{short[2]}/{short[3]}"
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.hostname.startswith("-"):
        raise ValueError("the address of a repository begins with https://, http:// or ssh://")
    if parts.scheme != "ssh":
        read_url(url)
    if parts.password:
        raise ValueError("the address of a repository must not hold a password: use a secret")
    return url, find_place(parts.hostname, parts.port or _PORTS[parts.scheme], reach)


def _pinned(url: str, place: Place) -> list[str]:
    """Only this protocol, no redirects, and the address that was checked."""
    scheme = urlsplit(url).scheme
    settings = {
        "protocol.allow": "never",
        f"protocol.{scheme}.allow": "always",
        "http.followRedirects": "false",
        "http.curloptResolve": f"{place.host}:{place.port}:{place.address}",
        "credential.helper": "",
        "core.hooksPath": "/dev/null",
        "gc.auto": "0",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return ["--literal-pathspecs", *options]


def _environment(folder: Path, params: Mapping[str, Any], place: Place) -> dict[str, str]:
    kept = ("PATH", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE")
    environment = {name: os.environ[name] for name in kept if name in os.environ}
    if bundle := environment.get("SSL_CERT_FILE"):
        environment["GIT_SSL_CAINFO"] = bundle
    home = folder / "login"
    home.mkdir(mode=0o700)
    environment |= {"HOME": str(home), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1", "LC_ALL": "C"}
    if params.get("ssh_key"):
        environment["GIT_SSH_COMMAND"] = _ssh(home, str(params["ssh_key"]), place)
    if params.get("username") or params.get("password"):
        environment["GIT_ASKPASS"] = _askpass(home)
        environment["SLIPWAY_USERNAME"] = str(params.get("username") or "git")
        environment["SLIPWAY_PASSWORD"] = str(params.get("password") or "")
    return environment


def _ssh(home: Path, key: str, place: Place) -> str:
    path = home / "key"
    path.touch(mode=0o600)
    path.write_text(key if key.endswith("\n") else f"{key}\n")
    return (
        f"ssh -i {path} -o IdentitiesOnly=yes -o BatchMode=yes -o StrictHostKeyChecking=accept-new "
        f"-o UserKnownHostsFile={home}/known -o HostName={place.address} -o HostKeyAlias={place.host}"
    )


def _askpass(home: Path) -> str:
    path = home / "askpass"
    path.write_text(
        '#!/bin/sh\ncase "$1" in Username*) printf %s "$SLIPWAY_USERNAME";; '
        '*) printf %s "$SLIPWAY_PASSWORD";; esac\n'
    )
    path.chmod(0o700)
    return str(path)
