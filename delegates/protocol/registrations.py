"""Registration of agents by delegate token, refusals of it, and deregistration."""

import hashlib
import logging
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction

from delegates.agent.identity import build_registration_message
from delegates.live import publish_delegates_changed
from delegates.models import (
    Delegate,
    DelegateConfiguration,
    DelegateEvent,
    DelegateInstance,
    DelegateToken,
    get_account_id,
)
from delegates.protocol import instance_claims, instance_keys, leases, logs
from delegates.protocol.configurations import serialize_configurations
from delegates.protocol.events import (
    get_instance_label,
    notify_away,
    notify_back,
    record_event,
    record_refusal_event,
)
from delegates.protocol.limits import APPROVAL_SECONDS, PROTOCOL_LIMITS
from delegates.protocol.problems import (
    DelegateDisabled,
    DelegateRejected,
    InstanceTaken,
    NameTaken,
    TokenExpired,
    TokenMalformed,
    TokenRevoked,
    TokenUnknown,
    TooOften,
    WrongAccount,
)
from delegates.protocol.requests import AgentReply, AgentRequest, RequestFields, replace_unstorable
from delegates.protocol.sessions import (
    NO_SESSION,
    check_scope,
    get_session_instance,
    hash_secret,
    is_trusted,
    replace_session,
)
from guards.limits import AGENT_REFUSALS, AGENT_REFUSALS_PER_ADDRESS
from rbac.models import Scope
from rbac.usage_counts import counts
from web.clock import get_database_time
from web.http.problems import Problem

_REFUSAL_WINDOW_SECONDS = 60
_NOTABLE_SKEW_SECONDS = 300


@dataclass(frozen=True)
class Registrant:
    """Name and network address of a registering agent."""

    name: str
    address: str

    @property
    def keys(self) -> tuple[tuple[str, int], ...]:
        """Return the keys of the refusal counters with their limits per minute."""
        both = hashlib.sha256(f"{self.address}\n{self.name}".encode()).hexdigest()
        return (
            (f"register:{both}", AGENT_REFUSALS),
            (f"register:{self.address}", AGENT_REFUSALS_PER_ADDRESS),
        )


def check_refusal_rate(registrant: Registrant) -> None:
    """Check the refusals of the last minute. Raises `TooOften`."""
    if any(counts.get(key) >= most for key, most in registrant.keys):
        raise TooOften(
            "Registering was refused too often in the last minute. Check the last refusal, then try again.",
            retry_after=_REFUSAL_WINDOW_SECONDS,
        )


_TOKEN = re.compile(rf"{DelegateToken.PREFIX}[A-Za-z0-9_-]{{43}}")


def find_token(presented: str) -> DelegateToken:
    """Return the token that an agent presents, in any state. Raises `TokenMalformed`, `TokenUnknown`."""
    if not _TOKEN.fullmatch(presented):
        raise TokenMalformed(
            f"This is not a delegate token: tokens are {DelegateToken.PREFIX} and 43 characters. "
            "Copy the token again, without quotes or spaces."
            if presented
            else "No token was sent. Set the delegate's token in its environment."
        )
    token = (
        DelegateToken.objects.select_related("scope__parent")
        .filter(token_hash=hash_secret(presented))
        .first()
    )
    if token is None:
        raise TokenUnknown("Unknown token. Copy one from the list of delegate tokens.")
    return token


def check_token(token: DelegateToken) -> None:
    """Check that a token is usable. Raises `TokenRevoked`, `TokenExpired`, `ScopeArchived`."""
    if not is_trusted(token):
        raise TokenRevoked(f"The token {token.name} was revoked. Start the delegate with another token.")
    if token.expires_at is not None and get_database_time() >= token.expires_at:
        expiry = f"{token.expires_at:%Y-%m-%d %H:%M} UTC"
        raise TokenExpired(f"The token {token.name} expired on {expiry}. Create a new token.")
    check_scope(token.scope)


def check_account(*, sent: str, expected: str) -> None:
    """Check that an agent belongs to this installation. Raises `WrongAccount`."""
    if sent != expected:
        fault = (
            f"The account id {sent!r} is not the one of this Slipway" if sent else "No account ID was sent"
        )
        raise WrongAccount(f"{fault}: it is {expected}. Correct it in the delegate's environment.")


FLAVOURS = ("legacy", "v3", "")
KINDS = tuple(kind for kind in Delegate.Kind.values if kind != Delegate.Kind.BUILT_IN)
ISOLATIONS = tuple(value for value in DelegateInstance.Isolation.values if value)
NOTABLE_SKEW_SECONDS = 30
# Registration time of a row before its first registration is complete.
_UNREGISTERED = datetime(1970, 1, 1, tzinfo=UTC)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class AgentRegistration:
    """Validated attributes of a registering agent."""

    account_id: str
    name: str
    key: str
    public_key: str
    challenge: str
    signature: str
    hostname: str
    private_ip: str
    version: str
    flavour: str
    kind: str
    tags: tuple[str, ...]
    capacity: int
    ecs: dict[str, Any]
    skew_seconds: float
    isolation: str = ""
    features: tuple[str, ...] = ()
    stable_id: str = ""
    process_id: str = ""

    @property
    def claim(self) -> instance_claims.InstanceClaim:
        """Return the identity that the process claims; an id without a key pair proves nothing."""
        if not self.public_key:
            return instance_claims.InstanceClaim(self.key, "", "", "")
        return instance_claims.InstanceClaim(self.key, self.public_key, self.stable_id, self.process_id)


def register_agent(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/register: 200 with a session, 202 with a challenge, or 202 until approval.

    An agent with a public key receives a challenge, and registers again with the signed challenge.
    """
    registration = parse_registration(request.fields())
    registrant = Registrant(name=registration.name, address=request.address)
    check_refusal_rate(registrant)
    token: DelegateToken | None = None
    try:
        token = find_token(request.bearer)
        check_token(token)
        check_account(sent=registration.account_id, expected=get_account_id())
        if registration.public_key and not registration.challenge:
            challenge = instance_keys.create_challenge(get_database_time())
            return AgentReply({"status": "CHALLENGE", "challenge": challenge}, status=202)
        return _admit_agent(registration, token, address=request.address)
    except Problem as problem:
        record_refusal(registrant, problem, token=token, registration=registration)
        raise


def record_refusal(
    registrant: Registrant,
    problem: Problem,
    *,
    token: DelegateToken | None,
    registration: AgentRegistration,
) -> None:
    """Count and store a refusal; without a known scope it belongs to the account."""
    for key, _ in registrant.keys:
        counts.increment(key, seconds=_REFUSAL_WINDOW_SECONDS)
    scope = token.scope if token is not None else Scope.objects.get(path=Scope.ROOT)
    text, skew_seconds = problem.detail, registration.skew_seconds
    if abs(skew_seconds) >= _NOTABLE_SKEW_SECONDS:
        text += f" Its clock is {abs(skew_seconds):.0f} s {'ahead' if skew_seconds > 0 else 'behind'}."
    now, address = get_database_time(), registrant.address[:64]
    if isinstance(problem, InstanceTaken) and not instance_claims.record_refused_instance(
        problem,
        registration.claim,
        hostname=registration.hostname,
        private_ip=registration.private_ip,
        version=registration.version,
        address=address,
        now=now,
    ):
        # The agent retries while the other process runs.
        return
    record_refusal_event(scope=scope, name=registrant.name, text=text, at=now, address=address)


def parse_registration(fields: RequestFields) -> AgentRegistration:
    """Return the body of a registration. Raises `BadInput` naming the field."""
    sent = fields.get_timestamp("time")
    hostname, private_ip = fields.get_text("hostname", 255), fields.get_text("private_ip", 64)
    return AgentRegistration(
        account_id=fields.get_text("account_id", 128),
        name=fields.get_name("name"),
        key=fields.get_text("instance_key", 512) or f"{hostname}/{private_ip}",
        public_key=instance_keys.parse_public_key(fields),
        challenge=fields.get_text("challenge", 512),
        signature=fields.get_text("signature", 128),
        hostname=hostname,
        private_ip=private_ip,
        version=fields.get_text("version", 64),
        flavour=fields.get_choice("flavour", FLAVOURS) if fields.body.get("flavour") else "",
        kind=fields.get_choice("kind", KINDS) if fields.body.get("kind") else Delegate.Kind.ECS,
        tags=tuple(fields.get_tags("tags")),
        capacity=fields.get_integer("capacity", 1, 1000, default=10),
        ecs={
            name: RequestFields(fields.get_object("ecs") or {}).get_text(name, 512)
            for name in ("cluster", "task_arn", "service", "family")
            if (fields.get_object("ecs") or {}).get(name)
        },
        isolation=fields.get_choice("isolation", ISOLATIONS) if fields.body.get("isolation") else "",
        features=tuple(fields.get_tags("features")),
        stable_id=instance_keys.parse_id(fields, "stable_id"),
        process_id=instance_keys.parse_id(fields, "process_id"),
        skew_seconds=0.0 if sent is None else round(sent - time.time(), 1),
    )


@transaction.atomic
def _admit_agent(registration: AgentRegistration, token: DelegateToken, *, address: str) -> AgentReply:
    now = get_database_time()
    delegate = _get_or_create_delegate(registration, token)
    _check_admission(delegate)
    registered = _upsert_instance(registration, delegate, token, now)
    instance = registered.instance
    DelegateToken.objects.filter(pk=token.pk).update(last_used_at=now)
    publish_delegates_changed(delegate.pk)
    if delegate.admission == Delegate.Admission.PENDING_APPROVAL:
        if registered.is_new:
            text = f"{get_instance_label(instance)} waits for the approval of this delegate."
            record_event(instance, DelegateEvent.Kind.REGISTERED, text, at=now, address=address)
        return AgentReply({"status": "PENDING_APPROVAL", "retry_after": APPROVAL_SECONDS}, status=202)
    session = replace_session(instance, now)
    record_event(
        instance,
        DelegateEvent.Kind.REGISTERED,
        _describe_registration(registration, registered),
        at=now,
        address=address,
    )
    notify_back([delegate.pk])
    configuration = serialize_configurations([instance], now).get(instance.pk)
    return AgentReply(
        {
            "instance_id": instance.pk,
            "delegate_id": delegate.pk,
            "session": session,
            **PROTOCOL_LIMITS,
            "configuration": configuration,
            "clock_skew_seconds": registration.skew_seconds,
            "log_next": logs.get_next_sequence(instance.pk),
        }
    )


def _get_or_create_delegate(registration: AgentRegistration, token: DelegateToken) -> Delegate:
    """Return the delegate of this name in the token's scope, or a new one (R023–R029)."""
    rows = Delegate.objects.select_related("configuration", "scope")
    delegate = rows.filter(scope_id=token.scope_id, name=registration.name).first()
    if delegate is not None:
        if delegate.archived_at is not None:
            Delegate.objects.filter(pk=delegate.pk).update(archived_at=None)
            delegate.archived_at = None
        return delegate
    configuration = DelegateConfiguration.objects.get(is_primary=True)
    needs_approval = configuration.requires_approval
    try:
        with transaction.atomic():
            Delegate.objects.create(
                scope_id=token.scope_id,
                name=registration.name,
                kind=registration.kind,
                flavour=registration.flavour,
                configuration=configuration,
                token=token,
                admission=Delegate.Admission.PENDING_APPROVAL
                if needs_approval
                else Delegate.Admission.ENABLED,
            )
    except IntegrityError:
        logger.info("Two instances of %s came at once", registration.name)
    return rows.get(scope_id=token.scope_id, name=registration.name)


def _check_admission(delegate: Delegate) -> None:
    if delegate.is_built_in:
        raise NameTaken(f"{delegate.name} is reserved for the built-in delegate. Choose another name.")
    if delegate.admission == Delegate.Admission.REJECTED:
        raise DelegateRejected(f"{delegate.name} was rejected. Ask someone who manages delegates.")
    if delegate.admission == Delegate.Admission.DISABLED:
        raise DelegateDisabled(f"{delegate.name} is disabled. Enable it on its page.")


@dataclass(frozen=True)
class RegisteredInstance:
    """The instance that an agent registered as; `is_rekeyed` if it was bound to another key pair before.

    `former_key` is its key before, if it has moved.
    """

    instance: DelegateInstance
    is_new: bool
    is_rekeyed: bool
    former_key: str


def _upsert_instance(
    registration: AgentRegistration, delegate: Delegate, token: DelegateToken, now: datetime
) -> RegisteredInstance:
    """Write the row of the instance. Raises `SignatureWrong`, `InstanceTaken`, `TooOften`."""
    claim = registration.claim
    claimed = instance_claims.find_or_create_instance(claim, delegate, registered_at=_UNREGISTERED)
    instance = claimed.instance
    _check_proof(registration, instance, now)
    instance_claims.check_claim(claimed, claim, now)
    instance_claims.retire_others(claimed)
    instance_claims.forget_refusals(instance, claim)
    is_rekeyed = instance.public_key not in ("", registration.public_key)
    former_key = "" if instance.key == claim.key else instance.key
    waits = delegate.admission == Delegate.Admission.PENDING_APPROVAL
    values: dict[str, Any] = {
        **_build_identity(claim, instance),
        "hostname": registration.hostname,
        "private_ip": registration.private_ip,
        "version": registration.version,
        "flavour": registration.flavour,
        "tags": list(registration.tags),
        "capacity": registration.capacity,
        "ecs": replace_unstorable(registration.ecs),
        "clock_skew_seconds": registration.skew_seconds,
        "isolation": registration.isolation,
        "features": list(registration.features),
        "token": token,
        "status": DelegateInstance.Status.REGISTERED,
        "connection": DelegateInstance.Connection.NONE,
        "suspect_since": None,
        "last_heartbeat_at": None if waits else now,
        "registered_at": now,
    }
    for name, value in values.items():
        setattr(instance, name, value)
    instance.save(update_fields=list(values))
    return RegisteredInstance(instance, claimed.is_new, is_rekeyed, former_key)


def _build_identity(claim: instance_claims.InstanceClaim, instance: DelegateInstance) -> dict[str, Any]:
    """Return the columns of an instance that identify its process."""
    is_same_key = instance.public_key == claim.public_key
    is_same_process = instance.process_id in ("", claim.process_id)
    return {
        "key": claim.key,
        "public_key": claim.public_key,
        "stable_id": claim.stable_id or (instance.stable_id if is_same_key else ""),
        "process_id": claim.process_id,
        "former_process_id": instance.former_process_id if is_same_process else instance.process_id,
    }


def _check_proof(registration: AgentRegistration, instance: DelegateInstance, now: datetime) -> None:
    if registration.public_key:
        message = build_registration_message(
            challenge=registration.challenge,
            account_id=registration.account_id,
            name=registration.name,
            instance_key=registration.key,
        )
        proof = instance_keys.KeyProof(
            registration.public_key, registration.challenge, registration.signature, message
        )
        proof.check(newer_than=instance.registered_at, now=now)


def _describe_registration(registration: AgentRegistration, registered: RegisteredInstance) -> str:
    version = f" with version {registration.version}" if registration.version else ""
    text = f"{get_instance_label(registered.instance)} registered{version}."
    if registered.is_rekeyed:
        text += " It has a new key pair; the previous process is gone."
    if registered.former_key:
        text += f" It was {registered.former_key} before."
    if abs(registration.skew_seconds) < NOTABLE_SKEW_SECONDS:
        return text
    return f"{text} {describe_clock_skew(registration.skew_seconds)}"


def describe_clock_skew(skew_seconds: float) -> str:
    """Return the remedy for a wrong clock."""
    where = "ahead of" if skew_seconds > 0 else "behind"
    return f"Its clock is {abs(skew_seconds):.0f} s {where} ours: AWS refuses calls from 5 minutes on."


@transaction.atomic
def deregister_agent(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/deregister: end the session and delete the instance."""
    instance, now = get_session_instance(request.bearer), get_database_time()
    DelegateInstance.objects.filter(pk=instance.pk).update(**NO_SESSION)
    leases.end_leases([instance], now=now)
    record_event(instance, DelegateEvent.Kind.GONE, f"{get_instance_label(instance)} signed off.", at=now)
    notify_away([instance], now)
    publish_delegates_changed(instance.delegate_id)
    return AgentReply({})
