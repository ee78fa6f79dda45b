"""Git client: location and login of a repository, and git commands under limits."""

import contextlib
import os
import re
import shlex
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote, urlsplit

from delegates.agent.isolation import TaskWorkspace, end_process
from delegates.agent.tasks import HeldTask
from guards.address_policy import AddressPolicy
from guards.host_keys import HostKey, InvalidHostKey, parse_host_keys
from guards.limits import GIT_MEMORY_BYTES, GIT_OUTPUT_BYTES, GIT_TRANSFER_BYTES
from guards.urls import ResolvedHost, parse_url, resolve_host

_PROGRAM = "git"
_LOOK_SECONDS, _LAST_SECONDS = 0.1, 0.005
# Lines that git and ssh add to every failure.
_NO_REASON = ("warning:", "please make sure", "and the repository exists")
# A pack is one file; above the file size limit the kernel ends its writer.
_TOO_LARGE = ("signal 25", "File too large", "invalid index-pack output")
_START = (
    f"ulimit -c 0; ulimit -f {GIT_TRANSFER_BYTES // 512}; "
    f'ulimit -v {GIT_MEMORY_BYTES // 1024} 2>/dev/null; exec "$0" "$@"'
)


class GitFailed(Exception):
    """Error raised when git fails; the text is the reason, `said` the complete error output."""

    def __init__(self, text: str, said: str = "") -> None:
        super().__init__(text)
        self.said = said


class GitStopped(Exception):
    """Error raised when git is stopped by a timeout or an abort."""


@dataclass(frozen=True)
class GitProgram:
    """Runs git in a folder, with the login of one task; all its commands end by one moment (monotonic)."""

    held: HeldTask
    workspace: TaskWorkspace
    environment: Mapping[str, str] = field(repr=False)
    options: Sequence[str]
    until: float

    def run(self, folder: Path, *arguments: str, may_be_cut: bool = False) -> bytes:
        """Return the output of a command.

        Output above the limit fails, or is cut if `may_be_cut`. Raises `GitFailed`, `GitStopped`,
        `FileNotFoundError` if git is not installed.
        """
        command = ["/bin/sh", "-c", _START, _PROGRAM, *self.options, *arguments]
        # An argument list: user input follows validated options.
        with self.workspace.start(command, self.environment, cwd=folder, stderr=subprocess.PIPE) as process:
            printed, said = _PipeReader(process.stdout), _PipeReader(process.stderr)
            try:
                self._wait(process, printed, said)
            finally:
                # Its helpers would live on.
                end_process(process)
                # Also where it was stopped: a pipe that is closed under its reader breaks that thread.
                printed.join()
                said.join()
        if printed.is_full and not may_be_cut:
            raise GitFailed(f"git {arguments[0]}: it prints more than {GIT_OUTPUT_BYTES}")
        if not printed.is_full:
            self._refuse_failure(process.returncode, arguments[0], said.taken.decode("utf-8", "replace"))
        return printed.taken

    def refuse_late(self) -> None:
        """Raise `GitStopped` after the deadline or an abort."""
        if self.held.stopped.is_set() or time.monotonic() > self.until:
            raise GitStopped

    def _wait(self, process: "subprocess.Popen[bytes]", printed: "_PipeReader", said: "_PipeReader") -> None:
        while process.poll() is None:
            self.refuse_late()
            if printed.is_full or said.is_full:
                return
            if printed.ended.wait(_LOOK_SECONDS) and said.ended.wait(_LOOK_SECONDS):
                time.sleep(_LAST_SECONDS)

    def _refuse_failure(self, code: int, command: str, said: str) -> None:
        if code == 127:
            raise FileNotFoundError(_PROGRAM)
        if code and any(one in said for one in _TOO_LARGE):
            raise GitFailed(
                f"git {command}: one commit of the repository is more than {GIT_TRANSFER_BYTES}", said
            )
        if code:
            raise GitFailed(f"git {command}: {_reason(said) or f'exit code {code}'}", said)


def _reason(said: str) -> str:
    """Return the lines with the reason: the first of ssh, the last of git."""
    lines = [line.strip() for line in said.splitlines()]
    telling = [line for line in lines if line and not line.lower().startswith(_NO_REASON)]
    return "; ".join(dict.fromkeys([*telling[:1], *telling[-1:]]))


class _PipeReader:
    """Reader of a pipe up to a limit, so that the process never blocks on another pipe."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self.taken = b""
        self.is_full = False
        self.ended = threading.Event()
        self._number = pipe.fileno() if pipe else -1
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def join(self) -> None:
        self._thread.join()

    def _read(self) -> None:
        parts, size = [], 0
        while size <= GIT_OUTPUT_BYTES and (data := os.read(self._number, 65_536)):
            parts.append(data)
            size += len(data)
        self.taken, self.is_full = b"".join(parts), size > GIT_OUTPUT_BYTES
        self.ended.set()


_SHORT_SSH = re.compile(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(.+)\Z")
# A name goes into a command of ssh.
_SSH_HOST = re.compile(r"[\w][\w.:-]{0,254}\Z", re.ASCII)
_SSH_USER = re.compile(r"[\w][\w.-]{0,63}\Z", re.ASCII)
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_PROBE_SECONDS = 10.0
_KEYS_BYTES = 65_536
UNKNOWN_KEY = "Host key verification failed"


@dataclass(frozen=True)
class GitLocation:
    """Location of a repository: its URL in the long form, and the checked address of its host."""

    url: str
    place: ResolvedHost

    @property
    def is_ssh(self) -> bool:
        return urlsplit(self.url).scheme == "ssh"

    @property
    def options(self) -> list[str]:
        """Return options that restrict protocol, redirects, address and memory."""
        scheme = urlsplit(self.url).scheme
        settings = {
            "protocol.allow": "never",
            f"protocol.{scheme}.allow": "always",
            "http.followRedirects": "false",
            "http.curloptResolve": f"{self.place.host}:{self.place.port}:{self.place.address}",
            "credential.helper": "",
            "core.hooksPath": "/dev/null",
            "core.bigFileThreshold": "1m",
            "fetch.unpackLimit": "1",
            "pack.threads": "1",
            "gc.auto": "0",
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return ["--literal-pathspecs", *options]


def resolve_git_location(url: str, reach: AddressPolicy) -> GitLocation:
    """Read and check where a repository is. Raises `ValueError`, `AddressRefused`, `HostNotResolved`."""
    if "://" not in url and (short := _SHORT_SSH.match(url)):
        url = f"ssh://{short[1] or 'git'}@{short[2]}/{short[3]}"
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.hostname.startswith("-"):
        raise ValueError("the address of a repository begins with https://, http:// or ssh://")
    if parts.password:
        raise ValueError("the address of a repository must not hold a password: use a secret")
    if parts.scheme != "ssh":
        parse_url(url)
    elif not _SSH_HOST.match(parts.hostname) or not _SSH_USER.match(unquote(parts.username or "git")):
        raise ValueError(
            "the address of a repository names host and user in letters, digits, dots and dashes"
        )
    return GitLocation(url, resolve_host(parts.hostname, parts.port or _PORTS[parts.scheme], reach))


@dataclass(frozen=True)
class GitLogin:
    """Git credentials of one task, in a separate folder; `known` are the accepted host keys."""

    workspace: TaskWorkspace
    home: Path
    entrance: GitLocation
    known: tuple[HostKey, ...]

    def environment(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the environment variables of git."""
        found = self._own()
        if bundle := found.get("SSL_CERT_FILE"):
            found["GIT_SSL_CAINFO"] = bundle
        found |= {"HOME": str(self.home), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
        found["LC_ALL"] = "C"
        if params.get("ssh_key"):
            found["GIT_SSH_COMMAND"] = shlex.join(self._ssh(str(params["ssh_key"])))
            found["GIT_SSH_VARIANT"] = "ssh"
        if params.get("username") or params.get("password"):
            found["GIT_ASKPASS"] = self._askpass()
            found["SLIPWAY_USERNAME"] = str(params.get("username") or "git")
            found["SLIPWAY_PASSWORD"] = str(params.get("password") or "")
        self.workspace.lend(self.home)
        return found

    def seen_key(self) -> str:
        """Return the host key that an unknown server presented, or an empty text."""
        return "" if self.known else self._first_of(self.home / "known")

    def offered_key(self) -> str:
        """Return the current host key of the server, read without a login, or an empty text."""
        parts = urlsplit(self.entrance.url)
        port, user = str(self.entrance.place.port), unquote(parts.username or "git")
        asking = ["-o", "PreferredAuthentications=none", "-p", port, "-l", user, self.entrance.place.host]
        command = [
            "/bin/sh",
            "-c",
            'exec "$0" "$@"',
            *_build_ssh_command(self.entrance.place, self.home / "offered", "accept-new"),
            *asking,
        ]
        with self.workspace.start(command, self._own()) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PROBE_SECONDS)
            end_process(process)
        return self._first_of(self.home / "offered")

    def _own(self) -> dict[str, str]:
        """Return the agent's environment variables that git and ssh receive."""
        kept = ("PATH", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE")
        return {name: os.environ[name] for name in kept if name in os.environ}

    def _first_of(self, path: Path) -> str:
        text = (self.workspace.read(path, _KEYS_BYTES) or b"").decode("utf-8", "replace")
        try:
            keys = parse_host_keys(text)
        except InvalidHostKey:
            return ""
        return str(keys[0]) if keys else ""

    def _ssh(self, key: str) -> list[str]:
        path, known = self.home / "key", self.home / "known"
        path.touch(mode=0o600)
        path.write_text(key if key.endswith("\n") else f"{key}\n")
        host = self.entrance.place.host
        known.write_text("".join(f"{host} {one}\n" for one in self.known))
        trust = "yes" if self.known else "accept-new"
        return [
            *_build_ssh_command(self.entrance.place, known, trust),
            "-i",
            str(path),
            "-o",
            "IdentitiesOnly=yes",
        ]

    def _askpass(self) -> str:
        path = self.home / "askpass"
        path.write_text(
            '#!/bin/sh\ncase "$1" in Username*) printf %s "$SLIPWAY_USERNAME";; '
            '*) printf %s "$SLIPWAY_PASSWORD";; esac\n'
        )
        path.chmod(0o700)
        return str(path)


def _build_ssh_command(place: ResolvedHost, known: Path, trust: str) -> list[str]:
    settings = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": trust,
        "UserKnownHostsFile": str(known),
        "GlobalKnownHostsFile": "/dev/null",
        "HashKnownHosts": "no",
        "UpdateHostKeys": "no",
        "IdentityAgent": "none",
        "ConnectTimeout": "15",
        "HostName": place.address,
        "HostKeyAlias": place.host,
    }
    # No configuration of the user or system: it could redirect the connection.
    return [
        "ssh",
        "-F",
        "/dev/null",
        *(part for name in settings for part in ("-o", f"{name}={settings[name]}")),
    ]
