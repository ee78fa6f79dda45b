"""HTTPS client of the manager, its errors, and the backoff between retries."""

import gzip
import json
import random
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import httpx

from delegates.agent import VERSION

CONNECT_SECONDS, READ_SECONDS = 5.0, 15.0
# Refusals by which a session is over, and with it the work that was given in it.
FINAL_CODES = ("token_revoked", "scope_archived")
# Smaller bodies are sent without compression.
_PACKED_FROM_BYTES = 1024


class ManagerUnreachable(Exception):
    """Error raised without a usable response: network, proxy, TLS, or a restarting manager."""


class RequestRefused(Exception):
    """Error raised when the manager refuses a request; its code gives the reason."""

    def __init__(
        self, status: int, code: str, detail: str, *, body: Mapping[str, Any], retry_after: float
    ) -> None:
        super().__init__(f"{detail} ({code})")
        self.status, self.code, self.detail = status, code, detail
        self.body, self.retry_after = body, retry_after


class SessionLost(RequestRefused):
    """Error raised for an unknown, replaced, expired or revoked session; the agent registers again."""


class ManagerClient:
    """Client that posts JSON; threads may share it. Registration sets `session`."""

    def __init__(self, url: str, tls: ssl.SSLContext | bool) -> None:
        self.session = ""
        self._http = httpx.Client(
            base_url=url,
            verify=tls,
            timeout=httpx.Timeout(READ_SECONDS, connect=CONNECT_SECONDS),
            limits=httpx.Limits(max_connections=64, max_keepalive_connections=16, keepalive_expiry=75),
            headers={"User-Agent": f"slipway-delegate/{VERSION}", "Accept": "application/json"},
        )

    def post(
        self,
        path: str,
        body: Mapping[str, Any] | bytes,
        *,
        bearer: str = "",
        wait_seconds: float = 0,
        read_seconds: float = READ_SECONDS,
    ) -> tuple[int, dict[str, Any]]:
        """Post JSON, encoded or not, and return status and JSON, within `wait_seconds` and `read_seconds`.

        Raises `ManagerUnreachable`, `RequestRefused`, `SessionLost`.
        """
        session = bearer or self.session
        content, headers = _compress_body(body)
        headers["Authorization"] = f"Bearer {session}"
        timeout = httpx.Timeout(read_seconds + wait_seconds, connect=CONNECT_SECONDS)
        try:
            answer = self._http.post(path, content=content, headers=headers, timeout=timeout)
        except (httpx.HTTPError, httpx.InvalidURL, ssl.SSLError, OSError) as problem:
            raise ManagerUnreachable(f"{path}: {problem or type(problem).__name__}") from problem
        return answer.status_code, self._read(path, answer, is_session=not bearer)

    def _read(self, path: str, answer: httpx.Response, *, is_session: bool) -> dict[str, Any]:
        try:
            body = answer.json()
        except ValueError:
            body = None
        if answer.is_success and isinstance(body, dict):
            return body
        if answer.is_success or answer.status_code >= 500 or not isinstance(body, dict):
            raise ManagerUnreachable(f"{path}: the answer is {answer.status_code} and not from a manager")
        code, detail = str(body.get("code", "")), str(body.get("detail") or body.get("title") or "")
        lost = is_session and (answer.status_code == 401 or code in FINAL_CODES)
        kind = SessionLost if lost else RequestRefused
        raise kind(answer.status_code, code, detail, body=body, retry_after=_parse_retry_after(answer))

    def close(self) -> None:
        self._http.close()


def encode_body(body: Mapping[str, Any]) -> bytes:
    """Return a body as it is sent; only half pairs of UTF-16, which UTF-8 lacks, are escaped."""
    try:
        return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return json.dumps(body, separators=(",", ":")).encode()


def _compress_body(body: Mapping[str, Any] | bytes) -> tuple[bytes, dict[str, str]]:
    """Return a body as it is sent, with its headers; only log lines are compressed."""
    content = body if isinstance(body, bytes) else encode_body(body)
    headers = {"Content-Type": "application/json"}
    if len(content) >= _PACKED_FROM_BYTES and (isinstance(body, bytes) or "lines" in body):
        content, headers["Content-Encoding"] = gzip.compress(content, 3), "gzip"
    return content, headers


def _parse_retry_after(answer: httpx.Response) -> float:
    text = answer.headers.get("Retry-After", "")
    return min(float(text), 3600.0) if text.isascii() and text.isdigit() else 0.0


@dataclass
class Backoff:
    """Waits of up to `first`, twice that, and so on to `most` seconds; at least half of each."""

    first: float = 0.5
    most: float = 30.0
    tried: int = 0

    def next(self) -> float:
        """Return the seconds to wait now."""
        highest = min(self.most, self.first * 2 ** min(self.tried, 16))
        self.tried += 1
        return random.uniform(highest / 2, highest)  # noqa: S311  -- spreads retries, guards nothing

    def reset(self) -> None:
        self.tried = 0
