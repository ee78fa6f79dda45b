"""Identity of an instance: ECS task or host, stable id, and the key pair bound to it (R026-R029, T05)."""

import base64
import fcntl
import logging
import os
import re
import socket
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)


class IdentityUnavailable(Exception):
    """The task's metadata could not be read, so that the instance would register under a wrong key."""


@dataclass(frozen=True)
class InstanceIdentity:
    """Instance key and the attributes that the delegate's page shows."""

    key: str
    hostname: str
    private_ip: str
    ecs: Mapping[str, str] | None = None


def read_identity(environ: Mapping[str, str], manager_url: str, *, kind: str = "") -> InstanceIdentity:
    """Return the agent's identity. Raises `IdentityUnavailable` if ECS metadata names no task.

    On Kubernetes the name of the pod is enough: a StatefulSet gives it to the pod that replaces one (R026).
    """
    # Container runtimes set this variable too; in the sandbox, with a shared machine, only this variable is
    # right.
    hostname = environ.get("HOSTNAME", "").strip() or socket.gethostname()
    metadata = environ.get("ECS_CONTAINER_METADATA_URI_V4", "")
    if not metadata:
        address = _find_private_ip(manager_url)
        key = hostname if kind == "KUBERNETES" else f"{hostname}/{address}"
        return InstanceIdentity(key, hostname, address)
    task = _fetch_task(metadata)
    address = _find_address(task) or _find_private_ip(manager_url)
    return InstanceIdentity(str(task["TaskARN"]), hostname, address, _build_ecs_attributes(task))


def _fetch_task(metadata: str) -> dict[str, Any]:
    try:
        # The metadata endpoint is a neighbour: no proxy leads there.
        with httpx.Client(trust_env=False, timeout=5) as client:
            task = client.get(f"{metadata}/task").raise_for_status().json()
    except (httpx.HTTPError, ValueError) as problem:
        raise IdentityUnavailable(
            f"The task metadata at {metadata}/task could not be read: {problem}."
        ) from problem
    if not isinstance(task, dict) or not task.get("TaskARN"):
        raise IdentityUnavailable(f"The task metadata at {metadata}/task has no TaskARN.")
    return task


def _build_ecs_attributes(task: Mapping[str, Any]) -> dict[str, str]:
    return {
        "cluster": str(task.get("Cluster", "")),
        "task_arn": str(task["TaskARN"]),
        "service": str(task.get("ServiceName", "")),
        "family": str(task.get("Family", "")),
    }


def _find_address(task: Mapping[str, Any]) -> str:
    for container in task.get("Containers") or []:
        for network in container.get("Networks") or []:
            for address in network.get("IPv4Addresses") or []:
                return str(address)
    return ""


def _find_private_ip(manager_url: str) -> str:
    """Return the local address of packets to the manager; no packet is sent."""
    parts = urlsplit(manager_url)
    try:
        addresses = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = addresses[0]
        with socket.socket(family, kind, protocol) as udp_socket:
            udp_socket.connect(address)
            return str(udp_socket.getsockname()[0])
    except OSError:
        return "127.0.0.1"


KEY_FILE = "instance-key.pem"
ID_FILE = "instance-id"
_ID = re.compile(r"[0-9a-f]{32}")
_CONTEXT = "slipway-delegate registration 1"
log = logging.getLogger("slipway.delegate")


def build_registration_message(*, challenge: str, account_id: str, name: str, instance_key: str) -> bytes:
    """Return the signed text of a registration: the manager's challenge and the agent's attributes."""
    return "\n".join((_CONTEXT, challenge, account_id, name, instance_key)).encode()


class InstanceKey:
    """Ed25519 key pair; `lock` is the descriptor of the file that this process has locked."""

    def __init__(self, private: Ed25519PrivateKey, lock: int | None = None) -> None:
        self._private, self._lock = private, lock

    @property
    def public(self) -> str:
        """Return the 32 bytes of the public key as base64."""
        return base64.b64encode(self._private.public_key().public_bytes_raw()).decode()

    def sign(self, message: bytes) -> str:
        """Return the signature as base64."""
        return base64.b64encode(self._private.sign(message)).decode()

    @property
    def is_stored(self) -> bool:
        """Return whether a restart finds this key pair again."""
        return self._lock is not None

    def close(self) -> None:
        """Release the file for the next process."""
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None


def load_instance_key(folder: Path) -> InstanceKey:
    """Return the key pair of a folder, created if missing; a read-only folder gives one in memory.

    Two processes with one folder are two instances: the second one gets a key pair in memory.
    """
    path = folder / KEY_FILE
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        os.fchmod(file, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return InstanceKey(_read_key(file, path) or _create_key(file), file)
    except BlockingIOError:
        os.close(file)
        log.warning("Another process uses %s: this one creates a key pair in memory", path)
    except OSError as problem:
        log.warning("Cannot store a key pair in %s; a restart creates a new one: %s", path, problem)
    return InstanceKey(Ed25519PrivateKey.generate())


def _read_key(file: int, path: Path) -> Ed25519PrivateKey | None:
    content = os.pread(file, 4096, 0)
    if not content:
        return None
    try:
        private = load_pem_private_key(content, None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        private = None
    if isinstance(private, Ed25519PrivateKey):
        return private
    log.error("%s is damaged: creating a new key pair", path)
    return None


def _create_key(file: int) -> Ed25519PrivateKey:
    private = Ed25519PrivateKey.generate()
    os.ftruncate(file, 0)
    os.pwrite(file, private.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()), 0)
    os.fsync(file)
    return private


def load_stable_id(folder: Path, key: InstanceKey) -> str:
    """Return the id of a folder, created if missing: 32 hexadecimal digits; empty without a stored key pair.

    The process that has locked the key pair of the folder is the only one that reads or writes the id.
    """
    if not key.is_stored:
        return ""
    path = folder / ID_FILE
    try:
        if path.exists():
            text = path.read_bytes()[:64].decode("ascii", "replace").strip()
            if _ID.fullmatch(text):
                return text
            log.error("%s is damaged: creating a new id", path)
        return _create_id(path)
    except OSError as problem:
        log.warning("Cannot store an id in %s: a moved instance is a new one: %s", path, problem)
        return ""


def _create_id(path: Path) -> str:
    """Write a new id; a process that is killed here leaves the former content."""
    text, part = uuid.uuid4().hex, path.with_suffix(".new")
    with part.open("w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return text
