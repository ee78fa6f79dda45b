"""Passkeys (Web Authentication): registration, proof of identity, and the passkeys of a user."""

import json
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from ipaddress import ip_address
from typing import Any, Final
from urllib.parse import urlsplit

from allauth.account.utils import url_str_to_user_pk
from allauth.mfa.adapter import get_adapter
from allauth.mfa.models import Authenticator
from allauth.mfa.webauthn.internal.auth import WebAuthn
from cryptography.exceptions import UnsupportedAlgorithm
from django.conf import settings
from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import QuerySet
from django.http import HttpRequest
from django.utils import timezone
from fido2.server import Fido2Server
from fido2.webauthn import (
    AttestedCredentialData,
    AuthenticationResponse,
    PublicKeyCredentialRpEntity,
    PublicKeyCredentialUserEntity,
    ResidentKeyRequirement,
    UserVerificationRequirement,
)

from accounts.authentication.sign_in_methods import explain_last_sign_in, is_last_sign_in
from accounts.authentication.two_factor import (
    SECOND_FACTOR_TYPES,
    count_code_attempt,
    ensure_recovery_codes,
    has_two_factor,
    remove_unneeded_recovery_codes,
    reset_code_attempts,
)
from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.limits import PASSKEY_CHALLENGE_SECONDS, PASSKEYS_PER_USER
from rbac import audit
from rbac.models import User
from rbac.models.scopes import validate_name
from web.http.problems import BadInput

CHALLENGE_SESSION_KEY: Final = "passkey_challenge"
LOCALHOST: Final = "localhost"
_DEFAULT_PORTS: Final = {"https": 443, "http": 80}
UNKNOWN_PASSKEY: Final = "This passkey was removed here, or never added. Sign in another way."
# The parser of the library raises these for texts that no browser sends.
_ANSWER_PARTS: Final = ("id", "rawId", "type")
_RESPONSE_PARTS: Final = (
    "clientDataJSON",
    "attestationObject",
    "authenticatorData",
    "signature",
    "userHandle",
)
_PARSER_ERRORS: Final = (
    ValueError,
    TypeError,
    LookupError,
    AttributeError,
    AssertionError,
    OverflowError,
    struct.error,
    UnsupportedAlgorithm,
)


class Purpose(StrEnum):
    """Use of a challenge; an answer to a challenge counts for its purpose only."""

    ADD = "add"
    SIGN_IN = "sign_in"
    SECOND_STEP = "second_step"
    PROOF = "proof"


class PasskeyRefused(BadInput):
    """Error raised when a passkey proves nothing; the message is for the user."""


@dataclass(frozen=True)
class Passkey:
    """Passkey in the list of its user."""

    pk: int
    name: str
    works_without_password: bool
    added_at: datetime
    last_used_at: datetime | None


def get_relying_party_id() -> str:
    """Return the host name that passkeys belong to: the public one, whatever a proxy passes on."""
    host = urlsplit(settings.PUBLIC_URL).hostname or LOCALHOST
    # Browsers accept no IP address as the owner of a passkey.
    return LOCALHOST if _is_loopback(host) else host


def get_passkey_obstacle(request: HttpRequest) -> str:
    """Return why browsers refuse passkeys at the address of a request, or an empty text."""
    public_url, owner = urlsplit(settings.PUBLIC_URL), get_relying_party_id()
    host = urlsplit(f"//{request.get_host()}").hostname
    if owner == LOCALHOST and host != LOCALHOST:
        return f"Passkeys need a host name. Open Slipway at {_build_localhost_origin(request)} to use them."
    if _is_ip_address(owner):
        return "Passkeys need a host name, and the address of this installation is an IP address."
    if owner != LOCALHOST and public_url.scheme != "https":
        return "Passkeys need an encrypted connection, and this installation uses http."
    return "" if host == owner else f"Open Slipway at {settings.PUBLIC_URL} to use passkeys."


def list_passkeys(person: User) -> list[Passkey]:
    """Return the passkeys of a user, oldest first."""
    return [
        Passkey(
            pk=row.pk,
            name=row.data["name"],
            works_without_password=bool(row.data.get("is_passwordless")),
            added_at=row.created_at,
            last_used_at=row.last_used_at,
        )
        for row in get_passkey_rows(person).order_by("pk")
    ]


def get_passkey_rows(person: User) -> QuerySet[Any]:
    """Return the rows of a user's passkeys."""
    rows: QuerySet[Any] = Authenticator.objects.filter(user=person, type=Authenticator.Type.WEBAUTHN)
    return rows


def begin_registration(
    request: HttpRequest, *, actor: User, name: str, is_passwordless: bool
) -> dict[str, Any]:
    """Return the options for a new passkey of `actor`, whose identity was verified.

    Raises `PasskeyRefused`.
    """
    rows = list(get_passkey_rows(actor))
    if len(rows) >= PASSKEYS_PER_USER:
        raise PasskeyRefused(f"You have {len(rows)} passkeys. Remove one, then add the new one.")
    verification = (
        UserVerificationRequirement.REQUIRED if is_passwordless else UserVerificationRequirement.PREFERRED
    )
    options, state = _build_server(request).register_begin(
        user=PublicKeyCredentialUserEntity(**get_adapter().get_public_key_credential_user_entity(actor)),
        credentials=[_get_credential(row) for row in rows],
        resident_key_requirement=(
            ResidentKeyRequirement.REQUIRED if is_passwordless else ResidentKeyRequirement.DISCOURAGED
        ),
        user_verification=verification,
        extensions={"credProps": True},
    )
    passkey = {"name": name, "is_passwordless": is_passwordless}
    _store_challenge(request, Purpose.ADD, actor, state, passkey)
    return dict(options)


@transaction.atomic
def add_passkey(request: HttpRequest, *, actor: User, registration: str) -> list[str]:
    """Add the passkey that a browser made, and return recovery codes if these are the first.

    Raises `PasskeyRefused`.
    """
    challenge = _take_challenge(request, Purpose.ADD, actor)
    document = _parse_answer(registration)
    with _refuse_unparsable():
        data = _build_server(request).register_complete(challenge["state"], document)
        credential_id = data.credential_data.credential_id  # type: ignore[union-attr]
        # Only what is needed to verify later answers; browsers may send anything beside it.
        names = ("clientDataJSON", "attestationObject")
        stored = {
            "id": document["id"],
            "rawId": document["rawId"],
            "type": "public-key",
            "response": {name: document["response"][name] for name in names},
            "clientExtensionResults": {},
        }
    # The row is locked, for two windows may come at once.
    User.objects.select_for_update().get(pk=actor.pk)
    if any(_get_credential(row).credential_id == credential_id for row in get_passkey_rows(actor)):
        raise PasskeyRefused("This passkey was already added.")
    is_first_factor = not has_two_factor(actor)
    row = WebAuthn.add(actor, challenge["name"], stored).instance
    row.data |= {"is_passwordless": challenge["is_passwordless"], "sign_count": data.counter}
    row.save(update_fields=["data"])
    audit.record_audit_entry(
        actor=actor, action="user.passkey_add", thing=actor, after={"name": challenge["name"]}
    )
    if is_first_factor:
        audit.record_audit_entry(actor=actor, action="user.two_factor_on", thing=actor)
    return ensure_recovery_codes(actor)


def begin_assertion(request: HttpRequest, purpose: Purpose, person: User | None) -> dict[str, Any]:
    """Return the options for a proof of identity by a passkey of `person`; of anyone if it is None."""
    credentials = [_get_credential(row) for row in get_passkey_rows(person)] if person else []
    options, state = _build_server(request).authenticate_begin(
        credentials=credentials,
        # Alone, a passkey replaces the password: the device has to check a PIN, a finger or a face.
        user_verification=(
            UserVerificationRequirement.PREFERRED if person else UserVerificationRequirement.REQUIRED
        ),
    )
    _store_challenge(request, purpose, person, state, {})
    return dict(options)


def find_claimed_user(assertion: str) -> User | None:
    """Return the user that a browser's answer claims to be from; nothing is proved yet."""
    try:
        response = AuthenticationResponse.from_dict(_parse_answer(assertion))
        pk = url_str_to_user_pk((response.response.user_handle or b"").decode("ascii"))
        return User.objects.filter(pk=pk).first()
    except (*_PARSER_ERRORS, ValidationError, PasskeyRefused):
        return None


def verify_passkey(request: HttpRequest, purpose: Purpose, *, person: User, assertion: str) -> None:
    """Check that the browser has a passkey of `person`, who is known; failures are counted like codes.

    Raises `PasskeyRefused`, `TooManyRequests`.
    """
    address = str(request.META.get("REMOTE_ADDR", ""))
    count_code_attempt(person, address)
    try:
        verify_assertion(request, purpose, person=person, assertion=assertion)
    except PasskeyRefused:
        audit.record_audit_entry(actor=None, action="user.passkey_failed", thing=person)
        raise
    reset_code_attempts(person, address)


@transaction.atomic
def verify_assertion(request: HttpRequest, purpose: Purpose, *, person: User, assertion: str) -> Any:
    """Return the row of the passkey that proves to be of `person`. Raises `PasskeyRefused`."""
    is_alone = purpose == Purpose.SIGN_IN
    challenge = _take_challenge(request, purpose, None if is_alone else person)
    rows = {_get_credential(row).credential_id: row for row in get_passkey_rows(person).select_for_update()}
    document = _parse_answer(assertion)
    with _refuse_unparsable():
        response = AuthenticationResponse.from_dict(document)
        row = rows.get(response.raw_id)
        if row is None:
            raise PasskeyRefused(UNKNOWN_PASSKEY)
        _build_server(request).authenticate_complete(challenge["state"], [_get_credential(row)], document)
        count = response.response.authenticator_data.counter
    if is_alone and not row.data.get("is_passwordless"):
        raise PasskeyRefused("This passkey is a second factor only. Enter your password first.")
    # A copied key counts on its own (Web Authentication, section 6.1.1); synced ones stay at zero.
    if (count or row.data["sign_count"]) and count <= row.data["sign_count"]:
        raise PasskeyRefused("This passkey was used elsewhere meanwhile. Remove it, then add it again.")
    row.data["sign_count"], row.last_used_at = count, timezone.now()
    row.save(update_fields=["data", "last_used_at"])
    return row


@transaction.atomic
def rename_passkey(*, actor: User, pk: int, name: str) -> None:
    """Give a passkey of `actor` another name. Raises `ValidationError`, `Authenticator.DoesNotExist`."""
    validate_name(name, "name")
    row = get_passkey_rows(actor).select_for_update().get(pk=pk)
    before = row.data["name"]
    if before == name:
        return
    row.data["name"] = name
    row.save(update_fields=["data"])
    audit.record_audit_entry(
        actor=actor, action="user.passkey_rename", thing=actor, before={"name": before}, after={"name": name}
    )


@transaction.atomic
def remove_passkey(*, actor: User, pk: int) -> None:
    """Remove a passkey of `actor`; the last second factor takes the recovery codes along.

    Raises `Authenticator.DoesNotExist`, and `PasskeyRefused` if the user could not sign in any more.
    """
    # The row is locked, for two windows may remove two passkeys, or a passkey and the link.
    person = User.objects.select_for_update().get(pk=actor.pk)
    row = get_passkey_rows(actor).select_for_update().get(pk=pk)
    if is_last_sign_in(person, pk):
        raise PasskeyRefused(explain_last_sign_in())
    row.delete()
    audit.record_audit_entry(
        actor=actor, action="user.passkey_remove", thing=actor, before={"name": row.data["name"]}
    )
    remove_unneeded_recovery_codes(actor)


def is_last_factor(person: User, pk: int) -> bool:
    """Return whether a passkey is the only second factor of its user."""
    rows = Authenticator.objects.filter(user=person, type__in=SECOND_FACTOR_TYPES)
    return not rows.exclude(pk=pk).exists()


def _build_server(request: HttpRequest) -> Fido2Server:
    owner = get_relying_party_id()
    origins = {_build_origin(settings.PUBLIC_URL)}
    if owner == LOCALHOST:
        origins.add(_build_localhost_origin(request))
    # A page of a subdomain could answer too if the library decided by itself.
    return Fido2Server(
        PublicKeyCredentialRpEntity(id=owner, name="Slipway"), verify_origin=lambda origin: origin in origins
    )


def _build_localhost_origin(request: HttpRequest) -> str:
    """Return the origin of this server by the name of its machine, with the port of a request."""
    port = urlsplit(f"//{request.get_host()}").port
    return _build_origin(f"{request.scheme}://{LOCALHOST}{f':{port}' if port else ''}")


def _build_origin(url: str) -> str:
    """Return the origin of a URL as browsers write it: without the default port."""
    parts = urlsplit(url)
    port = "" if parts.port in (None, _DEFAULT_PORTS.get(parts.scheme)) else f":{parts.port}"
    return f"{parts.scheme}://{parts.hostname}{port}"


def _store_challenge(
    request: HttpRequest, purpose: Purpose, person: User | None, state: Any, values: dict[str, Any]
) -> None:
    request.session[CHALLENGE_SESSION_KEY] = {
        "purpose": purpose,
        "user": person.pk if person else None,
        "at": time.time(),
        "state": json.loads(json.dumps(state)),
        **values,
    }


def _take_challenge(request: HttpRequest, purpose: Purpose, person: User | None) -> dict[str, Any]:
    """Return the challenge of this browser, which nothing else can answer any more."""
    challenge: dict[str, Any] | None = request.session.pop(CHALLENGE_SESSION_KEY, None)
    if (
        challenge is None
        or (challenge["purpose"], challenge["user"]) != (purpose, person.pk if person else None)
        or time.time() - challenge["at"] > PASSKEY_CHALLENGE_SECONDS
    ):
        raise PasskeyRefused("This took too long, or another window was used meanwhile. Try again.")
    return challenge


def _parse_answer(answer: str) -> dict[str, Any]:
    """Return the parts of a browser's answer that are read, all of them texts.

    The library would make `bytes` of a number, and so allocate as much memory as it says.
    Raises `PasskeyRefused`.
    """
    try:
        document = parse_json(answer)
    except InputRejected:
        document = None
    if not isinstance(document, dict) or not isinstance(document.get("response"), dict):
        raise PasskeyRefused("The browser sent no passkey. Try again.")
    return {
        **_select_texts(document, _ANSWER_PARTS),
        "response": _select_texts(document["response"], _RESPONSE_PARTS),
    }


def _select_texts(document: dict[str, Any], names: tuple[str, ...]) -> dict[str, str]:
    selected = {name: document[name] for name in names if document.get(name) is not None}
    if not all(isinstance(value, str) for value in selected.values()):
        raise PasskeyRefused("The passkey was not accepted. Try again.")
    return selected


@contextmanager
def _refuse_unparsable() -> Iterator[None]:
    try:
        yield
    except _PARSER_ERRORS as error:
        raise PasskeyRefused("The passkey was not accepted. Try again.") from error


def _get_credential(row: Any) -> AttestedCredentialData:
    credential: AttestedCredentialData = WebAuthn(row).authenticator_data.credential_data
    return credential


def _is_ip_address(host: str) -> bool:
    try:
        ip_address(host)
    except ValueError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host == LOCALHOST or (_is_ip_address(host) and ip_address(host).is_loopback)
