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
from guards.host_keys import HostKey, InvalidHostKey, parse_host_keys
from guards.limits import GIT_MEMORY_BYTES, GIT_OUTPUT_BYTES, GIT_TRANSFER_BYTES
from guards.safe_http import RequestPolicy
from guards.urls import ResolvedHost, parse_url, resolve_host

_PROGRAM = "git"
_POLL_SECONDS, _LAST_SECONDS = 0.1, 0.005
# Lines that git and ssh add to every failure.
_NO_REASON = ("warning:", "please make sure", "and the repository exists")
# Empty lines and rules around the message of a server.
_NO_WORDS = re.compile(r"(?:remote:)?[\W_]*\Z")
# A pack is one file; above the file size limit the kernel ends its writer.
_TOO_LARGE = ("signal 25", "File too large", "invalid index-pack output")
_START = (
    f"ulimit -c 0; ulimit -f {GIT_TRANSFER_BYTES // 512}; "
    f'ulimit -v {GIT_MEMORY_BYTES // 1024} 2>/dev/null; exec "$0" "$@"'
)


class GitFailed(Exception):
    """Error raised when git fails; the text is the reason, `errors` the complete error output."""

    def __init__(self, text: str, errors: str = "") -> None:
        super().__init__(text)
        self.errors = errors


class GitStopped(Exception):
    """Error raised when git is stopped by a timeout or an abort."""


@dataclass(frozen=True)
class GitProgram:
    """Git commands of one task in a folder, with its login and a common deadline (monotonic)."""

    held_task: HeldTask
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
            printed, errors = _PipeReader(process.stdout), _PipeReader(process.stderr)
            try:
                self._wait(process, printed, errors)
            finally:
                # Its helpers would live on.
                end_process(process)
                # Also after a stop: closing a pipe while a thread reads it breaks the thread.
                printed.join()
                errors.join()
        if printed.is_full and not may_be_cut:
            raise GitFailed(f"git {arguments[0]}: it prints more than {GIT_OUTPUT_BYTES}")
        if not printed.is_full:
            self._check_exit_code(process.returncode, arguments[0], errors.content.decode("utf-8", "replace"))
        return printed.content

    def check_deadline(self) -> None:
        """Raise `GitStopped` after the deadline or an abort."""
        if self.held_task.stopped.is_set() or time.monotonic() > self.until:
            raise GitStopped

    def _wait(
        self, process: "subprocess.Popen[bytes]", printed: "_PipeReader", errors: "_PipeReader"
    ) -> None:
        while process.poll() is None:
            self.check_deadline()
            if printed.is_full or errors.is_full:
                return
            if printed.ended.wait(_POLL_SECONDS) and errors.ended.wait(_POLL_SECONDS):
                time.sleep(_LAST_SECONDS)

    def _check_exit_code(self, code: int, command: str, errors: str) -> None:
        if code == 127:
            raise FileNotFoundError(_PROGRAM)
        if code and any(phrase in errors for phrase in _TOO_LARGE):
            raise GitFailed(
                f"git {command}: one commit of the repository is more than {GIT_TRANSFER_BYTES}", errors
            )
        if code:
            raise GitFailed(f"git {command}: {_find_reason(errors) or f'exit code {code}'}", errors)


def list_error_lines(errors: str) -> list[str]:
    """Return the lines of an error output that have words."""
    return [line for text in errors.splitlines() if not _NO_WORDS.match(line := text.strip())]


def _find_reason(errors: str) -> str:
    """Return the lines with the reason: the first of ssh, the last of git."""
    reasons = [line for line in list_error_lines(errors) if not line.lower().startswith(_NO_REASON)]
    return "; ".join(dict.fromkeys([*reasons[:1], *reasons[-1:]]))


class _PipeReader:
    """Reader of a pipe up to a limit, so that the process never blocks on another pipe."""

    def __init__(self, pipe: IO[bytes] | None) -> None:
        self.content = b""
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
        self.content, self.is_full = b"".join(parts), size > GIT_OUTPUT_BYTES
        self.ended.set()


_SHORT_SSH = re.compile(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(.+)\Z")
# Names become part of an ssh command.
_SSH_HOST = re.compile(r"[\w][\w.:-]{0,254}\Z", re.ASCII)
_SSH_USER = re.compile(r"[\w][\w.-]{0,63}\Z", re.ASCII)
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_PROBE_SECONDS = 10.0
_KEYS_BYTES = 65_536
UNKNOWN_KEY = "Host key verification failed"


@dataclass(frozen=True)
class GitLocation:
    """Location of a repository: its URL in the long form, and the checked address of its host.

    With a `proxy`, which resolves the name by itself, there is no address.
    """

    url: str
    place: ResolvedHost
    proxy: str = field(default="", repr=False)

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
            "credential.helper": "",
            "core.hooksPath": "/dev/null",
            "core.bigFileThreshold": "1m",
            "fetch.unpackLimit": "1",
            "pack.threads": "1",
            "gc.auto": "0",
        }
        if not self.proxy:
            settings["http.curloptResolve"] = f"{self.place.host}:{self.place.port}:{self.place.address}"
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return ["--literal-pathspecs", *options]


def resolve_git_location(url: str, policy: RequestPolicy) -> GitLocation:
    """Read and check where a repository is. Raises `ValueError`, `AddressRefused`, `HostNotResolved`."""
    if "://" not in url and (short := _SHORT_SSH.match(url)):
        url = f"ssh://{short[1] or 'git'}@{short[2]}/{short[3]}"
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.hostname.startswith("-"):
        raise ValueError("the address of a repository begins with https://, http:// or ssh://")
    if parts.password:
        raise ValueError("the address of a repository must not hold a password: use a secret")
    port = parts.port or _PORTS[parts.scheme]
    if parts.scheme != "ssh":
        target = parse_url(url)
        if proxy := policy.get_proxy(target):
            policy.address_policy.require_literal_address(target.host)
            return GitLocation(url, ResolvedHost(parts.hostname, port, ()), proxy)
    elif not _SSH_HOST.match(parts.hostname) or not _SSH_USER.match(unquote(parts.username or "git")):
        raise ValueError(
            "the address of a repository names host and user in letters, digits, dots and dashes"
        )
    return GitLocation(url, resolve_host(parts.hostname, port, policy.address_policy))


@dataclass(frozen=True)
class GitLogin:
    """Git credentials of one task, in a separate folder; `host_keys` are the accepted host keys."""

    workspace: TaskWorkspace
    home: Path
    location: GitLocation
    host_keys: tuple[HostKey, ...]

    def build_environment(self, params: Mapping[str, Any]) -> dict[str, str]:
        """Return the environment variables of git."""
        variables = self._inherit_environment()
        if bundle := variables.get("SSL_CERT_FILE"):
            variables["GIT_SSL_CAINFO"] = bundle
        variables |= {"HOME": str(self.home), "GIT_TERMINAL_PROMPT": "0", "GIT_CONFIG_NOSYSTEM": "1"}
        variables["LC_ALL"] = "C"
        if params.get("ssh_key"):
            variables["GIT_SSH_COMMAND"] = shlex.join(self._build_ssh_with_key(str(params["ssh_key"])))
            variables["GIT_SSH_VARIANT"] = "ssh"
        if params.get("username") or params.get("password"):
            variables["GIT_ASKPASS"] = self._write_askpass()
            variables["SLIPWAY_USERNAME"] = str(params.get("username") or "git")
            variables["SLIPWAY_PASSWORD"] = str(params.get("password") or "")
        self.workspace.lend(self.home)
        return variables

    def get_presented_key(self) -> str:
        """Return the host key that an unknown server presented, or an empty text."""
        return "" if self.host_keys else self._read_first_key(self.home / "known")

    def probe_host_key(self) -> str:
        """Return the current host key of the server, read without a login, or an empty text."""
        parts = urlsplit(self.location.url)
        port, user = str(self.location.place.port), unquote(parts.username or "git")
        options = ["-o", "PreferredAuthentications=none", "-p", port, "-l", user, self.location.place.host]
        command = [
            "/bin/sh",
            "-c",
            'exec "$0" "$@"',
            *_build_ssh_command(self.location.place, self.home / "offered", "accept-new"),
            *options,
        ]
        with self.workspace.start(command, self._inherit_environment()) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PROBE_SECONDS)
            end_process(process)
        return self._read_first_key(self.home / "offered")

    def _inherit_environment(self) -> dict[str, str]:
        """Return the agent's environment variables that git and ssh receive."""
        variables = {name: os.environ[name] for name in ("PATH", "SSL_CERT_FILE") if name in os.environ}
        if proxy := self.location.proxy:
            # Only if it was decided so: git reads NO_PROXY in another way, and HTTP_PROXY not at all.
            variables[f"{urlsplit(self.location.url).scheme}_proxy"] = proxy
        return variables

    def _read_first_key(self, path: Path) -> str:
        text = (self.workspace.read(path, _KEYS_BYTES) or b"").decode("utf-8", "replace")
        try:
            keys = parse_host_keys(text)
        except InvalidHostKey:
            return ""
        return str(keys[0]) if keys else ""

    def _build_ssh_with_key(self, key: str) -> list[str]:
        path, known_hosts = self.home / "key", self.home / "known"
        path.touch(mode=0o600)
        path.write_text(key if key.endswith("\n") else f"{key}\n")
        host = self.location.place.host
        known_hosts.write_text("".join(f"{host} {host_key}\n" for host_key in self.host_keys))
        trust = "yes" if self.host_keys else "accept-new"
        return [
            *_build_ssh_command(self.location.place, known_hosts, trust),
            "-i",
            str(path),
            "-o",
            "IdentitiesOnly=yes",
        ]

    def _write_askpass(self) -> str:
        path = self.home / "askpass"
        path.write_text(
            '#!/bin/sh\ncase "$1" in Username*) printf %s "$SLIPWAY_USERNAME";; '
            '*) printf %s "$SLIPWAY_PASSWORD";; esac\n'
        )
        path.chmod(0o700)
        return str(path)


def _build_ssh_command(place: ResolvedHost, known_hosts: Path, trust: str) -> list[str]:
    settings = {
        "BatchMode": "yes",
        "StrictHostKeyChecking": trust,
        "UserKnownHostsFile": str(known_hosts),
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
