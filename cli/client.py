"""Client of the REST API: authentication, errors with a next step, repeated requests, pages."""

import ipaddress
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import httpx

from cli.credentials import SignIn
from cli.errors import CliError, ExitCode
from cli.text import clean_line
from cli.version import get_version

ANSWER_SECONDS: Final = 30.0
_CONNECT_SECONDS: Final = 10.0
_PAUSES: Final = (0.5, 1.0, 2.0, 4.0)
_TEMPORARY_STATUSES: Final = (429, 502, 503, 504)
_MAX_RETRY_AFTER_SECONDS: Final = 60.0
PAGE_SIZE: Final = 200
_CODES: Final = {
    401: ExitCode.NOT_SIGNED_IN,
    403: ExitCode.FORBIDDEN,
    404: ExitCode.NOT_FOUND,
    409: ExitCode.CONFLICT,
    412: ExitCode.CONFLICT,
}
_ADVICE: Final = {
    ExitCode.NOT_SIGNED_IN: "Sign in again: slipway login",
    ExitCode.NOT_FOUND: "Check the name and --scope.",
}


class Unreachable(CliError):
    """Error raised if the server does not answer or is temporarily unavailable."""

    def __init__(self, message: str, *, next_step: str = "") -> None:
        super().__init__(message, next_step=next_step, code=ExitCode.UNREACHABLE)


class ApiRefusal(CliError):
    """Error raised for a request that the server refused; `errors` are its {"path", "message"} pairs."""

    def __init__(
        self,
        detail: str,
        errors: Sequence[Mapping[str, Any]],
        *,
        next_step: str = "",
        code: ExitCode,
        is_outdated: bool = False,
    ) -> None:
        super().__init__(_join_errors(detail, errors), next_step=next_step, code=code)
        self.detail = detail
        self.errors = list(errors)
        self.is_outdated = is_outdated
        """Whether somebody changed the resource since it was read."""


@dataclass(frozen=True)
class Answer:
    """Document of a response, with its entity tag."""

    document: Any
    etag: str = ""


class ApiClient:
    """Client of one server with one API key, which waits `answer_seconds` for each answer.

    All methods raise `CliError` for a refused request, and `Unreachable` without an answer.
    """

    def __init__(self, sign_in: SignIn, *, answer_seconds: float = ANSWER_SECONDS) -> None:
        self.sign_in = sign_in
        self._http = httpx.Client(
            base_url=f"{sign_in.url}/api/v1/",
            headers={
                "x-api-key": sign_in.key,
                "accept": "application/json",
                "user-agent": f"slipway-cli/{get_version()}",
            },
            timeout=httpx.Timeout(answer_seconds, connect=_CONNECT_SECONDS),
            # A proxy of the environment does not reach this machine's own servers.
            trust_env=not is_loopback(sign_in.url),
        )

    def get(self, path: str, **params: Any) -> Any:
        """Return the document at `path`; parameters that are None or empty are left out."""
        return self.send("GET", path, params=params).document

    def list(self, path: str, *, limit: int | None = None, **params: Any) -> Iterator[dict[str, Any]]:
        """Yield the rows of a list over all its pages, at most `limit`."""
        count, cursor = 0, ""
        while True:
            size = PAGE_SIZE if limit is None else max(1, min(PAGE_SIZE, limit - count))
            page = self.get(path, **params, page_size=size, cursor=cursor)
            for row in page["results"]:
                if limit is not None and count >= limit:
                    return
                count += 1
                yield row
            cursor = _parse_cursor(page.get("next"))
            if not cursor or count == limit:
                return

    def send(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        params: Mapping[str, Any] | None = None,
        etag: str = "",
        idempotency_key: str = "",
    ) -> Answer:
        """Send a request; repeat it after a lost answer if that cannot apply it twice.

        `etag` is the version that a change started from.
        """
        headers = {"If-Match": etag} if etag else {}
        headers |= {"Idempotency-Key": idempotency_key} if idempotency_key else {}
        request = self._http.build_request(
            method,
            path,
            json=body if method != "GET" else None,
            params={name: value for name, value in (params or {}).items() if value not in (None, "")},
            headers=headers,
        )
        is_repeatable = method == "GET" or bool(idempotency_key)
        return self._parse(self._send_until_answered(request, is_repeatable=is_repeatable))

    def download(self, path: str, **params: Any) -> Iterator[str]:
        """Yield the text of a large response in parts."""
        request = self._http.build_request("GET", path, params=params, headers={"accept": "*/*"})
        try:
            response = self._http.send(request, stream=True)
            if response.is_error:
                response.read()
                self._parse(response)
            yield from response.iter_text()
        except httpx.TransportError as exc:
            raise self._describe_outage(exc) from exc

    def _send_until_answered(self, request: httpx.Request, *, is_repeatable: bool) -> httpx.Response:
        pauses = list(_PAUSES)
        while True:
            try:
                response = self._http.send(request)
            except httpx.TransportError as exc:
                if not pauses or not (is_repeatable or isinstance(exc, httpx.ConnectError)):
                    raise self._describe_outage(exc) from exc
                time.sleep(pauses.pop(0))
                continue
            except (httpx.InvalidURL, ValueError) as exc:
                raise CliError(f"The request to {self.sign_in.url} is not valid: {clean_line(exc)}") from exc
            # The server did not begin a request above the rate limit.
            may_repeat = response.status_code == httpx.codes.TOO_MANY_REQUESTS or (
                is_repeatable and response.status_code in _TEMPORARY_STATUSES
            )
            if not may_repeat or not pauses:
                return response
            time.sleep(max(pauses.pop(0), _parse_retry_after(response)))

    def _describe_outage(self, exc: httpx.TransportError) -> Unreachable:
        url = self.sign_in.url
        if isinstance(exc, httpx.TimeoutException):
            return Unreachable(
                f"{url} did not answer in time.", next_step="Check the network, then try again."
            )
        return Unreachable(
            f"{url} cannot be reached: {clean_line(exc) or type(exc).__name__}",
            next_step="Check the URL and the network. For another server: slipway login --url …",
        )

    def _parse(self, response: httpx.Response) -> Answer:
        if response.is_error:
            raise self._build_error(response)
        if response.status_code == httpx.codes.NO_CONTENT:
            return Answer(None)
        if response.is_redirect:
            target = clean_line(response.headers.get("location", ""))
            raise CliError(
                f"{self.sign_in.url} redirects to {target}.",
                next_step="Sign in to the address of Slipway itself: slipway login --url …",
            )
        try:
            document = response.json()
        except ValueError:
            document = None
        if not isinstance(document, dict):
            raise self._build_foreign_answer(response)
        return Answer(document, response.headers.get("etag", ""))

    def _build_error(self, response: httpx.Response) -> CliError:
        try:
            problem = response.json()
            detail = clean_line(problem["detail"])
            errors = [error for error in problem.get("errors", []) if isinstance(error, dict)]
        except (ValueError, KeyError, TypeError):
            return self._build_foreign_answer(response)
        if response.is_server_error or response.status_code in _TEMPORARY_STATUSES:
            number = clean_line(problem.get("request_id") or "")
            advice = (
                f"Try again. The server's log names the cause under request {number}."
                if response.is_server_error
                else "Try again in a minute, or less often."
            )
            return Unreachable(f"{detail.rstrip('.')} (status {response.status_code}).", next_step=advice)
        code = _CODES.get(response.status_code, ExitCode.ERROR)
        if code is ExitCode.FORBIDDEN:
            return _build_forbidden(detail, errors)
        is_outdated = response.status_code == httpx.codes.PRECONDITION_FAILED
        return ApiRefusal(detail, errors, next_step=_ADVICE.get(code, ""), code=code, is_outdated=is_outdated)

    def _build_foreign_answer(self, response: httpx.Response) -> CliError:
        kind = clean_line(response.headers.get("content-type", "no content type")).partition(";")[0]
        message = f"{self.sign_in.url} does not answer as Slipway (status {response.status_code}, {kind})."
        advice = "Check the URL, and proxies on the way."
        if response.status_code in _TEMPORARY_STATUSES:
            return Unreachable(message, next_step=advice)
        return CliError(message, next_step=advice)


def _build_forbidden(detail: str, errors: Sequence[Mapping[str, Any]]) -> ApiRefusal:
    missing = [clean_line(error["message"]) for error in errors if error.get("message")]
    advice = f"Ask an administrator for a role with {', '.join(missing)}." if missing else ""
    advice = f"{advice} `slipway whoami` shows whose key this is.".strip()
    return ApiRefusal(detail, [], next_step=advice, code=ExitCode.FORBIDDEN)


def _join_errors(detail: str, errors: Sequence[Mapping[str, Any]]) -> str:
    """Return the sentence of a refusal, and a line for each of its errors."""
    pairs = [
        (clean_line(error.get("path") or ""), clean_line(error.get("message") or "")) for error in errors
    ]
    lines = [
        f"  {path}: {message}" if path else f"  {message}" for path, message in pairs if message != detail
    ]
    return "\n".join([detail, *lines])


def _parse_cursor(url: str | None) -> str:
    """Return the cursor of the next page; behind a proxy, its host may be another one."""
    return parse_qs(urlsplit(url).query).get("cursor", [""])[0] if url else ""


def _parse_retry_after(response: httpx.Response) -> float:
    text = response.headers.get("retry-after", "")
    return min(float(text), _MAX_RETRY_AFTER_SECONDS) if text.isascii() and text.isdigit() else 0.0


def parse_scope(text: str) -> dict[str, Any]:
    """Return `org` and `project` of a scope such as default/demo; nothing for the account.

    Raises `CliError` for another form.
    """
    parts = [part for part in text.strip("/").split("/") if part]
    if parts[:1] == ["account"]:
        parts = parts[1:]
    if len(parts) > 2:
        raise CliError(
            f"{text} is not a scope.",
            next_step="Use ORGANIZATION, or ORGANIZATION/PROJECT such as default/demo.",
            code=ExitCode.USAGE,
        )
    return dict(zip(("org", "project"), parts, strict=False))


def is_loopback(url: str) -> bool:
    """Return whether a URL is one of this machine."""
    host = urlsplit(url).hostname or ""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
