"""HTTP client for URLs that people enter: checked addresses, limited size and time."""

import os
import ssl
import threading
import urllib.request
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from urllib.parse import urljoin, urlsplit, urlunsplit

import certifi
import httpx

from guards.address_policy import PUBLIC_ONLY, AddressPolicy
from guards.limits import REDIRECTS, TASK_ANSWER_BYTES
from guards.urls import UrlTarget, parse_url, resolve_host

CONNECT_SECONDS, READ_SECONDS, TOTAL_SECONDS = 5.0, 10.0, 30.0
_REDIRECT_STATUSES = (301, 302, 303, 307, 308)
# Headers that a redirect to another host must not carry.
_CREDENTIAL_HEADERS = ("authorization", "cookie", "proxy-authorization")


class RequestFailed(Exception):
    """Error raised without a response; `code` names the failed phase."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def is_local_failure(self) -> bool:
        """Return whether another machine might succeed: the server's program has not responded."""
        return self.code not in ("NoAnswer", "TooManyRedirects")


class ResponseTooLarge(Exception):
    """The answer is larger than is taken."""


@dataclass(frozen=True)
class SafeResponse:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class RequestPolicy:
    """Policy of outgoing requests: permitted addresses, and the proxy.

    A proxy resolves names by itself, so its own rules apply. `uses_environment_proxy` uses HTTPS_PROXY and
    NO_PROXY; `proxy` is the URL of one for all requests. With `truncates`, a response above `max_bytes`, or a
    broken one, is cut, for callers that need only its status. `timeout_seconds` limits the whole request,
    also for slow senders.
    """

    address_policy: AddressPolicy = PUBLIC_ONLY
    proxy: str = ""
    uses_environment_proxy: bool = False
    redirects: int = 0
    max_bytes: int = TASK_ANSWER_BYTES
    truncates: bool = False
    timeout_seconds: float = TOTAL_SECONDS

    def is_proxied(self, target: UrlTarget) -> bool:
        """Return whether requests to a target leave through a proxy."""
        return bool(self.get_proxy(target))

    def get_proxy(self, target: UrlTarget) -> str:
        """Return the URL of the proxy for a target, or an empty text."""
        if self.proxy or not self.uses_environment_proxy or urllib.request.proxy_bypass(target.host):
            return self.proxy
        proxy = urllib.request.getproxies().get(target.scheme, "")
        return proxy if "://" in proxy or not proxy else f"http://{proxy}"


@dataclass(frozen=True)
class SafeRequest:
    """One request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    auth: tuple[str, str] | None = field(default=None, repr=False)

    def build_redirect(self, status: int, location: str) -> "SafeRequest":
        """Return the request after a redirect, without data for the first host only."""
        url = urljoin(self.url, location)
        redirect = replace(self, url=url)
        if status == 303 or (status in (301, 302) and self.method == "POST"):
            redirect = replace(redirect, method="GET", body=b"")
        if _get_origin(url) == _get_origin(self.url):
            return redirect
        headers = {
            name: value for name, value in self.headers.items() if name.lower() not in _CREDENTIAL_HEADERS
        }
        return replace(redirect, headers=headers, auth=None)


def send_request(request: SafeRequest, policy: RequestPolicy) -> SafeResponse:
    """Send a request and follow redirects up to the policy's limit, each checked like the first.

    Raises `InvalidUrl`, `AddressRefused`, `HostNotResolved`, `RequestFailed`, `ResponseTooLarge`.
    """
    for _ in range(min(policy.redirects, REDIRECTS) + 1):
        response = _send_once(request, policy)
        location = response.headers.get("location", "")
        if response.status not in _REDIRECT_STATUSES or not location or not policy.redirects:
            return response
        redirect = request.build_redirect(response.status, location)
        if request.url.startswith("https:") and not redirect.url.startswith("https:"):
            raise RequestFailed(
                "NoAnswer", f"{urlsplit(request.url).hostname} redirects to an address without TLS"
            )
        request = redirect
    raise RequestFailed("TooManyRedirects", f"{urlsplit(request.url).hostname} redirects again and again")


def build_tls_context() -> ssl.SSLContext:
    """Return the certificates that this process trusts, those of its own among them."""
    return ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or certifi.where())


def _send_once(request: SafeRequest, policy: RequestPolicy) -> SafeResponse:
    proxy = policy.get_proxy(parse_url(request.url))
    url, host_header, extensions = _pin_address(request.url, policy)
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    has_timed_out = threading.Event()
    headers = {"Accept-Encoding": "identity", **request.headers, "Host": host_header}
    try:
        with (
            httpx.Client(
                verify=build_tls_context(),
                timeout=timeout,
                auth=request.auth,
                # The client would compare NO_PROXY with the address instead of the name.
                trust_env=False,
                proxy=proxy or None,
            ) as client,
            _close_after(client, policy.timeout_seconds, has_timed_out),
            client.stream(
                request.method, url, headers=headers, content=request.body or None, extensions=extensions
            ) as response,
        ):
            return SafeResponse(
                response.status_code,
                dict(response.headers),
                _read_body(response, policy.max_bytes, truncates=policy.truncates),
            )
    # UnicodeEncodeError: a header outside ASCII.
    except (
        httpx.HTTPError,
        httpx.InvalidURL,
        UnicodeEncodeError,
        ssl.SSLError,
        zlib.error,
        OSError,
    ) as error:
        cause = (
            httpx.ReadTimeout(f"its answer took more than {policy.timeout_seconds:.0f} s")
            if has_timed_out.is_set()
            else error
        )
        raise _classify_failure(request.url, cause) from error


def _pin_address(url: str, policy: RequestPolicy) -> tuple[str, str, dict[str, str]]:
    """Return the URL with the checked address, the Host header, and the name of the certificate."""
    target = parse_url(url)
    if policy.is_proxied(target):
        policy.address_policy.require_literal_address(target.host)
        return url, target.host_header, {}
    # No second lookup: the owner of the name could return another address.
    resolved = resolve_host(target.host, target.port, policy.address_policy)
    pinned = urlsplit(url)._replace(netloc=f"{resolved.url_address}:{target.port}")
    return urlunsplit(pinned), target.host_header, {"sni_hostname": target.host}


def _get_origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


@contextmanager
def _close_after(client: httpx.Client, seconds: float, has_timed_out: threading.Event) -> Iterator[None]:
    """Close the connection at the deadline; each received byte restarts the read timeout."""

    def end() -> None:
        has_timed_out.set()
        client.close()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read_body(response: httpx.Response, max_bytes: int, *, truncates: bool) -> bytes:
    body = bytearray()
    try:
        decode = _build_decoder(response.headers.get("content-encoding", "identity").lower())
        for chunk in response.iter_raw():
            body += decode(chunk, max_bytes + 1 - len(body))
            if len(body) > max_bytes:
                break
    except (httpx.HTTPError, zlib.error, OSError):
        if not truncates:
            raise
    if len(body) > max_bytes and not truncates:
        raise ResponseTooLarge(f"the answer is larger than {max_bytes // 1024} KiB")
    return bytes(body[:max_bytes])


def _build_decoder(encoding: str) -> Callable[[bytes, int], bytes]:
    """Return a decoder of body chunks with a size limit: a few bytes may expand to gigabytes."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress
    if encoding != "identity":
        raise httpx.DecodingError(f"its answer is packed as {encoding!r}, which was not asked for")
    return lambda chunk, max_bytes: chunk


def _describe_error(error: Exception) -> str:
    if isinstance(error, httpx.LocalProtocolError | UnicodeEncodeError):
        # The library quotes the header, which may be a token.
        return "a header has a character that HTTP does not allow"
    return str(error) or type(error).__name__


def _classify_failure(url: str, error: Exception) -> RequestFailed:
    host = urlsplit(url).hostname
    text = _describe_error(error)
    # Any other failure, of TLS too, may come after the server has done what was asked.
    is_before_request = isinstance(error, httpx.ConnectError | httpx.ConnectTimeout | httpx.ProxyError)
    is_before_request |= isinstance(error, ssl.SSLError)
    if not is_before_request:
        return RequestFailed("NoAnswer", f"{host} did not answer: {text}")
    if "CERTIFICATE_VERIFY_FAILED" in text:
        return RequestFailed("CertificateRefused", f"the certificate of {host} is not trusted: {text}")
    if "SSL" in text or isinstance(error, ssl.SSLError):
        return RequestFailed("TlsFailed", f"no TLS with {host}: {text}")
    return RequestFailed("NotConnected", f"no connection to {host}: {text}")
