"""Where tasks may go: never to the metadata of machines, however its address is written."""

import pytest

from guards.address_policy import PRIVATE_ALLOWED, AddressRefused
from guards.urls import resolve_host
from tests.delegates.agent.held_tasks import get_error, run_task

METADATA = [
    "169.254.169.254",
    "169.254.170.2",
    "fd00:ec2::254",
    "::ffff:169.254.169.254",
    "64:ff9b::a9fe:a9fe",
    "2002:a9fe:a9fe::1",
    "::169.254.169.254",
    "fe80::1",
    "0.0.0.0",
    "::",
    "224.0.0.1",
    "ff02::1",
]


@pytest.mark.parametrize("address", METADATA)
def test_metadata_is_refused_in_every_form(address: str) -> None:
    with pytest.raises(AddressRefused):
        PRIVATE_ALLOWED.require("some.name", address)


@pytest.mark.parametrize("host", ["0xa9fea9fe", "2852039166", "169.254.43518", "0251.0376.0251.0376"])
def test_numbers_that_the_system_reads_as_metadata_are_refused(host: str) -> None:
    with pytest.raises(AddressRefused):
        resolve_host(host, 80, PRIVATE_ALLOWED)


@pytest.mark.parametrize(
    "address", ["10.0.0.7", "192.168.1.1", "127.0.0.1", "52.94.5.1", "fd12::1", "2600::1"]
)
def test_private_addresses_are_what_a_delegate_is_for(address: str) -> None:
    PRIVATE_ALLOWED.require("some.name", address)


@pytest.mark.parametrize("kind", ["http", "check", "git", "docker_registry"])
@pytest.mark.parametrize("host", ["169.254.169.254", "[::ffff:169.254.169.254]", "0xa9fea9fe"])
def test_no_kind_of_task_reaches_metadata(kind: str, host: str) -> None:
    result = run_task(kind, {"url": f"http://{host}/latest/meta-data", "repository": "library/nginx"})
    assert get_error(result)["code"] == "AddressRefused"
    assert get_error(result)["capability"] is False


def test_an_aws_endpoint_may_not_be_metadata_either() -> None:
    params = {"service": "sts", "operation": "GetCallerIdentity", "region": "us-east-1"}
    key = {"kind": "access_key", "access_key_id": "AKIAEXAMPLE", "secret_access_key": "x"}
    result = run_task("aws", params | {"endpoint_url": "http://169.254.170.2", "credentials": key})
    assert get_error(result)["code"] == "AddressRefused"


@pytest.mark.parametrize(
    "url",
    ["ftp://example.com", "file:///etc/passwd", "http://", "http://a\tb", "http://[::1", "gopher://x", "x"],
)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    assert get_error(run_task("http", {"url": url}))["code"] == "BadParameters"


@pytest.mark.parametrize("kind", ["http", "check", "git", "docker_registry"])
@pytest.mark.parametrize("port", [22, 25, 2375, 6379, 11211])
def test_no_kind_of_task_speaks_http_to_what_is_no_web_server(kind: str, port: int) -> None:
    result = run_task(kind, {"url": f"http://127.0.0.1:{port}/", "repository": "library/nginx"})
    assert get_error(result)["code"] == "BadParameters"


def test_a_name_that_nobody_has_is_a_lack_of_this_delegate() -> None:
    error = get_error(run_task("check", {"url": "https://nobody.invalid"}))
    assert (error["code"], error["capability"]) == ("NameNotResolved", True)
