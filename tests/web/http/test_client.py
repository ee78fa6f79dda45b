"""Sessions of the requests library that ask only where this Slipway may."""

from collections.abc import Iterator
from typing import Any

import pytest
import requests

from guards.address_policy import AddressPolicy, parse_networks
from tests.delegates.agent.fake_servers import start_http_server
from tests.guards.fake_resolver import Rebinding
from web.http.client import ClientResponseTooLarge, create_safe_session


@pytest.fixture(autouse=True)
def _reach(settings: Any) -> None:
    settings.OUTGOING_REACH = AddressPolicy(allowed_networks=parse_networks(["127.0.0.1/32"]))


@pytest.fixture
def session() -> Iterator[requests.Session]:
    with create_safe_session() as session:
        yield session


def test_an_answer_is_read_whole(session: requests.Session) -> None:
    with start_http_server(lambda _: (200, {"Content-Type": "application/json"}, b'{"issuer": "me"}')) as url:
        assert session.get(f"{url}/.well-known/openid-configuration").json() == {"issuer": "me"}


@pytest.mark.parametrize(
    "host", ["169.254.169.254", "127.0.0.2", "[::1]", "10.0.0.1", "0x7f.2", "localhost6"]
)
def test_the_inside_is_not_asked(session: requests.Session, host: str) -> None:
    with pytest.raises(requests.exceptions.ConnectionError):
        session.get(f"http://{host}:8080/")


@pytest.mark.parametrize("url", ["ftp://127.0.0.1/", "http://127.0.0.1:22/", "http://127.0.0.1:6379/"])
def test_other_schemes_and_ports_are_not_asked(session: requests.Session, url: str) -> None:
    with pytest.raises(requests.exceptions.RequestException):
        session.get(url)


@pytest.mark.parametrize("to", ["http://169.254.169.254/", "http://127.0.0.2:8080/", "//[::1]:8080/"])
def test_redirects_are_checked(session: requests.Session, to: str) -> None:
    to_there = pytest.raises(requests.exceptions.ConnectionError, match="leads to")
    with start_http_server(lambda _: (302, {"Location": to}, b"")) as url, to_there:
        session.get(url)


def test_redirects_end(session: requests.Session) -> None:
    too_many = pytest.raises(requests.exceptions.TooManyRedirects)
    with start_http_server(lambda _: (302, {"Location": "/again"}, b"")) as url, too_many:
        session.get(url)


def test_a_name_that_leads_elsewhere_later_is_refused_then(
    session: requests.Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    with start_http_server(lambda _: (200, {"Connection": "close"}, b"{}")) as url:
        names = Rebinding(monkeypatch, "astray.example", "127.0.0.1", "127.0.0.2")
        port = url.rpartition(":")[2]
        assert session.get(f"http://astray.example:{port}/").status_code == 200
        assert names.query_count == 1
        with pytest.raises(requests.exceptions.ConnectionError, match="private address"):
            session.get(f"http://astray.example:{port}/")


def test_an_answer_that_is_too_large_is_refused(session: requests.Session) -> None:
    with (
        start_http_server(lambda _: (200, {}, b"x" * (1024 * 1024 + 1))) as url,
        pytest.raises(ClientResponseTooLarge),
    ):
        session.get(url)
