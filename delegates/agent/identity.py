"""Who this instance is: the ECS task it runs in, else its host name and private address (R026-R029, T05)."""

import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx


class NoIdentity(Exception):
    """The task's metadata could not be read, so that the instance would register under a wrong key."""


@dataclass(frozen=True)
class Identity:
    """The instance key and what the delegate's page shows beside it."""

    key: str
    hostname: str
    private_ip: str
    ecs: Mapping[str, str] | None = None


def read_identity(environ: Mapping[str, str], manager_url: str) -> Identity:
    """Who we are. Raises `NoIdentity` if ECS named an address for metadata that gives no task."""
    # Container runtimes say it there, too; in the sandbox, whose containers share this machine, only there.
    hostname = environ.get("HOSTNAME", "").strip() or socket.gethostname()
    metadata = environ.get("ECS_CONTAINER_METADATA_URI_V4", "")
    if not metadata:
        address = _private_ip(manager_url)
        return Identity(f"{hostname}/{address}", hostname, address)
    task = _task(metadata)
    address = _address_of(task) or _private_ip(manager_url)
    return Identity(str(task["TaskARN"]), hostname, address, _ecs(task))


def _task(metadata: str) -> dict[str, Any]:
    try:
        # The metadata endpoint is a neighbour: no proxy leads there.
        with httpx.Client(trust_env=False, timeout=5) as client:
            task = client.get(f"{metadata}/task").raise_for_status().json()
    except (httpx.HTTPError, ValueError) as problem:
        raise NoIdentity(f"The task metadata at {metadata}/task could not be read: {problem}.") from problem
    if not isinstance(task, dict) or not task.get("TaskARN"):
        raise NoIdentity(f"The task metadata at {metadata}/task names no TaskARN.")
    return task


def _ecs(task: Mapping[str, Any]) -> dict[str, str]:
    return {
        "cluster": str(task.get("Cluster", "")),
        "task_arn": str(task["TaskARN"]),
        "service": str(task.get("ServiceName", "")),
        "family": str(task.get("Family", "")),
    }


def _address_of(task: Mapping[str, Any]) -> str:
    for container in task.get("Containers") or []:
        for network in container.get("Networks") or []:
            for address in network.get("IPv4Addresses") or []:
                return str(address)
    return ""


def _private_ip(manager_url: str) -> str:
    """The address that packets to the manager leave from; nothing is sent to find out."""
    parts = urlsplit(manager_url)
    try:
        found = socket.getaddrinfo(parts.hostname, parts.port or 443, type=socket.SOCK_DGRAM)
        family, kind, protocol, _, address = found[0]
        with socket.socket(family, kind, protocol) as one:
            one.connect(address)
            return str(one.getsockname()[0])
    except OSError:
        return "127.0.0.1"
