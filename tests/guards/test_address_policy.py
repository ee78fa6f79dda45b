"""URLs that lead to the inside, in every way to write them: none is asked."""

import socket
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from guards.address_policy import PRIVATE_ALLOWED, PUBLIC_ONLY, AddressPolicy, AddressRefused, parse_networks
from guards.safe_http import RequestFailed, RequestPolicy, SafeRequest, send_request
from guards.urls import HostNotResolved, InvalidUrl, describe_url_problem, parse_url, resolve_host

# {port} is where a server listens on every address of this machine, and hears nothing.
INSIDE = [
    "http://127.0.0.1:{port}/",
    "http://127.0.0.2:{port}/",
    "http://127.255.255.254:{port}/",
    "http://127.1:{port}/",
    "http://127.0.1:{port}/",
    "http://0x7f.1:{port}/",
    "http://0x7f000001:{port}/",
    "http://0X7F.0x0.0x0.0x1:{port}/",
    "http://2130706433:{port}/",
    "http://017700000001:{port}/",
    "http://0177.0.0.01:{port}/",
    "http://0177.1:{port}/",
    "http://①②⑦.⓪.⓪.①:{port}/",
    "http://127。0。0。1:{port}/",
    "http://１２７.0.0.1:{port}/",
    "http://0:{port}/",
    "http://0.0.0.0:{port}/",
    "http://0x0:{port}/",
    "http://localhost:{port}/",
    "http://LOCALHOST:{port}/",
    "http://localhost.:{port}/",
    "http://[::1]:{port}/",
    "http://[0:0:0:0:0:0:0:1]:{port}/",
    "http://[::]:{port}/",
    "http://[::ffff:127.0.0.1]:{port}/",
    "http://[::ffff:7f00:1]:{port}/",
    "http://[::127.0.0.1]:{port}/",
    "http://[::7f00:1]:{port}/",
    "http://[::ffff:0:127.0.0.1]:{port}/",
    "http://[64:ff9b::127.0.0.1]:{port}/",
    "http://[64:ff9b::7f00:1]:{port}/",
    "http://[64:ff9b:1::7f00:1]:{port}/",
    "http://[2002:7f00:1::]:{port}/",
    "http://[2001:0:7f00:1::]:{port}/",
    "http://[fe80::5efe:7f00:1]:{port}/",
    "http://[2600::5efe:7f00:1]:{port}/",
    "http://user:pass@127.0.0.1:{port}/",
    "http://example.com@127.0.0.1:{port}/",
    "http://127.0.0.1:{port}#@example.com/",
    "http://127.0.0.1:{port}?@example.com/",
    "http://169.254.169.254/latest/meta-data/",
    "http://169.254.170.2/v2/credentials",
    "http://[::ffff:169.254.169.254]/",
    "http://[64:ff9b::a9fe:a9fe]/",
    "http://[2002:a9fe:a9fe::1]/",
    "http://0xa9fea9fe/",
    "http://2852039166/",
    "http://169.254.43518/",
    "http://0251.0376.0251.0376/",
    "http://[fd00:ec2::254]/",
    "http://[fd20:ce::254]/",
    "http://[fe80::1%25eth0]/",
    "http://168.63.129.16/",
    "http://100.100.100.200/",
    "http://192.0.0.192/",
    "http://10.0.0.1/",
    "http://172.16.0.1/",
    "http://172.31.255.255/",
    "http://192.168.1.1/",
    "http://100.64.0.1/",
    "http://198.18.0.1/",
    "http://192.0.2.1/",
    "http://203.0.113.9/",
    "http://224.0.0.1/",
    "http://239.255.255.250/",
    "http://240.0.0.1/",
    "http://255.255.255.255/",
    "http://[fc00::1]/",
    "http://[fd12:3456::1]/",
    "http://[fec0::1]/",
    "http://[ff02::1]/",
    "http://[2001:db8::1]/",
    "http://[100::1]/",
]
MALFORMED = [
    "file:///etc/passwd",
    "gopher://127.0.0.1:6379/_FLUSHALL",
    "ftp://127.0.0.1/",
    "dict://127.0.0.1:11211/stats",
    "ldap://127.0.0.1/",
    "jar:http://127.0.0.1!/",
    "//127.0.0.1/",
    "127.0.0.1",
    "http://",
    "http:///etc",
    "http://[::1",
    "http://a:b/",
    "http://example.com:99999/",
    "http://good.com\t.evil/",
    "http://good.com\n.evil/",
    "http://good.com\r\nHost: x/",
    "http://good.com /",
    "http://good.com\\@127.0.0.1/",
    "http://good.com\x00.evil/",
    "\x01http://127.0.0.1/",
    "http://example.com:22/",
    "http://example.com:25/",
    "http://example.com:6379/",
    "http://example.com:2375/",
    "http://example.com:11211/",
    "http://example.com:0/",
    "http://" + "a" * 5000,
]


@contextmanager
def listening() -> Iterator[tuple[int, socket.socket]]:
    """A port on every address of this machine; whoever connects waits to be taken."""
    with socket.create_server(("::", 0), family=socket.AF_INET6, dualstack_ipv6=True) as server:
        server.settimeout(0)
        yield server.getsockname()[1], server


def was_reached(server: socket.socket) -> bool:
    try:
        server.accept()[0].close()
    except BlockingIOError:
        return False
    return True


def test_no_url_that_leads_inside_is_asked() -> None:
    with listening() as (port, server):
        for url in INSIDE:
            with pytest.raises((AddressRefused, InvalidUrl, HostNotResolved)):
                send_request(SafeRequest("GET", url.format(port=port)), RequestPolicy(PUBLIC_ONLY))
            assert not was_reached(server), url
        # The same server is heard where it may be.
        with pytest.raises(RequestFailed):
            send_request(
                SafeRequest("GET", f"http://127.0.0.1:{port}/"),
                RequestPolicy(PRIVATE_ALLOWED, proxy=f"http://127.0.0.1:{free()}"),
            )


def free() -> int:
    with socket.create_server(("127.0.0.1", 0)) as server:
        return int(server.getsockname()[1])


@pytest.mark.parametrize("url", MALFORMED)
def test_what_is_no_web_address_is_refused(url: str) -> None:
    with pytest.raises(InvalidUrl):
        parse_url(url)
    assert describe_url_problem(url)


def test_addresses_are_refused_when_saved_already() -> None:
    assert "machines' metadata" in describe_url_problem("http://0xa9fea9fe/", PRIVATE_ALLOWED)
    assert "private address" in describe_url_problem("https://10.0.0.7")
    assert "private address" in describe_url_problem("https://\uff11\uff10.0.0.7")
    assert "no name of a host" in describe_url_problem("https://" + "\u00fc" * 64 + ".example")
    assert "no name of a host" in describe_url_problem("https://one\u3000\uff3ctwo.example")
    assert "user name" in describe_url_problem("https://me:pass@example.com")
    assert not describe_url_problem("https://vpce-1.ecs.us-east-1.vpce.amazonaws.com")
    assert not describe_url_problem("http://127.0.0.1:8001", PRIVATE_ALLOWED)


@pytest.mark.parametrize("address", ["52.94.5.1", "8.8.8.8", "2600::1", "::ffff:8.8.8.8", "2a00:1450::1"])
def test_public_addresses_are_within_reach(address: str) -> None:
    PUBLIC_ONLY.require("some.name", address)


def test_a_private_network_is_reached_where_it_is_named() -> None:
    reach = AddressPolicy(
        allowed_networks=parse_networks(["10.1.0.0/16", "fd12::/16", "169.254.0.0/16"]), advice="set it"
    )
    reach.require("vpce", "10.1.2.3")
    reach.require("vpce", "::ffff:10.1.2.3")
    reach.require("vpce", "fd12::1")
    with pytest.raises(AddressRefused, match=r"private address; set it"):
        reach.require("vpce", "10.2.0.1")
    with pytest.raises(AddressRefused, match="metadata"):
        reach.require("vpce", "169.254.169.254")


def test_one_bad_address_among_good_ones_is_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    addresses = [
        (socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, 80)) for address in ("8.8.8.8", "10.0.0.1")
    ]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: addresses)
    with pytest.raises(AddressRefused):
        resolve_host("two.example", 80)
