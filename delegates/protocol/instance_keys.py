"""Key pairs and ids of instances, as agents send them, and challenges to sign."""

import base64
import re
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.core import signing

from delegates.protocol.problems import SignatureWrong
from delegates.protocol.requests import RequestFields, build_field_error

CHALLENGE_LIFETIME = timedelta(seconds=60)
_ID = re.compile(r"[0-9a-f]{32}")
_SALT = "delegates.registration"
_RESTART_HINT = "Start the agent again; if that does not help, delete instance-key.pem in its folder."


def parse_public_key(fields: RequestFields) -> str:
    """Return the public key in a registration, or an empty text. Raises `BadInput`."""
    text = fields.get_text("public_key", 44)
    if text and _parse_key(text) is None:
        raise build_field_error("public_key", "must be the 32 bytes of an Ed25519 key as base64")
    return text


def parse_id(fields: RequestFields, name: str) -> str:
    """Return an id of 32 hexadecimal digits in a registration, or an empty text. Raises `BadInput`."""
    text = fields.get_text(name, 32)
    if text and not _ID.fullmatch(text):
        raise build_field_error(name, "must be 32 hexadecimal digits")
    return text


def create_challenge(now: datetime) -> str:
    """Return a new challenge; it carries its own time, so that none is stored."""
    issued = {"at": now.timestamp(), "nonce": secrets.token_urlsafe(16)}
    return signing.Signer(salt=_SALT).sign_object(issued)


@dataclass(frozen=True)
class KeyProof:
    """Proof that an agent holds the private key of a public key; base64 except `message`."""

    public_key: str
    challenge: str
    signature: str = field(repr=False)
    message: bytes = field(repr=False)

    def check(self, *, newer_than: datetime, now: datetime) -> None:
        """Refuse a wrong signature, and a challenge that is old or was used. Raises `SignatureWrong`."""
        issued = _parse_challenge_time(self.challenge)
        # Each registration makes the challenges before it worthless, its own among them.
        if not max(newer_than.timestamp(), (now - CHALLENGE_LIFETIME).timestamp()) < issued:
            raise SignatureWrong(
                f"The challenge has expired, was already used, or is not from this Slipway. {_RESTART_HINT}"
            )
        public = _parse_key(self.public_key)
        try:
            if public is None:
                raise InvalidSignature
            public.verify(base64.b64decode(self.signature, validate=True), self.message)
        except (InvalidSignature, ValueError) as problem:
            raise SignatureWrong(
                f"The signature is not of the key pair that was sent. {_RESTART_HINT}"
            ) from problem


def _parse_key(text: str) -> Ed25519PublicKey | None:
    try:
        return Ed25519PublicKey.from_public_bytes(base64.b64decode(text, validate=True))
    except ValueError:
        return None


def _parse_challenge_time(challenge: str) -> float:
    """Return the creation time of a Slipway challenge in seconds since 1970; 0 for any other text."""
    try:
        return float(signing.Signer(salt=_SALT).unsign_object(challenge)["at"])
    except signing.BadSignature:
        return 0.0
