"""Requests to Terraform Cloud for one connector, and their errors (API v2)."""

import json
import re
from collections.abc import Mapping
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode, urlsplit

from aws.errors import AwsError, Unanswered, Unavailable, Undelivered
from connectors.models import Connector
from connectors.specs.sites import parse_site_spec
from delegates.task_owners import BAD_ANSWERS, TaskPayload
from guards.limits import TERRAFORM_LOG_BYTES
from guards.masks import SecretMask

CALL_TERRAFORM: Final = "AskTerraformCloud"
"""A request to the API: `path` in parts, `method`, `query`, `body`, variables as `texts` and `hcl`."""
READ_TERRAFORM_LOG: Final = "ReadTerraformLog"
"""A piece of a log of Terraform: `logUrl` as the API told it, `offset` in bytes."""
OPERATIONS: Final = (CALL_TERRAFORM, READ_TERRAFORM_LOG)
_PART = re.compile(r"[A-Za-z0-9_-]{1,128}\Z")
_JSON_API: Final = "application/vnd.api+json"
_THE_REQUEST: Final = "The request to Terraform Cloud"
# The request was not sent, or the server's program did not respond.
_UNREACHABLE_CODES: Final = ("NameNotResolved", "NotConnected", "TlsFailed")
_UNANSWERED_CODES: Final = ("NoAnswer", "TimedOut", "TooMuch", "Aborted", "DelegateError")


def build_terraform_payload(
    connector: Connector,
    token: str,
    operation: str,
    params: Mapping[str, Any],
    secrets: Mapping[str, str],
) -> TaskPayload:
    """Return the request in the executor's format; `secrets` are the secret variables of a run.

    Raises `Undelivered` for an invalid address.
    """
    base = parse_site_spec(connector.spec).url.rstrip("/").removesuffix("/api/v2")
    if operation == READ_TERRAFORM_LOG:
        return TaskPayload({"method": "GET", "url": _build_log_url(base, params)}, mask=(token,))
    headers = {"Authorization": f"Bearer {token}", "Content-Type": _JSON_API}
    request = {
        "method": str(params.get("method") or "GET"),
        "url": f"{base}/api/v2/{_build_path(params['path'])}{_build_query(params)}",
        "headers": headers,
        "body": _build_body(params, secrets),
    }
    return TaskPayload(request, mask=(token, *secrets.values()))


def redact_terraform_result(operation: str, token: str, result: Mapping[str, Any]) -> dict[str, Any]:
    """Return the status and text of a response without a token that the response repeats."""
    text = str(result.get("body", ""))
    if operation == CALL_TERRAFORM:
        text = SecretMask((token,) if token else ()).mask_text(text)
    headers = result.get("headers") or {}
    size = str(headers.get("content-length", "")) if isinstance(headers, Mapping) else ""
    return {"status": int(result.get("status", 0)), "body": text, "size": int(size) if size.isdigit() else -1}


class TerraformOutcome(Protocol):
    """Outcome of a request, as reported by a delegate or an executor."""

    @property
    def status(self) -> str: ...
    @property
    def error(self) -> Mapping[str, Any] | None: ...
    @property
    def result(self) -> Mapping[str, Any] | None: ...


def build_terraform_error(answer: TerraformOutcome, *, is_write: bool) -> AwsError | None:
    """Return the error for a call without a response; a refusal by the API counts as a response."""
    error = _build_failure_error(answer.status, answer.error or {}, is_write=is_write)
    return error or _build_status_error(answer.result or {}, is_write=is_write)


def _build_failure_error(status: str, error: Mapping[str, Any], *, is_write: bool) -> AwsError | None:
    """Return the error for an executor's failure: reads are retried, changes have an unknown result."""
    if status == "SUCCEEDED":
        return None
    code, reason = str(error.get("code", status)), str(error.get("message") or "no reason was given")
    message = f"{_THE_REQUEST} got no response: {reason.rstrip('.')}."
    if status == "NOT_SENT" or code in _UNREACHABLE_CODES or (code in _UNANSWERED_CODES and not is_write):
        return Unavailable("NOT_REACHED", message)
    if code in _UNANSWERED_CODES or (code in BAD_ANSWERS and is_write):
        return Unanswered(code, reason, "", _THE_REQUEST)
    return Undelivered(_CODES.get(code, "TASK_FAILED"), message)


def _build_status_error(result: Mapping[str, Any], *, is_write: bool) -> AwsError | None:
    status = int(result.get("status", 0))
    if status == 429:
        return Unavailable("ASKED_TOO_OFTEN", "Terraform Cloud refused more requests for now (429).")
    if status >= 500 and is_write:
        return Unanswered("TERRAFORM_CLOUD_TROUBLE", f"it returned {status}", "", _THE_REQUEST)
    if status >= 500:
        return Unavailable("TERRAFORM_CLOUD_TROUBLE", f"Terraform Cloud has a server error ({status}).")
    return None


_CODES: Final = {
    **dict.fromkeys(BAD_ANSWERS, "BAD_ANSWER"),
    "AddressRefused": "ADDRESS_REFUSED",
    "CertificateRefused": "NOT_REACHED",
}


def _build_path(parts: Any) -> str:
    for part in parts:
        if not _PART.match(str(part)):
            raise Undelivered("BAD_PARAMETERS", f"{str(part)[:60]!r} is not a valid name in Terraform Cloud.")
    return "/".join(str(part) for part in parts)


def _build_query(params: Mapping[str, Any]) -> str:
    query = {str(name): str(value) for name, value in (params.get("query") or {}).items()}
    return f"?{urlencode(query, quote_via=quote)}" if query else ""


def _build_body(params: Mapping[str, Any], secrets: Mapping[str, str]) -> str:
    body = params.get("body")
    if not body:
        return ""
    texts = {**(params.get("texts") or {}), **secrets}
    variables = {
        **(params.get("hcl") or {}),
        **{name: render_hcl_string(str(text)) for name, text in texts.items()},
    }
    if not variables:
        return json.dumps(body)
    data = dict(body["data"])
    listed = [{"key": name, "value": value} for name, value in variables.items()]
    data["attributes"] = {**data.get("attributes", {}), "variables": listed}
    return json.dumps({**body, "data": data})


def render_hcl_string(value: str) -> str:
    """Return a text as HCL writes it: variables of a run are expressions of HCL."""
    return json.dumps(value, ensure_ascii=False).replace("${", "$${").replace("%{", "%%{")


def _build_log_url(base: str, params: Mapping[str, Any]) -> str:
    url = str(params["logUrl"])
    parts, home = urlsplit(url), urlsplit(base)
    archivist = home.netloc.replace("app.", "archivist.", 1) if home.netloc.startswith("app.") else ""
    if parts.scheme != home.scheme or parts.netloc not in (home.netloc, archivist):
        raise Undelivered(
            "BAD_LOG_ADDRESS", f"The log is said to lie at {parts.hostname}, which is not Terraform Cloud."
        )
    piece = urlencode({"limit": int(TERRAFORM_LOG_BYTES), "offset": int(params.get("offset") or 0)})
    return f"{url}{'&' if parts.query else '?'}{piece}"
