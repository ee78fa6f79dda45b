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

from cli.client import Answer, ApiClient, ApiRefusal
from cli.credentials import SignIn
from cli.errors import CliError, ExitCode
from rbac.models import User

_PREFIX: Final = "/api/v1/"


class LocalApiClient(ApiClient):
    """Client that calls the views as a user, in the current transaction and without a rate limit."""

    def __init__(self, user: User, account_name: str = "") -> None:
        """Act as a user; with `account_name`, refusals name its service account."""
        self.sign_in = SignIn("Slipway", "")
        self._user = user
        self._account_name = account_name

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

    def _build_error(self, response: httpx.Response) -> CliError:
        if response.status_code == httpx.codes.FORBIDDEN and self._account_name:
            return _build_forbidden(self._account_name, response.json())
        return super()._build_error(response)


def _build_forbidden(account_name: str, problem: Mapping[str, Any]) -> ApiRefusal:
    """Return the refusal in words for whoever pushes, who has other permissions than the service account."""
    missing = ", ".join(error["message"] for error in problem.get("errors", []) if error.get("message"))
    if not missing:
        return ApiRefusal(str(problem["detail"]), [], code=ExitCode.FORBIDDEN)
    detail = f"The service account {account_name} needs {missing}."
    return ApiRefusal(detail, [], next_step="Give it a role with this permission.", code=ExitCode.FORBIDDEN)


def _build_authentication(user: User) -> type[BaseAuthentication]:
    """Return the authentication of requests that are made in the name of a user."""

    class LocalAuthentication(BaseAuthentication):
        def authenticate(self, request: Request) -> tuple[User, None]:
            return user, None

    return LocalAuthentication
