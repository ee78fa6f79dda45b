"""Asking what somebody gave: the checked address, redirects, and answers that are meant to hurt."""

import contextlib
import gzip
import socket
import threading
import tracemalloc

import pytest

from aws.caller import BotoCaller
from aws.clients import AccessKey
from aws.errors import NotSent
from guards.address_policy import PRIVATE_ALLOWED, PUBLIC_ONLY, AddressPolicy, AddressRefused, parse_networks
from guards.safe_http import (
    RequestFailed,
    RequestPolicy,
    ResponseTooLarge,
    SafeRequest,
    SafeResponse,
    send_request,
)
from guards.urls import InvalidUrl
from tests.delegates.agent.fake_servers import Respond, start_http_server
from tests.guards.fake_resolver import Rebinding

LOOPBACK = AddressPolicy(allowed_networks=parse_networks(["127.0.0.1/32"]))
FOLLOWING = RequestPolicy(LOOPBACK, redirects=3)


def get(url: str, way: RequestPolicy = FOLLOWING, **more: object) -> SafeResponse:
    return send_request(SafeRequest("GET", url, **more), way)  # type: ignore[arg-type]


def redirect(to: str, status: int = 302) -> Respond:
    return lambda _: (status, {"Location": to}, b"")


def test_a_name_is_asked_once_and_its_answer_is_what_is_connected_to(monkeypatch: pytest.MonkeyPatch) -> None:
    with start_http_server(lambda request: (200, {}, str(request.headers["Host"]).encode())) as url:
        names = Rebinding(monkeypatch, "astray.example", "127.0.0.1", "169.254.169.254")
        port = url.rpartition(":")[2]
        assert get(f"http://astray.example:{port}/").text == f"astray.example:{port}"
        assert names.query_count == 1
        with pytest.raises(AddressRefused):
            get(f"http://astray.example:{port}/")


def test_a_name_in_other_letters_is_asked_for_and_called_as_it_is_on_the_wire(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with start_http_server(lambda request: (200, {}, str(request.headers["Host"]).encode())) as url:
        Rebinding(monkeypatch, "xn--bcher-kva.example", "127.0.0.1", "127.0.0.1")
        port = url.rpartition(":")[2]
        assert get(f"http://b\u00fccher.example:{port}/").text == f"xn--bcher-kva.example:{port}"


def test_aws_clients_of_an_own_endpoint_look_again_at_each_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    paths: list[str] = []
    with start_http_server(
        lambda request: (paths.append(request.path), (200, {"Connection": "close"}, b"{}"))[1]
    ) as url:
        names = Rebinding(monkeypatch, "astray.example", "127.0.0.1", "127.0.0.2")
        endpoint = f"http://astray.example:{url.rpartition(':')[2]}"
        caller = BotoCaller(AccessKey("AKIATEST", "secret"), "us-east-1", endpoint, LOOPBACK)
        caller.call("ecs", "DescribeClusters", {})
        assert (names.query_count, len(paths)) == (1, 1)
        with pytest.raises(NotSent, match=r"127\.0\.0\.2, which is a private address") as refused:
            caller.call("ecs", "UpdateService", {"service": "x"})
    assert refused.value.code == "AddressRefused"
    assert len(paths) == 1


@pytest.mark.parametrize(
    "to",
    [
        "http://169.254.169.254/latest/",
        "http://[::1]/",
        "//10.0.0.7/",
        "http://127.0.0.2:8080/",
        "http://0x7f.2:8080/",
        "http://[::ffff:192.168.0.1]/",
    ],
)
def test_redirects_lead_no_further_than_the_first_address_may(to: str) -> None:
    with start_http_server(redirect(to)) as url, pytest.raises(AddressRefused):
        get(url)


@pytest.mark.parametrize("to", ["file:///etc/passwd", "gopher://127.0.0.1:6379/_x", "http://127.0.0.1:22/"])
def test_redirects_lead_to_web_addresses_only(to: str) -> None:
    with start_http_server(redirect(to)) as url, pytest.raises(InvalidUrl):
        get(url)


def test_three_redirects_are_followed_and_a_fourth_is_not() -> None:
    redirects_left = [3]

    def redirect_or_answer(request: object) -> tuple[int, dict[str, str], bytes]:
        redirects_left[0] -= 1
        return (302, {"Location": "/next"}, b"") if redirects_left[0] >= 0 else (200, {}, b"here")

    with start_http_server(redirect_or_answer) as url:
        assert get(url).text == "here"
        redirects_left[0] = 4
        with pytest.raises(RequestFailed, match="again and again"):
            get(url)


def test_redirects_are_told_where_nobody_asked_to_follow_them() -> None:
    with start_http_server(redirect("http://169.254.169.254/")) as url:
        assert get(url, RequestPolicy(LOOPBACK)).status == 302


def test_a_login_is_not_carried_to_another_host() -> None:
    headers: list[dict[str, str]] = []
    with (
        start_http_server(
            lambda request: (headers.append(dict(request.headers)), (200, {}, b""))[1]
        ) as other,
        start_http_server(redirect(other)) as url,
    ):
        get(url, headers={"Authorization": "Bearer secret", "Cookie": "a=b", "X-Kept": "1"}, auth=("me", "p"))
    assert not {"Authorization", "Cookie"} & headers[0].keys()
    assert headers[0]["X-Kept"] == "1"


def test_a_post_that_is_moved_is_not_posted_again() -> None:
    requests: list[tuple[str, bytes]] = []

    def answer(request: object) -> tuple[int, dict[str, str], bytes]:
        requests.append((request.command, request.body))  # type: ignore[attr-defined]
        return (303, {"Location": "/seen"}, b"") if len(requests) == 1 else (200, {}, b"")

    with start_http_server(answer) as url:
        send_request(SafeRequest("POST", url, body=b"secret"), FOLLOWING)
    assert requests == [("POST", b"secret"), ("GET", b"")]


def test_a_packed_answer_is_unpacked_no_further_than_it_is_taken() -> None:
    bomb = gzip.compress(b"\0" * 200 * 1024 * 1024, 1)
    with start_http_server(lambda _: (200, {"Content-Encoding": "gzip"}, bomb)) as url:
        tracemalloc.start()
        with pytest.raises(ResponseTooLarge):
            get(url)
        assert tracemalloc.get_traced_memory()[1] < 8 * 1024 * 1024
        tracemalloc.stop()
    with start_http_server(lambda _: (200, {"Content-Encoding": "gzip"}, gzip.compress(b"hello"))) as url:
        assert get(url).text == "hello"
    with (
        start_http_server(lambda _: (200, {"Content-Encoding": "gzip"}, b"not packed")) as url,
        pytest.raises(RequestFailed),
    ):
        get(url)
    with (
        start_http_server(lambda _: (200, {"Content-Encoding": "br"}, b"x")) as url,
        pytest.raises(RequestFailed),
    ):
        get(url)


def test_variables_of_the_process_change_nothing_unless_they_are_meant(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    with start_http_server(lambda _: (200, {}, b"here")) as url:
        assert get(url).text == "here"


@pytest.mark.parametrize("host", ["169.254.169.254", "0xa9fea9fe", "2852039166", "[::ffff:169.254.169.254]"])
def test_a_proxy_is_not_asked_for_addresses_either(host: str) -> None:
    with start_http_server(lambda _: (200, {}, b"leaked")) as proxy:
        for reach in (PUBLIC_ONLY, PRIVATE_ALLOWED):
            with pytest.raises(AddressRefused):
                get(f"http://{host}/latest", RequestPolicy(reach, proxy=proxy))
        assert get("http://public.example/", RequestPolicy(PUBLIC_ONLY, proxy=proxy)).text == "leaked"


@pytest.mark.parametrize(("spared", "by"), [(".inside.example", "itself"), ("other.example", "proxy")])
def test_no_proxy_is_compared_with_the_name_and_not_with_its_address(
    monkeypatch: pytest.MonkeyPatch, spared: str, by: str
) -> None:
    with (
        start_http_server(lambda _: (200, {}, b"proxy")) as proxy,
        start_http_server(lambda _: (200, {}, b"itself")) as url,
    ):
        Rebinding(monkeypatch, "git.inside.example", "127.0.0.1")
        monkeypatch.setenv("HTTP_PROXY", proxy.removeprefix("http://"))
        monkeypatch.setenv("ALL_PROXY", "http://127.0.0.1:9")
        monkeypatch.setenv("NO_PROXY", spared)
        policy = RequestPolicy(LOOPBACK, uses_environment_proxy=True)
        assert get(f"http://git.inside.example:{url.rpartition(':')[2]}/", policy).text == by


def test_who_sends_a_byte_now_and_then_has_only_so_long() -> None:
    """Each byte begins the time-out of one read anew, and headers have no other."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        over = threading.Event()

        def send_slowly() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(OSError):
                connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
                while not over.wait(0.02):
                    connection.sendall(b"x")

        thread = threading.Thread(target=send_slowly)
        thread.start()
        try:
            with pytest.raises(RequestFailed, match="its answer took more than 1 s"):
                get(
                    f"http://127.0.0.1:{server.getsockname()[1]}/",
                    RequestPolicy(LOOPBACK, timeout_seconds=0.6),
                )
        finally:
            over.set()
            thread.join()


@pytest.mark.parametrize("token", ["one\ntwo", "tok\u2019en"])
def test_a_header_that_cannot_be_sent_is_not_quoted(token: str) -> None:
    with start_http_server(lambda _: (200, {}, b"")) as url, pytest.raises(RequestFailed) as refused:
        get(url, headers={"Authorization": f"Bearer {token}"})
    assert str(refused.value) == "127.0.0.1 did not answer: a header has a character that HTTP does not allow"
