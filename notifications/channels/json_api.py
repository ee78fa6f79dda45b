"""Client of JSON APIs of other services, for channels."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from guards.address_policy import AddressPolicy, AddressRefused
from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.safe_http import RequestFailed, RequestPolicy, SafeRequest, send_request
from guards.urls import HostNotResolved, InvalidUrl
from notifications.channels.base import (
    TIMEOUT_SECONDS,
    USER_AGENT,
    DeliveryResult,
    describe_refusal,
    format_reason,
)

ANSWER_BYTES: Final = 256 * 1024


class ServiceRefused(Exception):
    """Error raised for an answer that means no success, or for none; `result` is that of the delivery.

    `text` is the answer, which may repeat tokens: it is for comparisons only.
    """

    def __init__(self, result: DeliveryResult, text: str = "") -> None:
        super().__init__(result.reason)
        self.result, self.text = result, text


@dataclass(frozen=True)
class JsonAnswer:
    """Successful answer of a service."""

    service: str
    status_code: int
    text: str

    def parse(self) -> Any:
        """Return the document. Raises `ServiceRefused` for a text that is none."""
        try:
            return parse_json(self.text)
        except InputRejected as problem:
            reason = f"{self.service} answered with something that is no JSON."
            raise ServiceRefused(DeliveryResult(self.status_code, reason)) from problem


@dataclass(frozen=True)
class JsonApi:
    """API of a service by its name, with the headers of every request, such as the token."""

    service: str
    headers: Mapping[str, str]
    reach: AddressPolicy

    def send(self, method: str, url: str, document: Mapping[str, Any] | None = None) -> JsonAnswer:
        """Send a request. Raises `ServiceRefused` for every answer that means no success."""
        headers = {"Content-Type": "application/json", "User-Agent": USER_AGENT, **self.headers}
        body = b"" if document is None else json.dumps(document).encode()
        policy = RequestPolicy(
            address_policy=self.reach,
            max_bytes=ANSWER_BYTES,
            truncates=True,
            timeout_seconds=TIMEOUT_SECONDS,
        )
        try:
            reply = send_request(SafeRequest(method, url, headers, body), policy)
        except (InvalidUrl, AddressRefused, HostNotResolved, RequestFailed) as problem:
            raise ServiceRefused(DeliveryResult(None, format_reason(str(problem)))) from problem
        if not 200 <= reply.status < 300:
            reason = describe_refusal(self.service, reply.status)
            raise ServiceRefused(DeliveryResult(reply.status, reason), reply.text)
        return JsonAnswer(self.service, reply.status, reply.text)
