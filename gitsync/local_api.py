"""Client of the REST API of this process: the plan of a sync passes the checks that all requests pass."""

import json
from collections.abc import Mapping
from io import BytesIO
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import httpx
from django.conf import settings
from django.core.handlers.wsgi import WSGIRequest
from django.urls import resolve
from rest_framework.authentication import BaseAuthentication
from rest_framework.request import Request

from cli.client import Answer, ApiClient
from cli.credentials import SignIn
from rbac.models import User

_PREFIX: Final = "/api/v1/"


class LocalApiClient(ApiClient):
    """Client that calls the views as a user, in the current transaction and without a rate limit."""

    def __init__(self, user: User) -> None:
        self.sign_in = SignIn("Slipway", "")
        self._user = user

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
        """Return the answer of a view. Raises `CliError` if it refuses."""
        given = {name: value for name, value in (params or {}).items() if value not in (None, "")}
        content = b"" if body is None else json.dumps(body).encode()
        request = WSGIRequest(
            {
                "REQUEST_METHOD": method,
                "PATH_INFO": f"{_PREFIX}{path}",
                "QUERY_STRING": urlencode(given),
                "CONTENT_TYPE": "application/json",
                "CONTENT_LENGTH": str(len(content)),
                "HTTP_ACCEPT": "application/json",
                "HTTP_HOST": urlsplit(settings.PUBLIC_URL).netloc,
                "wsgi.url_scheme": urlsplit(settings.PUBLIC_URL).scheme,
                "wsgi.input": BytesIO(content),
                **({"HTTP_IF_MATCH": etag} if etag else {}),
            }
        )
        match = resolve(request.path_info)
        view: Any = match.func
        answer = view.cls.as_view(
            **{**view.initkwargs, "authentication_classes": [_build_authentication(self._user)]},
            throttle_classes=[],
        )(request, *match.args, **match.kwargs)
        answer.render()
        return self._parse(httpx.Response(answer.status_code, content=answer.content, headers=answer.headers))


def _build_authentication(user: User) -> type[BaseAuthentication]:
    """Return the authentication of requests that are made in the name of a user."""

    class LocalAuthentication(BaseAuthentication):
        def authenticate(self, request: Request) -> tuple[User, None]:
            return user, None

    return LocalAuthentication
