"""How git enters a repository: the checked address, a login that is seen by nobody, the server's SSH key."""

import contextlib
import os
import re
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

from delegates.agent.isolation import Workspace, end
from guards.addresses import Reach
from guards.host_keys import BadHostKey, HostKey, read_host_keys
from guards.places import Place, find_place, read_url

_SHORT_SSH = re.compile(r"(?:([\w.-]+)@)?([\w.-]+):(?!//|:)(.+)\Z")
# A name goes into a command of ssh.
_SSH_HOST = re.compile(r"[\w][\w.:-]{0,254}\Z", re.ASCII)
_SSH_USER = re.compile(r"[\w][\w.-]{0,63}\Z", re.ASCII)
_PORTS = {"https": 443, "http": 80, "ssh": 22}
_PROBE_SECONDS = 10.0
_KEYS_BYTES = 65_536
UNKNOWN_KEY = "Host key verification failed"


@dataclass(frozen=True)
class Entrance:
    """Where a repository is: its URL in the long form, and the checked address of its host."""

    url: str
    place: Place

    @property
    def is_ssh(self) -> bool:
        return urlsplit(self.url).scheme == "ssh"

    @property
    def options(self) -> list[str]:
        """Only this protocol, no redirects, the address that was checked; little memory for large files."""
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


def find_entrance(url: str, reach: Reach) -> Entrance:
    """Read and check where a repository is. Raises `ValueError`, `AddressRefused`, `NameNotResolved`."""
    if "://" not in url and (short := _SHORT_SSH.match(url)):
        url = f"ssh://{short[1] or 'git'}@{short[2]}/{short[3]}"
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname or parts.hostname.startswith("-"):
        raise ValueError("the address of a repository begins with https://, http:// or ssh://")
    if parts.password:
        raise ValueError("the address of a repository must not hold a password: use a secret")
    if parts.scheme != "ssh":
        read_url(url)
    elif not _SSH_HOST.match(parts.hostname) or not _SSH_USER.match(unquote(parts.username or "git")):
        raise ValueError(
            "the address of a repository names host and user in letters, digits, dots and dashes"
        )
    return Entrance(url, find_place(parts.hostname, parts.port or _PORTS[parts.scheme], reach))


@dataclass(frozen=True)
class Login:
    """The login of one task, in a folder of its own; `known` are the keys that the server may show."""

    workspace: Workspace
    home: Path
    entrance: Entrance
    known: tuple[HostKey, ...]

    def environment(self, params: Mapping[str, Any]) -> dict[str, str]:
        """What git sees."""
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
        """The key that the server showed to who knew none, or nothing."""
        return "" if self.known else self._first_of(self.home / "known")

    def offered_key(self) -> str:
        """The key that the server shows now, asked for without logging in, or nothing."""
        parts = urlsplit(self.entrance.url)
        port, user = str(self.entrance.place.port), unquote(parts.username or "git")
        asking = ["-o", "PreferredAuthentications=none", "-p", port, "-l", user, self.entrance.place.host]
        command = [
            "/bin/sh",
            "-c",
            'exec "$0" "$@"',
            *_ssh_to(self.entrance.place, self.home / "offered", "accept-new"),
            *asking,
        ]
        with self.workspace.start(command, self._own()) as process:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_PROBE_SECONDS)
            end(process)
        return self._first_of(self.home / "offered")

    def _own(self) -> dict[str, str]:
        """What git and ssh see of our own environment."""
        kept = ("PATH", "HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "SSL_CERT_FILE")
        return {name: os.environ[name] for name in kept if name in os.environ}

    def _first_of(self, path: Path) -> str:
        text = (self.workspace.read(path, _KEYS_BYTES) or b"").decode("utf-8", "replace")
        try:
            keys = read_host_keys(text)
        except BadHostKey:
            return ""
        return str(keys[0]) if keys else ""

    def _ssh(self, key: str) -> list[str]:
        path, known = self.home / "key", self.home / "known"
        path.touch(mode=0o600)
        path.write_text(key if key.endswith("\n") else f"{key}\n")
        host = self.entrance.place.host
        known.write_text("".join(f"{host} {one}\n" for one in self.known))
        trust = "yes" if self.known else "accept-new"
        return [*_ssh_to(self.entrance.place, known, trust), "-i", str(path), "-o", "IdentitiesOnly=yes"]

    def _askpass(self) -> str:
        path = self.home / "askpass"
        path.write_text(
            '#!/bin/sh\ncase "$1" in Username*) printf %s "$SLIPWAY_USERNAME";; '
            '*) printf %s "$SLIPWAY_PASSWORD";; esac\n'
        )
        path.chmod(0o700)
        return str(path)


def _ssh_to(place: Place, known: Path, trust: str) -> list[str]:
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
    # Nobody's own configuration: it could lead elsewhere.
    return [
        "ssh",
        "-F",
        "/dev/null",
        *(part for name in settings for part in ("-o", f"{name}={settings[name]}")),
    ]
