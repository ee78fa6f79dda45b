"""AWS requests and error responses in their wire protocols."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl
from uuid import uuid4
from xml.sax.saxutils import escape

CREDENTIAL_PATTERN = re.compile(r"Credential=([^/]+)/\d{8}/([^/]+)/([^/]+)/aws4_request")
# Service names in signatures that differ from those of boto3 clients.
CLIENT_NAMES = {"monitoring": "cloudwatch", "states": "stepfunctions"}
# Operations that take a token in place of a signature.
UNSIGNED_OPERATIONS = {"AssumeRoleWithWebIdentity": "sts"}
TOKEN_PARAMETER = "WebIdentityToken"  # noqa: S105 - the name of a parameter
ELB_V2_VERSION = "2015-12-01"


@dataclass(frozen=True)
class AwsRequest:
    """AWS call as received; `service` and `operation` are boto3's names."""

    service: str
    operation: str
    region: str
    access_key: str
    protocol: str
    params: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class AwsHttpResponse:
    """A whole HTTP response."""

    status: int
    headers: tuple[tuple[str, str], ...]
    body: bytes


def parse_request(environ: Mapping[str, Any], body: bytes) -> AwsRequest:
    """Return the AWS call of a request; other requests have the operation `METHOD /path`."""
    match = CREDENTIAL_PATTERN.search(environ.get("HTTP_AUTHORIZATION", ""))
    access_key, region, signed = match.groups() if match else ("", "us-east-1", "")
    service = CLIENT_NAMES.get(signed, signed) or "unknown"
    target = environ.get("HTTP_X_AMZ_TARGET", "")
    if target:
        return AwsRequest(service, target.rpartition(".")[2], region, access_key, "json", _parse_json(body))
    content_type = environ.get("CONTENT_TYPE", "")
    if content_type.startswith("application/x-www-form-urlencoded"):
        form = dict(parse_qsl(body.decode("utf-8", "replace")))
        if service == "elasticloadbalancing":
            service = "elbv2" if form.get("Version") == ELB_V2_VERSION else "elb"
        service = service if match else UNSIGNED_OPERATIONS.get(form.get("Action", ""), service)
        protocol = "ec2" if service == "ec2" else "query"
        params = {k: v for k, v in form.items() if k not in ("Action", "Version", TOKEN_PARAMETER)}
        return AwsRequest(service, form.get("Action", ""), region, access_key, protocol, params)
    operation = f"{environ.get('REQUEST_METHOD')} {environ.get('PATH_INFO')}"
    return AwsRequest(service, operation, region, access_key, "rest", {})


def _parse_json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def build_error_response(call: AwsRequest, status: int, code: str, message: str) -> AwsHttpResponse:
    """Return an error in the protocol of the call, so that its client raises ClientError with that code."""
    request_id = str(uuid4())
    if call.protocol in ("query", "ec2"):
        kind = "Sender" if status < 500 else "Receiver"
        inner = f"<Code>{escape(code)}</Code><Message>{escape(message)}</Message>"
        text = (
            f"<Response><Errors><Error>{inner}</Error></Errors><RequestID>{request_id}</RequestID></Response>"
            if call.protocol == "ec2"
            else f"<ErrorResponse><Error><Type>{kind}</Type>{inner}</Error>"
            f"<RequestId>{request_id}</RequestId></ErrorResponse>"
        )
        return AwsHttpResponse(status, (("Content-Type", "text/xml"),), text.encode())
    if call.service == "s3":
        text = f"<Error><Code>{escape(code)}</Code><Message>{escape(message)}</Message></Error>"
        return AwsHttpResponse(status, (("Content-Type", "application/xml"),), text.encode())
    headers = (
        ("Content-Type", "application/x-amz-json-1.1"),
        ("x-amzn-RequestId", request_id),
        ("x-amzn-ErrorType", code),
    )
    return AwsHttpResponse(status, headers, json.dumps({"__type": code, "message": message}).encode())


def parse_error_code(answer: AwsHttpResponse) -> str:
    """Return the AWS error code of a response, or an empty text."""
    if answer.status < 400:
        return ""
    text = answer.body.decode("utf-8", "replace")
    if match := re.search(r"<Code>([^<]+)</Code>", text):
        return match[1]
    return str(_parse_json(answer.body).get("__type", "") or f"HTTP {answer.status}").rpartition("#")[2]
