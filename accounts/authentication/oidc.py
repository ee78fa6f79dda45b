"""OpenID Connect client (authorization code flow with PKCE).

All data from the provider is untrusted until verified. URLs in its documents are called through the guarded
client only. Claims count only with a valid signature, issuer, audience and time.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import wraps
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlencode, urlsplit

import jwt
import requests
from django.conf import settings

from web.http.client import create_safe_session

Given = ParamSpec("Given")
Answer = TypeVar("Answer")
# A provider that lets itself be handed a secret to sign with could be made to take its public key for one.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA")
CLOCK_SKEW_SECONDS = 60
FOREIGN_KEY = "The ID token is not signed with a key of the provider."


class SignOnFailed(Exception):
    """Error raised when the provider identifies nobody; the message is for the user and the log."""


@dataclass(frozen=True)
class ProviderEndpoints:
    """Endpoints of the provider."""

    authorize: str
    token: str
    keys: str
    userinfo: str
    takes_basic: bool


def _convert_errors(ask: Callable[Given, Answer]) -> Callable[Given, Answer]:
    @wraps(ask)
    def asked(*args: Given.args, **kwargs: Given.kwargs) -> Answer:
        try:
            return ask(*args, **kwargs)
        except requests.RequestException as problem:
            raise SignOnFailed(f"Could not reach the provider: {type(problem).__name__}.") from problem
        # The second: a document of brackets inside brackets.
        except (jwt.PyJWTError, RecursionError) as problem:
            raise SignOnFailed(f"The ID token is not valid: {type(problem).__name__}.") from problem

    return asked


@_convert_errors
def discover_endpoints() -> ProviderEndpoints:
    """Read the provider's own description. Raises `SignOnFailed`."""
    issuer = settings.OIDC_ISSUER
    with create_safe_session() as session:
        metadata = _fetch_json(session.get(f"{issuer.rstrip('/')}/.well-known/openid-configuration"))
    if str(metadata.get("issuer", "")).rstrip("/") != issuer.rstrip("/"):
        raise SignOnFailed("The issuer of the provider does not match OIDC_ISSUER.")
    methods = metadata.get("token_endpoint_auth_methods_supported")
    return ProviderEndpoints(
        authorize=_get_endpoint(metadata, "authorization_endpoint"),
        token=_get_endpoint(metadata, "token_endpoint"),
        keys=_get_endpoint(metadata, "jwks_uri"),
        userinfo=_get_endpoint(metadata, "userinfo_endpoint") if "userinfo_endpoint" in metadata else "",
        # Defaults of the specification for a provider that omits them.
        takes_basic="client_secret_basic" in methods if isinstance(methods, list) else True,
    )


def build_authorization_url(
    endpoints: ProviderEndpoints, *, callback: str, state: str, nonce: str, challenge: str
) -> str:
    """Return the authorization URL for a browser; the provider redirects to `callback` with a code."""
    query = {
        "response_type": "code",
        "client_id": settings.OIDC_CLIENT_ID,
        "redirect_uri": callback,
        "scope": settings.OIDC_SCOPES,
        "state": state,
        "nonce": nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    separator = "&" if urlsplit(endpoints.authorize).query else "?"
    return f"{endpoints.authorize}{separator}{urlencode(query)}"


@_convert_errors
def fetch_claims(code: str, *, callback: str, verifier: str, nonce: str) -> dict[str, Any]:
    """Exchange a code for the claims about its user, with `iss` and `sub` at least.

    Raises `SignOnFailed`.
    """
    endpoints = discover_endpoints()
    with create_safe_session() as session:
        tokens = _fetch_tokens(session, endpoints, code=code, callback=callback, verifier=verifier)
        claims = _verify_id_token(str(tokens.get("id_token", "")), _fetch_json(session.get(endpoints.keys)))
        if claims.get("nonce") != nonce:
            raise SignOnFailed("The ID token belongs to another sign-in.")
        return _add_userinfo(session, endpoints, claims, str(tokens.get("access_token", "")))


def _fetch_tokens(
    session: requests.Session, endpoints: ProviderEndpoints, *, code: str, callback: str, verifier: str
) -> dict[str, Any]:
    body = {
        "grant_type": "authorization_code",
        "code": code,
        "redirect_uri": callback,
        "code_verifier": verifier,
    }
    secret = (settings.OIDC_CLIENT_ID, settings.OIDC_CLIENT_SECRET)
    if not endpoints.takes_basic:
        body |= {"client_id": secret[0], "client_secret": secret[1]}
    return _fetch_json(
        session.post(
            endpoints.token,
            data=body,
            auth=secret if endpoints.takes_basic else None,
            # The target of a redirect would receive our secret.
            allow_redirects=False,
        )
    )


def _verify_id_token(statement: str, keys: Mapping[str, Any]) -> dict[str, Any]:
    header = jwt.get_unverified_header(statement)
    matches = [key for key in _parse_keys(keys) if header.get("kid") in (None, key.key_id)]
    if len(matches) != 1 or header.get("alg") not in ALGORITHMS:
        raise SignOnFailed(FOREIGN_KEY)
    claims = _decode(statement, matches[0].key, str(header["alg"]))
    if str(claims["iss"]).rstrip("/") != settings.OIDC_ISSUER.rstrip("/"):
        raise SignOnFailed("The ID token was issued by another provider.")
    if (
        isinstance(claims["aud"], list)
        and len(claims["aud"]) > 1
        and claims.get("azp") != settings.OIDC_CLIENT_ID
    ):
        raise SignOnFailed("The ID token was issued for another client.")
    if not _is_subject(claims["sub"]):
        raise SignOnFailed("The ID token has no subject.")
    return claims


def _parse_keys(document: Mapping[str, Any]) -> list[jwt.PyJWK]:
    try:
        return jwt.PyJWKSet.from_dict(dict(document)).keys
    except TypeError as problem:
        # The name of an algorithm is a list or an object.
        raise SignOnFailed(FOREIGN_KEY) from problem


def _decode(statement: str, key: Any, algorithm: str) -> dict[str, Any]:
    try:
        claims: dict[str, Any] = jwt.decode(
            statement,
            key,
            algorithms=[algorithm],
            audience=settings.OIDC_CLIENT_ID,
            leeway=CLOCK_SKEW_SECONDS,
            options={"require": ["iss", "sub", "aud", "exp", "iat"]},
        )
    except TypeError as problem:
        # The key is of another type than the algorithm.
        raise SignOnFailed(FOREIGN_KEY) from problem
    return claims


def _add_userinfo(
    session: requests.Session, endpoints: ProviderEndpoints, claims: dict[str, Any], token: str
) -> dict[str, Any]:
    """Return the claims completed by the userinfo endpoint; signed claims take precedence."""
    if not endpoints.userinfo or not token:
        return claims
    more = _fetch_json(session.get(endpoints.userinfo, headers={"Authorization": f"Bearer {token}"}))
    if more.get("sub") != claims["sub"]:
        raise SignOnFailed("The ID token and the user info have different subjects.")
    merged = {**more, **claims}
    if claims.get("email") != more.get("email"):
        # Whether an address is verified says the document that names it.
        named_in = claims if "email" in claims else more
        merged["email_verified"] = named_in.get("email_verified")
    return merged


def _is_subject(value: object) -> bool:
    """Return whether a text is a valid subject identifier (OpenID Connect Core 1.0, section 2)."""
    return isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) <= 255


def _fetch_json(response: requests.Response) -> dict[str, Any]:
    if response.status_code != requests.codes.ok:
        where = urlsplit(response.url or "").path
        raise SignOnFailed(f"The provider answered {response.status_code} at {where}.")
    document = response.json()
    if not isinstance(document, dict):
        raise SignOnFailed("The response of the provider is not a JSON object.")
    return document


def _get_endpoint(metadata: Mapping[str, Any], name: str) -> str:
    address = metadata.get(name)
    if not isinstance(address, str) or urlsplit(address).scheme not in ("https", "http"):
        raise SignOnFailed(f"The metadata of the provider has no {name}.")
    if urlsplit(settings.OIDC_ISSUER).scheme == "https" and not address.startswith("https://"):
        raise SignOnFailed(f"The provider's {name} is not encrypted.")
    return address
