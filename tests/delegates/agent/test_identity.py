"""What an instance is known by: its host and private address, or its ECS task."""

import json
from http.server import BaseHTTPRequestHandler

import pytest

from delegates.agent.identity import IdentityUnavailable, read_identity
from tests.delegates.agent.fake_servers import start_http_server

MANAGER = "http://127.0.0.1:8000"
TASK = "arn:aws:ecs:us-east-1:123456789012:task/blue/0123"


def test_a_machine_is_known_by_its_hostname_and_private_address() -> None:
    identity = read_identity({"HOSTNAME": "vm-1"}, MANAGER)
    assert (identity.key, identity.hostname, identity.private_ip) == ("vm-1/127.0.0.1", "vm-1", "127.0.0.1")


def test_a_machine_with_another_hostname_is_another_instance() -> None:
    assert (
        read_identity({"HOSTNAME": "vm-2"}, MANAGER).key != read_identity({"HOSTNAME": "vm-1"}, MANAGER).key
    )


def test_a_pod_is_known_by_its_name_wherever_it_runs() -> None:
    identity = read_identity({"HOSTNAME": "blue-qhzmyz-0"}, MANAGER, kind="KUBERNETES")
    assert (identity.key, identity.private_ip) == ("blue-qhzmyz-0", "127.0.0.1")


def test_an_ecs_task_is_known_by_its_arn_wherever_it_runs() -> None:
    addresses = iter(("10.0.0.4", "10.0.0.5"))

    def describe_task(_: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        container = {"Networks": [{"IPv4Addresses": [next(addresses)]}]}
        return 200, {}, json.dumps({"TaskARN": TASK, "Containers": [container]}).encode()

    with start_http_server(describe_task) as address:
        environ = {"HOSTNAME": "h", "ECS_CONTAINER_METADATA_URI_V4": address}
        first, moved = read_identity(environ, MANAGER), read_identity(environ, MANAGER)
    assert (first.key, first.private_ip) == (TASK, "10.0.0.4")
    assert (moved.key, moved.private_ip) == (TASK, "10.0.0.5")


def test_metadata_without_a_task_gives_no_identity() -> None:
    with start_http_server(lambda _: (200, {}, b"{}")) as address, pytest.raises(IdentityUnavailable):
        read_identity({"ECS_CONTAINER_METADATA_URI_V4": address}, MANAGER)
