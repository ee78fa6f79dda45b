"""What Terraform Cloud is asked for one connector: requests with its token, logs without it (API v2)."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

from aws.errors import AwsError, Unanswered, Unavailable, Undelivered
from connectors.models import Connector
from connectors.sites import read_site
from delegates.owners import BAD_ANSWER, Payload
from guards.limits import TERRAFORM_LOG_BYTES
from guards.masks import Mask

ASK_TERRAFORM: Final = "AskTerraformCloud"
"""A request to the API: `path` in parts, `method`, `query`, `body`, variables as `texts` and `hcl`."""
READ_TERRAFORM_LOG: Final = "ReadTerraformLog"
"""A piece of a log of Terraform: `logUrl` as the API told it, `offset` in bytes."""
OPERATIONS: Final = (ASK_TERRAFORM, READ_TERRAFORM_LOG)
_PART = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_JSON_API: Final = "application/vnd.api+json"
_THE_REQUEST: Final = "The request to Terraform Cloud"
# Nothing left for the other side, or nothing was heard of its program.
_NOT_THERE: Final = ("NameNotResolved", "NotConnected", "TlsFailed")
_NO_ANSWER: Final = ("NoAnswer", "TimedOut", "TooMuch", "Aborted", "DelegateError")


def terraform_payload(
    connector: Connector,
    token: str,
    operation: str,
    params: Mapping[str, Any],
    secrets: Mapping[str, str],
) -> Payload:
    """The request as the executor of requests wants it; `secrets` are variables of a run with their values.

    Raises `Undelivered` for a place that is none.
    """
    base = read_site(connector.spec).url.rstrip("/").removesuffix("/api/v2")
    if operation == READ_TERRAFORM_LOG:
        return Payload({"method": "GET", "url": _log_url(base, params)}, mask=(token,))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": _JSON_API}
    asked = {
        "method": str(params.get("method") or "GET"),
        "url": f"{base}/api/v2/{_path(params['path'])}{_query(params)}",
        "headers": headers,
        "body": _body(params, secrets),
    }
    return Payload(asked, mask=(token, *secrets.values()))


def kept_of_terraform(operation: str, token: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """What is kept of an answer: its status and its text, without a token that was said again."""
    text = str(result.get("body", ""))
    if operation == ASK_TERRAFORM:
        text = Mask((token,) if token else ()).text(text)
    headers = result.get("headers") or {}
    size = str(headers.get("content-length", "")) if isinstance(headers, Mapping) else ""
    return {"status": int(result.get("status", 0)), "body": text, "size": int(size) if size.isdigit() else -1}


class Ended(Protocol):
    """How a request ended, as a delegate or an executor says it."""

    @property
    def status(self) -> str: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...
    @property
    def result(self) -> Mapping[str, Any] | None: ...


def error_of_terraform(answer: Ended, *, is_write: bool) -> AwsError | None:
    """What keeps an answer from being one; what the API refuses is an answer, for whoever asked to judge."""
    error = _of_failure(answer.status, answer.error or {}, is_write=is_write)
    return error or _of_status(answer.result or {}, is_write=is_write)


def _of_failure(status: str, error: Mapping[str, Any], *, is_write: bool) -> AwsError | None:
    """What an executor's failure means: a question is asked again, of a change nobody knows."""
    if status == "SUCCEEDED":
        return None
    code, message = str(error.get("code", status)), str(error.get("message") or "no reason was given")
    told = f"{_THE_REQUEST} found no answer: {message.rstrip('.')}."
    if status == "NOT_SENT" or code in _NOT_THERE or (code in _NO_ANSWER and not is_write):
        return Unavailable("NOT_REACHED", told)
    if code in _NO_ANSWER or (code == BAD_ANSWER and is_write):
        return Unanswered(code, message, "", _THE_REQUEST)
    return Undelivered(_CODES.get(code, "TASK_FAILED"), told)


def _of_status(result: Mapping[str, Any], *, is_write: bool) -> AwsError | None:
    status = int(result.get("status", 0))
    if status == 429:
        return Unavailable("ASKED_TOO_OFTEN", "Terraform Cloud is asked too often (429).")
    if status >= 500 and is_write:
        return Unanswered("TERRAFORM_CLOUD_TROUBLE", f"it answered {status}", "", _THE_REQUEST)
    if status >= 500:
        return Unavailable("TERRAFORM_CLOUD_TROUBLE", f"Terraform Cloud has trouble of its own ({status}).")
    return None


_CODES: Final = {
    BAD_ANSWER: "BAD_ANSWER",
    "AddressRefused": "ADDRESS_REFUSED",
    "CertificateRefused": "NOT_REACHED",
}


def _path(parts: Any) -> str:
    for part in parts:
        if not _PART.match(str(part)):
            raise Undelivered("BAD_PARAMETERS", f"{str(part)[:60]!r} is no name that Terraform Cloud uses.")
    return "/".join(str(part) for part in parts)


def _query(params: Mapping[str, Any]) -> str:
    asked = {str(name): str(value) for name, value in (params.get("query") or {}).items()}
    return f"?{urlencode(asked, quote_via=quote)}" if asked else ""


def _body(params: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
    body = params.get("body")
    if not body:
        return ""
    texts = {**(params.get("texts") or {}), **secrets}
    given = {**(params.get("hcl") or {}), **{name: hcl_text(str(one)) for name, one in texts.items()}}
    if not given:
        return json.dumps(body)
    data = dict(body["data"])
    listed = [{"key": name, "value": value} for name, value in given.items()]
    data["attributes"] = {**data.get("attributes", {}), "variables": listed}
    return json.dumps({**body, "data": data})


def hcl_text(value: str) -> str:
    """A text as HCL writes it: variables of a run are expressions of HCL."""
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _log_url(base: str, params: Mapping[str, Any]) -> str:
    url = str(params["logUrl"])
    parts, home = urlsplit(url), urlsplit(base)
    archivist = home.netloc.replace("app.", "archivist.", 1) if home.netloc.startswith("app.") else ""
    if parts.scheme != home.scheme or parts.netloc not in (home.netloc, archivist):
        raise Undelivered(
            "BAD_LOG_ADDRESS", f"The log is said to lie at {parts.hostname}, which is not Terraform Cloud."
        )
    piece = urlencode({"limit": int(TERRAFORM_LOG_BYTES), "offset": int(params.get("offset") or 0)})
    return f"{url}{'&' if parts.query else '?'}{piece}"
