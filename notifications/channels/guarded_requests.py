"""Stand-in for the module `requests` inside plug-ins of Apprise: the product's own HTTP client."""

import threading
from typing import Any

import requests
from requests.structures import CaseInsensitiveDict

from guards.address_policy import PUBLIC_ONLY, AddressPolicy, AddressRefused
from guards.limits import NOTIFICATION_ANSWER_BYTES
from guards.safe_http import RequestFailed, RequestPolicy, SafeRequest, SafeResponse, send_request
from guards.urls import HostNotResolved, InvalidUrl
from notifications.channels.base import TIMEOUT_SECONDS

# What decides about the connection stays with the product's client.
_IGNORED_OPTIONS = ("verify", "timeout", "allow_redirects", "stream", "cert", "proxies")


class Exchange(threading.local):
    """Requests of one delivery: the permitted addresses, and the last status or failure.

    It belongs to the thread of the delivery.
    """

    reach: AddressPolicy = PUBLIC_ONLY
    status_code: int | None = None
    problem: str = ""

    def begin(self, reach: AddressPolicy) -> None:
        """Forget the delivery before."""
        self.reach, self.status_code, self.problem = reach, None, ""


class GuardedRequests:
    """The functions of `requests` that plug-ins call; everything else is that of the module.

    Addresses are checked and pinned, certificates verified, redirects refused, time and size limited.
    """

    def __init__(self, exchange: Exchange) -> None:
        self._exchange = exchange

    def __getattr__(self, name: str) -> Any:
        return getattr(requests, name)

    def get(self, url: str, **options: Any) -> requests.Response:
        """Send a GET."""
        return self.request("GET", url, **options)

    def post(self, url: str, data: Any = None, json: Any = None, **options: Any) -> requests.Response:
        """Send a POST."""
        return self.request("POST", url, data=data, json=json, **options)

    def put(self, url: str, data: Any = None, **options: Any) -> requests.Response:
        """Send a PUT."""
        return self.request("PUT", url, data=data, **options)

    def delete(self, url: str, **options: Any) -> requests.Response:
        """Send a DELETE."""
        return self.request("DELETE", url, **options)

    def request(self, method: str, url: str, **options: Any) -> requests.Response:
        """Send a request. Raises `requests.ConnectionError` without an answer."""
        accepted = {name: value for name, value in options.items() if name not in _IGNORED_OPTIONS}
        prepared = requests.Request(method, url, **accepted).prepare()
        body = prepared.body or b""
        request = SafeRequest(
            method,
            prepared.url or "",
            {name: value for name, value in prepared.headers.items() if name.lower() != "content-length"},
            body.encode() if isinstance(body, str) else body,
        )
        policy = RequestPolicy(
            address_policy=self._exchange.reach,
            max_bytes=NOTIFICATION_ANSWER_BYTES,
            truncates=True,
            timeout_seconds=TIMEOUT_SECONDS,
        )
        try:
            reply = send_request(request, policy)
        except (InvalidUrl, AddressRefused, HostNotResolved, RequestFailed) as problem:
            self._exchange.status_code, self._exchange.problem = None, str(problem)
            raise requests.ConnectionError(str(problem)) from problem
        self._exchange.status_code, self._exchange.problem = reply.status, ""
        return _convert_response(reply, request.url)


def _convert_response(reply: SafeResponse, url: str) -> requests.Response:
    response = requests.Response()
    response.status_code, response.url = reply.status, url
    response.headers = CaseInsensitiveDict(reply.headers)
    response._content = reply.body
    response.encoding = "utf-8"
    return response
