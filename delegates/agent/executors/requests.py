"""HTTP of tasks: to the address that was checked, without redirects, and no more than a task can hold."""

import os
import ssl
import time
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlsplit, urlunsplit

import certifi
import httpx

from delegates.agent.executors.addresses import find_place, refuse
from guards.limits import TASK_ANSWER_BYTES

CONNECT_SECONDS, READ_SECONDS, WHOLE_SECONDS = 5.0, 10.0, 30.0
_PORTS = {"http": 80, "https": 443}


class BadAddress(ValueError):
    """The URL is none that a task can ask."""


class NotReached(Exception):
    """No answer came; `code` says at which step it ended."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def capability(self) -> bool:
        """Whether another delegate might fare better: nothing was heard from the other side's program."""
        return self.code != "NoAnswer"


class TooMuch(Exception):
    """The answer is larger than a task may hold."""


@dataclass(frozen=True)
class Reply:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    auth: tuple[str, str] | None = None,
    most: int = TASK_ANSWER_BYTES,
) -> Reply:
    """Ask once. Raises `BadAddress`, `AddressRefused`, `NameNotResolved`, `NotReached`, `TooMuch`."""
    target, named, extensions = _target(url)
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    given = {"Accept-Encoding": "identity", **(headers or {}), "Host": named}
    try:
        with (
            httpx.Client(verify=trusted(), timeout=timeout, auth=auth) as client,
            client.stream(
                method, target, headers=given, content=body or None, extensions=extensions
            ) as answer,
        ):
            return Reply(answer.status_code, dict(answer.headers), _read(answer, most))
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as problem:
        raise _not_reached(url, problem) from problem


def read_url(url: str) -> tuple[str, str, int]:
    """Scheme, host and port. Raises `BadAddress`."""
    if any(ord(character) <= 32 or ord(character) == 127 for character in url):
        raise BadAddress("the address holds spaces or control characters")
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme, 0)
    except ValueError as problem:
        raise BadAddress(f"the address cannot be read: {problem}") from problem
    if parts.scheme not in _PORTS or not parts.hostname:
        raise BadAddress("the address must begin with https:// or http:// and name a host")
    return parts.scheme, parts.hostname, port


def is_proxied(scheme: str, host: str) -> bool:
    """Whether requests to a host leave through a proxy."""
    return scheme in urllib.request.getproxies() and not urllib.request.proxy_bypass(host)


def trusted() -> ssl.SSLContext:
    """The certificates that this process trusts, those of its own among them."""
    return ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or certifi.where())


def _target(url: str) -> tuple[str, str, dict[str, str]]:
    """The URL to connect to, what to call the host, and the name that the certificate must bear."""
    scheme, host, port = read_url(url)
    parts = urlsplit(url)
    named = parts.netloc.rpartition("@")[2]
    if is_proxied(scheme, host):
        # The proxy resolves the name; what is an address already can be checked here.
        if host.replace(".", "").isdigit() or ":" in host:
            refuse(host, host)
        return url, named, {}
    place = find_place(host, port)
    pinned = parts._replace(netloc=f"{place.url_host}:{port}")
    return urlunsplit(pinned), named, {"sni_hostname": host}


def _read(answer: httpx.Response, most: int) -> bytes:
    body = bytearray()
    until = time.monotonic() + WHOLE_SECONDS
    for piece in answer.iter_bytes():
        body += piece
        if time.monotonic() > until:
            raise httpx.ReadTimeout(f"its answer took more than {WHOLE_SECONDS:.0f} s")
        if len(body) > most:
            raise TooMuch(f"the answer is larger than {most // 1024} KiB")
    return bytes(body)


def _not_reached(url: str, problem: Exception) -> NotReached:
    host = urlsplit(url).hostname
    text = str(problem) or type(problem).__name__
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return NotReached("CertificateRefused", f"the certificate of {host} is not trusted: {text}")
    if "SSL" in text or isinstance(problem, ssl.SSLError):
        return NotReached("TlsFailed", f"no TLS with {host}: {text}")
    if isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError):
        return NotReached("NotConnected", f"no connection to {host}: {text}")
    return NotReached("NoAnswer", f"{host} did not answer: {text}")
