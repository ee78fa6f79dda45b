"""HTTP client for addresses that people entered; it connects only to permitted networks."""

from typing import Any

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter

from guards.address_policy import AddressPolicy
from guards.connection_pools import build_guarded_pools
from guards.limits import PROVIDER_ANSWER_BYTES, REDIRECTS
from guards.safe_http import CONNECT_SECONDS, READ_SECONDS
from guards.urls import parse_url


def get_outgoing_reach() -> AddressPolicy:
    """Return the address policy of outgoing requests: public addresses and configured private networks."""
    policy: AddressPolicy = settings.OUTGOING_REACH
    return policy


class ClientResponseTooLarge(requests.exceptions.RequestException):
    """The answer is larger than is taken."""


class SafeAdapter(HTTPAdapter):
    """Adapter that checks the address of each request and redirect.

    Raises the errors of requests: `InvalidURL` for forbidden addresses, `ConnectionError` for refused ones,
    `ClientResponseTooLarge`.
    """

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = build_guarded_pools(get_outgoing_reach)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        try:
            parse_url(request.url or "")
        except ValueError as problem:
            raise requests.exceptions.InvalidURL(str(problem), request=request) from problem
        options |= {"stream": True, "timeout": options.get("timeout") or (CONNECT_SECONDS, READ_SECONDS)}
        request.headers["Accept-Encoding"] = "identity"
        return _read_body(super().send(request, **options))


def create_safe_session() -> requests.Session:
    """Return a session for user-supplied URLs, such as an identity provider's; it stores no cookies."""
    session = requests.Session()
    session.trust_env = False
    session.max_redirects = REDIRECTS
    for scheme in ("https://", "http://"):
        session.mount(scheme, SafeAdapter())
    return session


def _read_body(response: requests.Response) -> requests.Response:
    """Return the response with its body, up to the size limit."""
    body = bytearray()
    for piece in response.raw.stream(65_536, decode_content=False):
        body += piece
        if len(body) > PROVIDER_ANSWER_BYTES:
            response.close()
            raise ClientResponseTooLarge(f"the response is larger than {PROVIDER_ANSWER_BYTES}")
    response._content = bytes(body)
    return response
