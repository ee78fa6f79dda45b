"""Statements of a provider: which count, and which were made for somebody or something else."""

import base64
import json
import time
from typing import Any, Self

import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from pytest_django import Settings

from accounts.authentication.oidc import (
    ProviderEndpoints,
    SignOnFailed,
    _add_userinfo,
    _convert_errors,
    _get_endpoint,
    _verify_id_token,
)

ISSUER = "https://login.example.com"
KEY = rsa.generate_private_key(public_exponent=65537, key_size=2048)
OTHER = rsa.generate_private_key(public_exponent=65537, key_size=2048)


@pytest.fixture(autouse=True)
def _set_client(settings: Settings) -> None:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = ISSUER, "slipway"


def build_key_set(key: rsa.RSAPrivateKey = KEY, kid: str = "k1") -> dict[str, Any]:
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": kid, "use": "sig"}]}


def sign_id_token(key: Any = KEY, *, alg: str = "RS256", kid: str = "k1", **claims: object) -> str:
    now = int(time.time())
    payload = {"iss": ISSUER, "sub": "u-1", "aud": "slipway", "iat": now, "exp": now + 300, **claims}
    payload = {name: value for name, value in payload.items() if value is not None}
    return jwt.encode(payload, key, algorithm=alg, headers={"kid": kid})


def test_a_good_statement_counts() -> None:
    assert _verify_id_token(sign_id_token(), build_key_set())["sub"] == "u-1"
    assert _verify_id_token(sign_id_token(iss=f"{ISSUER}/"), build_key_set())["sub"] == "u-1"
    assert (
        _verify_id_token(sign_id_token(aud=["slipway", "more"], azp="slipway"), build_key_set())["sub"]
        == "u-1"
    )


@pytest.mark.parametrize(
    "claims",
    [
        {"iss": "https://evil.example.com"},
        {"iss": None},
        {"sub": None},
        {"sub": ""},
        {"sub": "a\0b"},
        {"sub": "x" * 256},
        {"aud": "another"},
        {"aud": None},
        {"aud": ["slipway", "more"], "azp": "more"},
        {"aud": ["slipway", "more"]},
        {"exp": 1_000_000_000},
        {"exp": None},
        {"iat": None},
        {"nbf": 4_000_000_000},
    ],
)
def test_a_statement_with_wrong_claims_does_not(claims: dict[str, object]) -> None:
    with pytest.raises((SignOnFailed, jwt.PyJWTError)):
        _verify_id_token(sign_id_token(**claims), build_key_set())


def test_a_statement_of_brackets_in_brackets_is_no_error_of_ours() -> None:
    nested_header = base64.urlsafe_b64encode(b"[" * 200_000).decode()
    with pytest.raises(SignOnFailed):
        _convert_errors(_verify_id_token)(f"{nested_header}.{nested_header}.x", build_key_set())


def test_nor_does_one_that_somebody_else_signed() -> None:
    with pytest.raises(jwt.InvalidSignatureError):
        _verify_id_token(sign_id_token(OTHER), build_key_set())
    with pytest.raises(SignOnFailed):
        _verify_id_token(sign_id_token(kid="k2"), build_key_set())


def test_the_public_key_is_no_password_to_sign_with() -> None:
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    # The library refuses to make such a statement, so it is put together by hand.
    header, body, _ = sign_id_token().split(".")
    token_header = (
        base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "k1"}).encode()).decode().strip("=")
    )
    signer = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    mark = (
        base64.urlsafe_b64encode(signer.sign(f"{token_header}.{body}".encode(), public)).decode().strip("=")
    )
    assert header
    with pytest.raises(SignOnFailed, match="not signed with a key"):
        _verify_id_token(f"{token_header}.{body}.{mark}", build_key_set())


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"keys": []},
        {"keys": "x"},
        {"keys": [7]},
        {"keys": [{"kty": "RSA"}]},
        {"keys": [build_key_set()["keys"][0] | {"alg": ["RS256"]}]},
    ],
)
def test_keys_that_are_none_are_no_error_of_ours(keys: dict[str, Any]) -> None:
    with pytest.raises(SignOnFailed):
        _convert_errors(_verify_id_token)(sign_id_token(), keys)


@pytest.mark.parametrize("algorithm", ["ES256", "ES512", "EdDSA", "PS256"])
def test_an_algorithm_that_does_not_fit_the_key_is_no_error_of_ours(algorithm: str) -> None:
    header, payload, signature = sign_id_token().split(".")
    changed = json.dumps({"alg": algorithm, "kid": "k1"}).encode()
    header = base64.urlsafe_b64encode(changed).decode().rstrip("=")
    with pytest.raises(SignOnFailed):
        _convert_errors(_verify_id_token)(f"{header}.{payload}.{signature}", build_key_set())


class FakeUserinfoSession:
    """A session in which the provider answers one thing."""

    def __init__(self, body: object) -> None:
        self.status_code, self.url, self._answer = 200, ISSUER, body

    def get(self, _address: str, **_: object) -> Self:
        return self

    def json(self) -> object:
        return self._answer


def test_what_is_told_on_request_is_about_the_same_person_and_comes_second() -> None:
    endpoints = ProviderEndpoints(authorize="", token="", keys="", userinfo=f"{ISSUER}/who", takes_basic=True)
    session = FakeUserinfoSession({"sub": "u-1", "email": "told@example.com", "name": "Told"})
    payload = {"sub": "u-1", "email": "signed@example.com"}
    claims = _add_userinfo(session, endpoints, payload, "token")  # type: ignore[arg-type]
    assert (claims["email"], claims["name"]) == ("signed@example.com", "Told")
    with pytest.raises(SignOnFailed, match="different subjects"):
        _add_userinfo(FakeUserinfoSession({"sub": "u-2"}), endpoints, {"sub": "u-1"}, "token")  # type: ignore[arg-type]
    with pytest.raises(SignOnFailed, match="not a JSON object"):
        _add_userinfo(FakeUserinfoSession(["u-1"]), endpoints, {"sub": "u-1"}, "token")  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("signed", "told", "verified"),
    [
        ({"email": "a@example.com"}, {"email": "b@example.com", "email_verified": True}, None),
        ({"email_verified": True}, {"email": "b@example.com", "email_verified": False}, False),
        ({"email": "a@example.com"}, {"email": "a@example.com", "email_verified": True}, True),
        ({"email": "a@example.com", "email_verified": True}, {}, True),
        ({}, {"email": "b@example.com", "email_verified": True}, True),
    ],
)
def test_an_address_is_verified_by_the_document_that_names_it(
    signed: dict[str, object], told: dict[str, object], verified: bool | None
) -> None:
    endpoints = ProviderEndpoints(authorize="", token="", keys="", userinfo=f"{ISSUER}/who", takes_basic=True)
    session = FakeUserinfoSession({"sub": "u-1", **told})
    claims = _add_userinfo(session, endpoints, {"sub": "u-1", **signed}, "token")  # type: ignore[arg-type]
    assert claims.get("email_verified") is verified


@pytest.mark.parametrize("address", ["http://login.example.com/", "javascript:alert(1)", 7, None, "/token"])
def test_an_encrypted_provider_names_encrypted_addresses_only(address: object) -> None:
    with pytest.raises(SignOnFailed, match="token_endpoint"):
        _get_endpoint({"token_endpoint": address}, "token_endpoint")
