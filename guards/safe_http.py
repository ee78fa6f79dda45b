"""Asks a URL that somebody gave: at the address that was checked, and for no more than can be held."""

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

from guards.addresses import PUBLIC, Reach
from guards.limits import REDIRECTS, TASK_ANSWER_BYTES
from guards.places import Target, find_place, read_url

CONNECT_SECONDS, READ_SECONDS, WHOLE_SECONDS = 5.0, 10.0, 30.0
_MOVED = (301, 302, 303, 307, 308)
# Whoever is redirected to another host does not take these along.
_PERSONAL = ("authorization", "cookie", "proxy-authorization")


class NotReached(Exception):
    """No answer came; `code` says at which step it ended."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code, self.message = code, message

    @property
    def capability(self) -> bool:
        """Whether another place might fare better: nothing was heard from the other side's program."""
        return self.code not in ("NoAnswer", "TooManyRedirects")


class TooMuch(Exception):
    """The answer is larger than is taken."""


@dataclass(frozen=True)
class Reply:
    """An answer that was read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode("utf-8", "replace")


@dataclass(frozen=True)
class Way:
    """How requests leave: where they may lead, and through which proxy.

    A proxy resolves names by itself, so what it may reach is for it to say. `from_environment` takes the
    one of HTTPS_PROXY and NO_PROXY; `proxy` is the URL of one for everything. With `cuts` an answer that is
    larger than `most` is cut there, and so is one that breaks off or cannot be unpacked, for who asks for its
    status alone. `seconds` is all the time there is, also for who sends a byte now and then.
    """

    reach: Reach = PUBLIC
    proxy: str = ""
    from_environment: bool = False
    redirects: int = 0
    most: int = TASK_ANSWER_BYTES
    cuts: bool = False
    seconds: float = WHOLE_SECONDS

    def is_proxied(self, target: Target) -> bool:
        """Whether requests to a target leave through a proxy."""
        if self.proxy:
            return True
        in_use = self.from_environment and target.scheme in urllib.request.getproxies()
        return in_use and not urllib.request.proxy_bypass(target.host)


@dataclass(frozen=True)
class Ask:
    """One request."""

    method: str
    url: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)
    auth: tuple[str, str] | None = field(default=None, repr=False)

    def moved(self, status: int, to: str) -> "Ask":
        """The request that follows a redirect, without what was meant for the first host only."""
        url = urljoin(self.url, to)
        following = replace(self, url=url)
        if status == 303 or (status in (301, 302) and self.method == "POST"):
            following = replace(following, method="GET", body=b"")
        if _origin(url) == _origin(self.url):
            return following
        kept = {name: value for name, value in self.headers.items() if name.lower() not in _PERSONAL}
        return replace(following, headers=kept, auth=None)


def ask(asked: Ask, way: Way) -> Reply:
    """Ask, and follow as many redirects as the way allows, each checked as the first one was.

    Raises `BadAddress`, `AddressRefused`, `NameNotResolved`, `NotReached`, `TooMuch`.
    """
    for _ in range(min(way.redirects, REDIRECTS) + 1):
        reply = _ask_once(asked, way)
        to = reply.headers.get("location", "")
        if reply.status not in _MOVED or not to or not way.redirects:
            return reply
        following = asked.moved(reply.status, to)
        if asked.url.startswith("https:") and not following.url.startswith("https:"):
            raise NotReached(
                "NoAnswer", f"{urlsplit(asked.url).hostname} redirects to an address without TLS"
            )
        asked = following
    raise NotReached("TooManyRedirects", f"{urlsplit(asked.url).hostname} redirects again and again")


def trusted() -> ssl.SSLContext:
    """The certificates that this process trusts, those of its own among them."""
    return ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE") or certifi.where())


def _ask_once(asked: Ask, way: Way) -> Reply:
    url, named, extensions = _pinned(asked.url, way)
    timeout = httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS)
    late = threading.Event()
    headers = {"Accept-Encoding": "identity", **asked.headers, "Host": named}
    try:
        with (
            httpx.Client(
                verify=trusted(),
                timeout=timeout,
                auth=asked.auth,
                trust_env=way.from_environment,
                proxy=way.proxy or None,
            ) as client,
            _ended(client, way.seconds, late),
            client.stream(
                asked.method, url, headers=headers, content=asked.body or None, extensions=extensions
            ) as answer,
        ):
            return Reply(answer.status_code, dict(answer.headers), _read(answer, way.most, cuts=way.cuts))
    except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, zlib.error, OSError) as problem:
        why = (
            httpx.ReadTimeout(f"its answer took more than {way.seconds:.0f} s") if late.is_set() else problem
        )
        raise _not_reached(asked.url, why) from problem


def _pinned(url: str, way: Way) -> tuple[str, str, dict[str, str]]:
    """The URL to connect to, what to call the host, and the name that the certificate must bear."""
    target = read_url(url)
    if way.is_proxied(target):
        way.reach.require_literal(target.host)
        return url, target.named, {}
    # No second look at the name: whoever owns it could answer differently.
    place = find_place(target.host, target.port, way.reach)
    pinned = urlsplit(url)._replace(netloc=f"{place.url_host}:{target.port}")
    return urlunsplit(pinned), target.named, {"sni_hostname": target.host}


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc


@contextmanager
def _ended(client: httpx.Client, seconds: float, late: threading.Event) -> Iterator[None]:
    """Close the connection under whoever still reads from it then: each byte begins a time-out anew."""

    def end() -> None:
        late.set()
        client.close()

    timer = threading.Timer(seconds, end)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()


def _read(answer: httpx.Response, most: int, *, cuts: bool) -> bytes:
    body = bytearray()
    try:
        unpack = _unpacking(answer.headers.get("content-encoding", "identity").lower())
        for piece in answer.iter_raw():
            body += unpack(piece, most + 1 - len(body))
            if len(body) > most:
                break
    except (httpx.HTTPError, zlib.error, OSError):
        if not cuts:
            raise
    if len(body) > most and not cuts:
        raise TooMuch(f"the answer is larger than {most // 1024} KiB")
    return bytes(body[:most])


def _unpacking(encoding: str) -> Callable[[bytes, int], bytes]:
    """How pieces of a body are unpacked, to no more than is wanted: a few bytes may stand for gigabytes."""
    if encoding in ("gzip", "x-gzip", "deflate"):
        return zlib.decompressobj(zlib.MAX_WBITS | 32).decompress
    if encoding != "identity":
        raise httpx.DecodingError(f"its answer is packed as {encoding!r}, which was not asked for")
    return lambda piece, most: piece


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
