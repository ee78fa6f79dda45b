"""Authentication by API key, sent as `x-api-key` or as a Bearer token."""

from dataclasses import replace

from django.utils.translation import gettext_lazy
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication
from rest_framework.exceptions import AuthenticationFailed, Throttled
from rest_framework.request import Request

from guards.limits import BAD_KEYS_PER_ADDRESS
from rbac.audit import NO_REQUEST, current_request
from rbac.models import ApiKey, User
from rbac.operations.api_keys import get_api_key_by_token, record_api_key_use
from rbac.usage_counts import counts
from web.http.outages import optional_write

_TOO_MANY_BAD_KEYS = (
    "Too many requests with invalid API keys from your address. Wait one minute, then use a valid key."
)


class ApiKeyAuthentication(BaseAuthentication):
    """API key authentication as the key's user. It never reads cookies, so it needs no CSRF token."""

    def authenticate(self, request: Request) -> tuple[User, ApiKey] | None:
        token = get_token(request)
        if token is None:
            return None
        key = get_api_key_by_token(token)
        if key is None:
            _count_bad_key(request)
            raise AuthenticationFailed(gettext_lazy("This API key is unknown, revoked or expired."))
        with optional_write("the last use of an API key"):
            record_api_key_use(key)
        key.user.key_limits = key.limits
        mark = current_request.get(NO_REQUEST)
        current_request.set(replace(mark, source="api", api_key_prefix=key.prefix))
        return key.user, key

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="slipway"'


def _count_bad_key(request: Request) -> None:
    """Count invalid keys, and raise `Throttled` above the limit of an address."""
    address = request.META.get("REMOTE_ADDR", "")
    if counts.increment(f"bad-key:{address}", seconds=60) > BAD_KEYS_PER_ADDRESS:
        raise Throttled(60, detail=_TOO_MANY_BAD_KEYS)


def get_token(request: Request) -> str | None:
    """Return the API key of `request`, or None."""
    if key := request.headers.get("x-api-key", "").strip():
        return key
    scheme, _, value = request.headers.get("Authorization", "").partition(" ")
    return value.strip() if scheme.lower() == "bearer" else None


class ApiKeyScheme(OpenApiAuthenticationExtension):
    """API key header and bearer token in the OpenAPI document."""

    target_class = "web.api.authentication.ApiKeyAuthentication"
    name = ["apiKey", "bearer"]

    def get_security_definition(self, auto_schema: object) -> list[dict[str, str]]:
        return [
            {"type": "apiKey", "in": "header", "name": "x-api-key"},
            {"type": "http", "scheme": "bearer"},
        ]
