"""HTTP, check and registry tasks, against servers on loopback."""

import base64
import json
from http.server import BaseHTTPRequestHandler
from ipaddress import ip_network
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from delegates.access.site_calls import build_secret_payload, run_locally
from delegates.agent.executors import ExecutorContext, execute_task
from delegates.agent.manager_client import _compress_body
from guards.address_policy import PUBLIC_ONLY, AddressPolicy
from guards.safe_http import _classify_failure
from tests.delegates.agent.certificates import Certificates
from tests.delegates.agent.fake_servers import start_http_server
from tests.delegates.agent.held_tasks import MemoryLog, create_task, get_error, run_task
from tests.ports import free_port

Request = BaseHTTPRequestHandler
Response = tuple[int, dict[str, str], bytes]


def test_an_answer_comes_back_with_status_headers_and_body() -> None:
    def echo_request(request: Request) -> Response:
        text = f"{request.command} {request.path} {request.headers['X-Test']} {request.body.decode()}"  # type: ignore[attr-defined]
        return 418, {"X-Pot": "tea"}, text.encode()

    with start_http_server(echo_request) as url:
        params = {
            "method": "post",
            "url": f"{url}/a?b=c",
            "headers": {"X-Test": "é".encode().hex()},
            "body": "hi",
        }
        result = run_task("http", params)
    assert result.status == "SUCCEEDED"
    assert result.result is not None
    assert result.result["status"] == 418
    assert result.result["headers"]["x-pot"] == "tea"
    assert result.result["body"] == "POST /a?b=c c3a9 hi"


def test_a_server_hears_the_name_that_was_asked_for() -> None:
    with start_http_server(lambda request: (200, {}, str(request.headers["Host"]).encode())) as url:
        result = run_task("http", {"url": url.replace("127.0.0.1", "localhost")})
    assert result.result is not None
    assert result.result["body"].startswith("localhost:")


def test_redirects_are_told_and_not_followed() -> None:
    with start_http_server(lambda _: (302, {"Location": "http://169.254.169.254/"}, b"")) as url:
        result = run_task("http", {"url": url})
    assert result.result is not None
    assert result.result["status"] == 302


def test_an_answer_that_is_too_large_is_refused() -> None:
    with start_http_server(lambda _: (200, {}, b"x" * (1024 * 1024 + 1))) as url:
        assert get_error(run_task("http", {"url": url}))["code"] == "TooMuch"


def test_an_answer_in_other_letters_takes_no_more_room_than_it_had() -> None:
    text = "\u044f" * 262_000
    with start_http_server(lambda _: (200, {}, text.encode())) as url:
        result = run_task("http", {"url": url})
    assert result.result is not None
    assert result.result["body"] == text
    content, _ = _compress_body(result.to_json())
    assert len(content) < 530_000


def test_half_a_pair_is_sent_as_it_can_be() -> None:
    assert _compress_body({"text": "\ud800"})[0] == b'{"text":"\\ud800"}'


@pytest.mark.parametrize("content", [b"\xff", b"\0"])
def test_an_answer_that_grows_beyond_the_limit_of_a_message_is_refused(content: bytes) -> None:
    with start_http_server(lambda _: (200, {}, content * 500_000)) as url:
        assert get_error(run_task("http", {"url": url}))["code"] == "TooMuch"


def test_an_answer_that_is_sent_in_no_message_may_grow(settings: Settings) -> None:
    settings.OUTGOING_REACH = AddressPolicy(allowed_networks=(ip_network("127.0.0.1/32"),))
    with start_http_server(lambda _: (200, {}, b"\xff" * 500_000)) as url:
        result = run_locally("http", build_secret_payload({"url": url}, {}), seconds=5.0)
    assert result.result is not None, result.error
    assert result.result["body"] == "\ufffd" * 500_000


def test_a_closed_port_is_a_lack_of_this_delegate() -> None:
    url = f"http://127.0.0.1:{free_port()}"
    for kind in ("http", "check", "docker_registry"):
        error = get_error(run_task(kind, {"url": url, "repository": "library/nginx"}))
        assert (error["code"], error["capability"]) == ("NotConnected", True)


def test_a_check_says_where_it_leads() -> None:
    with start_http_server(lambda _: (500, {}, b"")) as url:
        result = run_task("check", {"url": url})
    assert result.result == {"ok": True, "address": "127.0.0.1"}


def test_a_server_without_tls_and_one_with_a_strange_certificate_are_told_apart(
    certificates: Certificates,
) -> None:
    with start_http_server(lambda _: (200, {}, b"")) as url:
        plain_error = get_error(run_task("check", {"url": url.replace("http:", "https:")}))
    with certificates.start_server() as port:
        certificate_error = get_error(run_task("check", {"url": f"https://localhost:{port}"}))
    assert (plain_error["code"], certificate_error["code"]) == ("TlsFailed", "CertificateRefused")
    assert plain_error["capability"]
    assert certificate_error["capability"]


@pytest.mark.parametrize(
    ("error", "code", "is_local"),
    [
        (httpx.ConnectError("[SSL: WRONG_VERSION_NUMBER] wrong version number"), "TlsFailed", True),
        (httpx.ConnectError("[SSL: CERTIFICATE_VERIFY_FAILED] unable to get"), "CertificateRefused", True),
        (httpx.ReadError("[SSL: TLSV1_ALERT_INTERNAL_ERROR] tlsv1 alert internal error"), "NoAnswer", False),
        (httpx.RemoteProtocolError("illegal header line: bytearray(b'SSL')"), "NoAnswer", False),
    ],
)
def test_tls_that_breaks_after_the_request_does_not_mean_that_it_was_not_received(
    error: Exception, code: str, is_local: bool
) -> None:
    failure = _classify_failure("https://example.com/", error)
    assert (failure.code, failure.is_local_failure) == (code, is_local)


def test_a_certificate_of_ones_own_is_trusted_once_it_is_given(
    certificates: Certificates, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    with certificates.start_server() as port:
        assert run_task("check", {"url": f"https://localhost:{port}"}).result == {
            "ok": True,
            "address": "127.0.0.1",
        }
        wrong_name = run_task("check", {"url": f"https://127.0.0.1:{port}"})
    assert get_error(wrong_name)["code"] == "CertificateRefused"


class Registry:
    """A registry with tokens and pages, as the OCI distribution specification has them."""

    TAGS = ("1.25", "1.26", "1.27", "latest")

    def __init__(self) -> None:
        self.logins: list[str] = []

    def __call__(self, request: Request) -> Response:
        path, _, query = request.path.partition("?")
        if path == "/token":
            self.logins.append(request.headers.get("Authorization", ""))
            return 200, {}, json.dumps({"token": "good"}).encode()
        if request.headers.get("Authorization") != "Bearer good":
            url = f"http://{request.headers['Host']}/token"
            return 401, {"WWW-Authenticate": f'Bearer realm="{url}",service="here"'}, b"{}"
        if "/manifests/" in path:
            return 200, {"Docker-Content-Digest": "sha256:abc"}, b""
        return self._page(path, query)

    def _page(self, path: str, query: str) -> Response:
        if path != "/v2/library/nginx/tags/list":
            return 404, {}, b"{}"
        second = "last=" in query
        tags = self.TAGS[2:] if second else self.TAGS[:2]
        link = {} if second else {"Link": f'<{path}?last={tags[-1]}&n=2>; rel="next"'}
        return 200, link, json.dumps({"tags": tags}).encode()


def list_tags(url: str, **params: Any) -> Any:
    return run_task("docker_registry", {"url": url, "repository": "library/nginx", **params})


def test_all_pages_of_tags_are_read_with_a_token() -> None:
    registry_server = Registry()
    with start_http_server(registry_server) as url:
        result = list_tags(url, username="me", password="pass")
    assert result.result == {"tags": list(Registry.TAGS), "is_cut": False}
    assert registry_server.logins == ["Basic " + base64.b64encode(b"me:pass").decode()]


def test_the_digest_of_a_tag() -> None:
    with start_http_server(Registry()) as url:
        assert list_tags(url, tag="1.27").result == {"digest": "sha256:abc"}


def test_a_repository_that_is_not_there_is_no_lack_of_the_delegate() -> None:
    with start_http_server(Registry()) as url:
        error = get_error(list_tags(url, repository="nobody/nothing"))
    assert (error["code"], error["capability"]) == ("RegistryRefused", False)


@pytest.mark.parametrize(
    "header",
    [{"Link": '<http://other.invalid/v2/x>; rel="next"'}, {"Link": '<//other.invalid/v2>; rel="next"'}],
)
def test_a_page_on_another_host_is_not_asked(header: dict[str, str]) -> None:
    with start_http_server(lambda _: (200, header, b'{"tags": ["a"]}')) as url:
        assert "another host" in get_error(list_tags(url))["message"]


def test_the_hub_is_not_asked_for_a_list_that_it_does_not_give() -> None:
    assert (
        "does not list repositories"
        in get_error(run_task("docker_registry", {"url": "docker.io", "catalog": True}))["message"]
    )


def test_a_token_for_the_catalog_is_asked_for_just_that() -> None:
    paths: list[str] = []

    def respond(request: Any) -> tuple[int, dict[str, str], bytes]:
        paths.append(request.path)
        if request.path.startswith("/token"):
            return 200, {}, b'{"token": "t"}'
        if request.headers.get("Authorization") != "Bearer t":
            realm = f"http://{request.headers['Host']}/token"
            return 401, {"WWW-Authenticate": f'Bearer realm="{realm}",service="here"'}, b""
        return 200, {}, b'{"repositories": ["b", "a"]}'

    with start_http_server(respond) as url:
        result = run_task("docker_registry", {"url": url, "catalog": True})
    assert result.result == {
        "repositories": [{"repositoryName": "b"}, {"repositoryName": "a"}],
        "is_cut": False,
    }
    assert paths[1] == "/token?service=here&scope=registry%3Acatalog%3A%2A"


def test_a_password_is_not_sent_to_another_host_without_tls() -> None:
    challenge = {"WWW-Authenticate": 'Bearer realm="http://other.invalid/token"'}
    with start_http_server(lambda _: (401, challenge, b"{}")) as url:
        assert "without TLS" in get_error(list_tags(url, username="me", password="p"))["message"]


@pytest.mark.parametrize("repository", ["../secrets", "a b", "UPPER", "", "a?b=c"])
def test_what_is_no_repository_is_refused(repository: str) -> None:
    error = get_error(list_tags("http://127.0.0.1:1", repository=repository))
    assert error["code"] == "BadParameters"


INSIDE = (
    "10.0.0.1",
    "192.168.0.1",
    "169.254.169.254",
    "[::ffff:10.0.0.1]",
    "[fd00::1]",
    "0x0a.1",
    "2130706433",
)


@pytest.mark.parametrize("host", INSIDE)
def test_a_registry_within_the_network_is_asked_only_where_that_is_allowed(host: str) -> None:
    task = create_task("docker_registry", {"url": f"http://{host}", "repository": "shop/web"})
    assert (
        get_error(execute_task(task, ExecutorContext(MemoryLog(), reach=PUBLIC_ONLY)))["code"]
        == "AddressRefused"
    )


@pytest.mark.parametrize("host", INSIDE[:-1])
def test_a_registry_cannot_lead_into_the_network_by_naming_where_tokens_are(host: str) -> None:
    challenge = {"WWW-Authenticate": f'Bearer realm="https://{host}/token"'}
    policy = AddressPolicy(allowed_networks=(ip_network("127.0.0.0/8"),))
    with start_http_server(lambda _: (401, challenge, b"{}")) as url:
        task = create_task("docker_registry", {"url": url, "repository": "shop/web"})
        assert (
            get_error(execute_task(task, ExecutorContext(MemoryLog(), reach=policy)))["code"]
            == "AddressRefused"
        )


def test_a_registry_cannot_lead_elsewhere_by_a_redirect() -> None:
    with start_http_server(lambda _: (302, {"Location": "http://10.0.0.1/"}, b"")) as url:
        assert "answered 302" in get_error(list_tags(url))["message"]
