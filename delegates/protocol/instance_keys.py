"""Key pairs of instances: challenges to sign, and claims to an instance's place."""

import base64
import secrets
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from django.core import signing

from delegates.connectivity import AWAY_AFTER
from delegates.models import DelegateInstance
from delegates.models.instances import build_key_fingerprint
from delegates.protocol.events import get_instance_label
from delegates.protocol.problems import InstanceTaken, SignatureWrong, TooOften
from delegates.protocol.requests import RequestFields, build_field_error
from guards.limits import UNBOUND_REGISTRATIONS
from rbac.usage_counts import counts

CHALLENGE_LIFETIME = timedelta(seconds=60)
# Both processes retry, often enough to notice the end of the other.
RETRY_SECONDS = 60
_MINUTE = 60
_SALT = "delegates.registration"
_RESTART_HINT = "Start the agent again; if that does not help, delete instance-key.pem in its folder."


def parse_public_key(fields: RequestFields) -> str:
    """Return the public key in a registration, or an empty text. Raises `BadInput`."""
    text = fields.get_text("public_key", 44)
    if text and _parse_key(text) is None:
        raise build_field_error("public_key", "must be the 32 bytes of an Ed25519 key as base64")
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


def check_instance_claim(instance: DelegateInstance, public_key: str, now: datetime) -> None:
    """Refuse to replace a live instance by a process without its key pair.

    If neither process has a key pair, a restart looks like a second process; such registrations are only
    rate-limited. Raises `InstanceTaken`, `TooOften`.
    """
    if not _is_alive(instance, now):
        return
    if instance.public_key != public_key:
        raise InstanceTaken(
            f"Another process runs as {get_instance_label(instance)} ({instance.key}) and was heard "
            "within the last "
            f"{AWAY_AFTER.total_seconds():.0f} seconds. Give one of the two another HARNESS_NAME or another "
            "host name. If the other one has ended, this one takes its place by itself after that time. "
            f"{_describe_keys(instance, public_key)}",
            retry_after=RETRY_SECONDS,
        )
    if not public_key and counts.increment(f"unbound:{instance.pk}", seconds=_MINUTE) > UNBOUND_REGISTRATIONS:
        raise TooOften(
            f"{get_instance_label(instance)} ({instance.key}) registers again and again: two processes "
            "seem to share the "
            "name and host name. Give one of them another one, and upgrade the agents, which then tell "
            "each other apart.",
            retry_after=RETRY_SECONDS,
        )


def _describe_keys(instance: DelegateInstance, public_key: str) -> str:
    refused = build_key_fingerprint(public_key) or "none"
    return f"Key pair of this one: {refused}, of the other one: {instance.key_fingerprint or 'none'}."


def _is_alive(instance: DelegateInstance, now: datetime) -> bool:
    last_heartbeat_at = instance.last_heartbeat_at
    is_gone = instance.status == DelegateInstance.Status.GONE
    return not is_gone and last_heartbeat_at is not None and now - last_heartbeat_at < AWAY_AFTER


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
