"""Requests of this Slipway to addresses that people gave, as its settings allow them."""

from typing import Any

import requests
from django.conf import settings
from requests.adapters import HTTPAdapter

from guards.addresses import Reach
from guards.limits import PROVIDER_ANSWER_BYTES, REDIRECTS
from guards.places import read_url
from guards.pools import guarded_pools
from guards.safe_http import CONNECT_SECONDS, READ_SECONDS


def own_reach() -> Reach:
    """The addresses that this Slipway asks for others: of private ones only those that are set."""
    found: Reach = settings.OUTGOING_REACH
    return found


class AnswerTooLarge(requests.exceptions.RequestException):
    """The answer is larger than is taken."""


class SafeAdapter(HTTPAdapter):
    """Sends each request, also one that a redirect led to, only where this Slipway may ask.

    Raises what requests raises: `InvalidURL` for addresses that cannot be asked, `ConnectionError` for
    refused ones, `AnswerTooLarge`.
    """

    def init_poolmanager(self, *args: Any, **kwargs: Any) -> None:
        super().init_poolmanager(*args, **kwargs)
        self.poolmanager.pool_classes_by_scheme = guarded_pools(own_reach)

    def send(self, request: requests.PreparedRequest, **options: Any) -> requests.Response:  # type: ignore[override]
        try:
            read_url(request.url or "")
        except ValueError as problem:
            raise requests.exceptions.InvalidURL(str(problem), request=request) from problem
        options |= {"stream": True, "timeout": options.get("timeout") or (CONNECT_SECONDS, READ_SECONDS)}
        request.headers["Accept-Encoding"] = "identity"
        return _whole(super().send(request, **options))


def safe_session() -> requests.Session:
    """A session for asking what people gave, such as an identity provider; it keeps no cookies of others."""
    session = requests.Session()
    session.trust_env = False
    session.max_redirects = REDIRECTS
    for scheme in ("https://", "http://"):
        session.mount(scheme, SafeAdapter())
    return session


def _whole(response: requests.Response) -> requests.Response:
    """The same with its body read, no further than is taken."""
    body = bytearray()
    for piece in response.raw.stream(65_536, decode_content=False):
        body += piece
        if len(body) > PROVIDER_ANSWER_BYTES:
            response.close()
            raise AnswerTooLarge(f"the answer is larger than {PROVIDER_ANSWER_BYTES}")
    response._content = bytes(body)
    return response
