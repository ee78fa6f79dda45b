"""Statements of a provider: which count, and which were made for somebody or something else."""

import base64
import json
import time
from typing import Any

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
def _ours(settings: Settings) -> None:
    settings.OIDC_ISSUER, settings.OIDC_CLIENT_ID = ISSUER, "slipway"


def published(key: rsa.RSAPrivateKey = KEY, kid: str = "k1") -> dict[str, Any]:
    public = jwt.algorithms.RSAAlgorithm.to_jwk(key.public_key(), as_dict=True)
    return {"keys": [{**public, "kid": kid, "use": "sig"}]}


def statement(key: Any = KEY, *, alg: str = "RS256", kid: str = "k1", **claims: object) -> str:
    now = int(time.time())
    said = {"iss": ISSUER, "sub": "u-1", "aud": "slipway", "iat": now, "exp": now + 300, **claims}
    said = {name: value for name, value in said.items() if value is not None}
    return jwt.encode(said, key, algorithm=alg, headers={"kid": kid})


def test_a_good_statement_counts() -> None:
    assert _verify_id_token(statement(), published())["sub"] == "u-1"
    assert _verify_id_token(statement(iss=f"{ISSUER}/"), published())["sub"] == "u-1"
    assert _verify_id_token(statement(aud=["slipway", "more"], azp="slipway"), published())["sub"] == "u-1"


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
        _verify_id_token(statement(**claims), published())


def test_a_statement_of_brackets_in_brackets_is_no_error_of_ours() -> None:
    deep = base64.urlsafe_b64encode(b"[" * 200_000).decode()
    with pytest.raises(SignOnFailed):
        _convert_errors(_verify_id_token)(f"{deep}.{deep}.x", published())


def test_nor_does_one_that_somebody_else_signed() -> None:
    with pytest.raises(jwt.InvalidSignatureError):
        _verify_id_token(statement(OTHER), published())
    with pytest.raises(SignOnFailed):
        _verify_id_token(statement(kid="k2"), published())


def test_the_public_key_is_no_password_to_sign_with() -> None:
    public = KEY.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    # The library refuses to make such a statement, so it is put together by hand.
    header, body, _ = statement().split(".")
    forged = base64.urlsafe_b64encode(json.dumps({"alg": "HS256", "kid": "k1"}).encode()).decode().strip("=")
    signed = jwt.algorithms.HMACAlgorithm(jwt.algorithms.HMACAlgorithm.SHA256)
    mark = base64.urlsafe_b64encode(signed.sign(f"{forged}.{body}".encode(), public)).decode().strip("=")
    assert header
    with pytest.raises(SignOnFailed, match="not signed with a key"):
        _verify_id_token(f"{forged}.{body}.{mark}", published())


@pytest.mark.parametrize("keys", [{}, {"keys": []}, {"keys": "x"}, {"keys": [7]}, {"keys": [{"kty": "RSA"}]}])
def test_keys_that_are_none_are_no_error_of_ours(keys: dict[str, Any]) -> None:
    with pytest.raises(SignOnFailed):
        _convert_errors(_verify_id_token)(statement(), keys)


class Speaking:
    """A session in which the provider answers one thing."""

    def __init__(self, answer: object) -> None:
        self.status_code, self.url, self._answer = 200, ISSUER, answer

    def get(self, _address: str, **_: object) -> "Speaking":
        return self

    def json(self) -> object:
        return self._answer


def test_what_is_told_on_request_is_about_the_same_person_and_comes_second() -> None:
    ends = ProviderEndpoints(authorize="", token="", keys="", userinfo=f"{ISSUER}/who", takes_basic=True)
    told = Speaking({"sub": "u-1", "email": "told@example.com", "name": "Told"})
    found = _add_userinfo(told, ends, {"sub": "u-1", "email": "signed@example.com"}, "token")  # type: ignore[arg-type]
    assert (found["email"], found["name"]) == ("signed@example.com", "Told")
    with pytest.raises(SignOnFailed, match="different subjects"):
        _add_userinfo(Speaking({"sub": "u-2"}), ends, {"sub": "u-1"}, "token")  # type: ignore[arg-type]
    with pytest.raises(SignOnFailed, match="not a JSON object"):
        _add_userinfo(Speaking(["u-1"]), ends, {"sub": "u-1"}, "token")  # type: ignore[arg-type]


@pytest.mark.parametrize("address", ["http://login.example.com/", "javascript:alert(1)", 7, None, "/token"])
def test_an_encrypted_provider_names_encrypted_addresses_only(address: object) -> None:
    with pytest.raises(SignOnFailed, match="token_endpoint"):
        _get_endpoint({"token_endpoint": address}, "token_endpoint")
