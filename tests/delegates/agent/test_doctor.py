"""The delegate's doctor against places that are broken in one way each: it names the fault and the fix."""

import json
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest

from delegates.agent.doctor import examine_delegate
from guards.examinations import Finding
from sandbox.process import SandboxProcess
from tests.delegates.agent.certificates import make_certificates
from tests.delegates.agent.fake_servers import start_http_server
from tests.ports import free_port

Examine = Callable[..., dict[str, list[Finding]]]


@pytest.fixture
def examine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Examine:
    """Examine a delegate with these variables, and return the findings by check."""
    for name in (
        "HTTPS_PROXY",
        "HTTP_PROXY",
        "https_proxy",
        "http_proxy",
        "AWS_ACCESS_KEY_ID",
        "AWS_PROFILE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))

    def examined(url: str, **variables: str) -> dict[str, list[Finding]]:
        environ = {
            "HARNESS_ACCOUNT_ID": "account",
            "HARNESS_TOKEN": "slp_dlt_token",
            "HARNESS_URL": url,
            "SLIPWAY_DELEGATE_HOME": str(tmp_path / "home"),
            **variables,
        }
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"):
            monkeypatch.setenv(name, environ.get(name, ""))
        findings: dict[str, list[Finding]] = {}
        for name, finding in examine_delegate(environ):
            findings.setdefault(name, []).append(finding)
        return findings

    return examined


def answer_like_slipway(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
    """Answer a registration as a manager does that likes the token."""
    return 202, {"Content-Type": "application/json"}, json.dumps({"challenge": "signed"}).encode()


@pytest.fixture
def manager_url() -> Iterator[str]:
    with start_http_server(answer_like_slipway) as url:
        yield url


def results_of(findings: dict[str, list[Finding]]) -> dict[str, str]:
    return {name: " ".join(finding.result for finding in rows) for name, rows in findings.items()}


def test_a_missing_setting_is_named_and_nothing_else_is_tried(examine: Examine) -> None:
    findings = examine("https://slipway.example", HARNESS_TOKEN="")
    (settings,) = findings.pop("settings")
    assert settings.result == "failed"
    assert "HARNESS_TOKEN is not set" in settings.message
    assert set(results_of(findings).values()) == {"skipped"}


def test_a_folder_that_cannot_be_written(examine: Examine, tmp_path: Path, manager_url: str) -> None:
    file = tmp_path / "file"
    file.touch()
    (disk,) = examine(manager_url, SLIPWAY_DELEGATE_HOME=str(file))["disk"]
    assert (disk.result, "SLIPWAY_DELEGATE_HOME" in disk.fix) == ("failed", True)


def test_a_name_without_an_address(examine: Examine) -> None:
    findings = examine("https://slipway.invalid")
    assert "slipway.invalid has no address" in findings["name"][0].message
    assert "HARNESS_URL" in findings["name"][0].fix
    assert results_of(findings)["connection"] == "skipped"


def test_a_port_on_which_nobody_listens(examine: Examine) -> None:
    port = free_port()
    (finding,) = examine(f"https://localhost:{port}")["connection"]
    assert (finding.result, f"outgoing TCP on port {port}" in finding.fix) == ("failed", True)


def test_a_certificate_of_an_unknown_authority_and_the_fix_for_it(examine: Examine, tmp_path: Path) -> None:
    certificates = make_certificates(tmp_path)
    with certificates.start_server() as port:
        url = f"https://localhost:{port}"
        (refused,) = examine(url)["TLS and clock"]
        (trusted,) = examine(url, SLIPWAY_CA_BUNDLE=str(certificates.authority))["TLS and clock"]
    assert "is not trusted" in refused.message
    assert "SLIPWAY_CA_BUNDLE" in refused.fix
    # This server says nothing after the handshake.
    assert "does not answer by HTTP" in trusted.message


def test_a_proxy_that_refuses(examine: Examine) -> None:
    def refuse(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        return 407, {}, b""

    with start_http_server(refuse) as proxy:
        findings = examine("http://slipway.invalid", HTTP_PROXY=proxy)
    assert results_of(findings)["name"] == "ok"
    assert "The server is not Slipway" in findings["token"][0].message


@pytest.mark.parametrize(("skew", "result"), [(-400, "failed"), (60, "warning"), (0, "ok")])
def test_a_clock_that_is_wrong(examine: Examine, skew: int, result: str) -> None:
    def tell_time(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        request.date_time_string = lambda timestamp=None: formatdate(time.time() + skew, usegmt=True)  # type: ignore[method-assign]
        return answer_like_slipway(request)

    def answer(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        return tell_time(request)

    with start_http_server(answer) as url:
        clock = examine(url)["TLS and clock"][-1]
    assert clock.result == result
    assert ("NTP" in clock.fix) == bool(skew)


@pytest.mark.parametrize(
    ("status", "body", "message"),
    [
        (401, {"code": "token_unknown", "detail": "Unknown token."}, "refuses this delegate: Unknown token."),
        (502, {}, "The server is not Slipway"),
        (200, [], "The server is not Slipway"),
    ],
)
def test_a_token_or_a_server_that_is_wrong(examine: Examine, status: int, body: object, message: str) -> None:
    def refuse(request: BaseHTTPRequestHandler) -> tuple[int, dict[str, str], bytes]:
        return status, {"Content-Type": "application/json"}, json.dumps(body).encode()

    with start_http_server(refuse) as url:
        (token,) = examine(url)["token"]
    assert token.result == "failed"
    assert message in token.message


def test_a_network_that_lets_no_websocket_through_is_a_warning(examine: Examine, manager_url: str) -> None:
    findings = examine(manager_url)
    assert results_of(findings)["token"] == "ok"
    assert findings["WebSocket"][0].result == "warning"
    assert "Until then it polls" in findings["WebSocket"][0].fix
    assert examine(manager_url, SLIPWAY_DELEGATE_NO_SOCKET="1")["WebSocket"][0].result == "skipped"


def test_a_delegate_without_credentials_and_one_with(
    examine: Examine, manager_url: str, sandbox: SandboxProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    (without,) = examine(manager_url)["AWS"]
    assert (without.result, "task role" in without.fix) == ("warning", True)
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    for service in ("STS", "IAM"):
        monkeypatch.setenv(f"AWS_ENDPOINT_URL_{service}", sandbox.url)
    # A region of its own: clients are kept.
    identity, permissions = examine(manager_url, AWS_REGION="me-south-1")["AWS"]
    assert (identity.result, "In AWS it is arn:aws:" in identity.message) == ("ok", True)
    assert permissions.result in ("ok", "skipped")
