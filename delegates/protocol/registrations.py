"""Registration of agents by delegate token, refusals of it, and deregistration."""

import hashlib
import logging
import re
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
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
from delegates.protocol import instance_keys, leases, logs
from delegates.protocol.configurations import serialize_configuration
from delegates.protocol.events import (
    get_instance_label,
    has_refusal_event,
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
_REFUSAL_REPEAT_INTERVAL = timedelta(hours=1)


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


def check_refusal_rate(stranger: Registrant) -> None:
    """Check the refusals of the last minute. Raises `TooOften`."""
    if any(counts.get(key) >= most for key, most in stranger.keys):
        raise TooOften(
            "Registering was refused too often in the last minute. Check the last refusal, then try again.",
            retry_after=_REFUSAL_WINDOW_SECONDS,
        )


def record_refusal(
    stranger: Registrant, problem: Problem, *, token: DelegateToken | None, skew_seconds: float
) -> None:
    """Count and store a refusal; without a known scope it belongs to the account."""
    for key, _ in stranger.keys:
        counts.increment(key, seconds=_REFUSAL_WINDOW_SECONDS)
    scope = token.scope if token is not None else Scope.objects.get(path=Scope.ROOT)
    text = problem.detail
    if abs(skew_seconds) >= _NOTABLE_SKEW_SECONDS:
        text += f" Its clock is {abs(skew_seconds):.0f} s {'ahead' if skew_seconds > 0 else 'behind'}."
    now, address = get_database_time(), stranger.address[:64]
    if isinstance(problem, InstanceTaken) and has_refusal_event(
        scope, stranger.name, text, since=now - _REFUSAL_REPEAT_INTERVAL
    ):
        # It goes on trying for as long as the other process lives.
        return
    record_refusal_event(scope=scope, name=stranger.name, text=text, at=now, address=address)


_TOKEN = re.compile(rf"{DelegateToken.PREFIX}[A-Za-z0-9_-]{{43}}")


def find_token(shown: str) -> DelegateToken:
    """Return the token that an agent presents, in any state. Raises `TokenMalformed`, `TokenUnknown`."""
    if not _TOKEN.fullmatch(shown):
        raise TokenMalformed(
            f"This is not a delegate token: tokens are {DelegateToken.PREFIX} and 43 characters. "
            "Copy the token again, without quotes or spaces."
            if shown
            else "No token was sent. Set the delegate's token in its environment."
        )
    found = (
        DelegateToken.objects.select_related("scope__parent").filter(token_hash=hash_secret(shown)).first()
    )
    if found is None:
        raise TokenUnknown("Unknown token. Copy one from the list of delegate tokens.")
    return found


def check_token(token: DelegateToken) -> None:
    """Check that a token is usable. Raises `TokenRevoked`, `TokenExpired`, `ScopeArchived`."""
    if not is_trusted(token):
        raise TokenRevoked(f"The token {token.name} was revoked. Start the delegate with another token.")
    if token.expires_at is not None and get_database_time() >= token.expires_at:
        ended = f"{token.expires_at:%Y-%m-%d %H:%M} UTC"
        raise TokenExpired(f"The token {token.name} expired on {ended}. Create a new token.")
    check_scope(token.scope)


def check_account(*, sent: str, ours: str) -> None:
    """Refuse agents that mean another installation. Raises `WrongAccount`."""
    if sent != ours:
        said = f"The account id {sent!r} is not the one of this Slipway" if sent else "No account ID was sent"
        raise WrongAccount(f"{said}: it is {ours}. Correct it in the delegate's environment.")


FLAVOURS = ("legacy", "v3", "")
KINDS = tuple(kind for kind in Delegate.Kind.values if kind != Delegate.Kind.BUILT_IN)
ISOLATIONS = tuple(value for value in DelegateInstance.Isolation.values if value)
NOTABLE_SKEW_SECONDS = 30
# Of a row that is made as its first claimant comes.
_NEVER_SEEN = datetime(1970, 1, 1, tzinfo=UTC)
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


def register_agent(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/register: 200 with a session, 202 with a challenge, or 202 until approval.

    An agent with a public key receives a challenge, and registers again with the signed challenge.
    """
    said = parse_registration(request.fields())
    stranger = Registrant(name=said.name, address=request.address)
    check_refusal_rate(stranger)
    token: DelegateToken | None = None
    try:
        token = find_token(request.bearer)
        check_token(token)
        check_account(sent=said.account_id, ours=get_account_id())
        if said.public_key and not said.challenge:
            challenge = instance_keys.create_challenge(get_database_time())
            return AgentReply({"status": "CHALLENGE", "challenge": challenge}, status=202)
        return _admit_agent(said, token, address=request.address)
    except Problem as problem:
        record_refusal(stranger, problem, token=token, skew_seconds=said.skew_seconds)
        raise


def parse_registration(fields: RequestFields) -> AgentRegistration:
    """Return the body of a registration. Raises `BadInput` naming the field."""
    sent = fields.moment("time")
    hostname, private_ip = fields.shown("hostname", 255), fields.shown("private_ip", 64)
    return AgentRegistration(
        account_id=fields.shown("account_id", 128),
        name=fields.name("name"),
        key=fields.shown("instance_key", 512) or f"{hostname}/{private_ip}",
        public_key=instance_keys.parse_public_key(fields),
        challenge=fields.shown("challenge", 512),
        signature=fields.shown("signature", 128),
        hostname=hostname,
        private_ip=private_ip,
        version=fields.shown("version", 64),
        flavour=fields.choice("flavour", FLAVOURS) if fields.body.get("flavour") else "",
        kind=fields.choice("kind", KINDS) if fields.body.get("kind") else Delegate.Kind.ECS,
        tags=tuple(fields.tags("tags")),
        capacity=fields.whole("capacity", 1, 1000, default=10),
        ecs={
            name: RequestFields(fields.object("ecs") or {}).shown(name, 512)
            for name in ("cluster", "task_arn", "service", "family")
            if (fields.object("ecs") or {}).get(name)
        },
        isolation=fields.choice("isolation", ISOLATIONS) if fields.body.get("isolation") else "",
        skew_seconds=0.0 if sent is None else round(sent - time.time(), 1),
    )


@transaction.atomic
def _admit_agent(said: AgentRegistration, token: DelegateToken, *, address: str) -> AgentReply:
    now = get_database_time()
    delegate = _get_or_create_delegate(said, token)
    _check_admission(delegate)
    taken = _upsert_instance(said, delegate, token, now)
    instance = taken.instance
    DelegateToken.objects.filter(pk=token.pk).update(last_used_at=now)
    publish_delegates_changed(delegate.pk)
    if delegate.admission == Delegate.Admission.PENDING_APPROVAL:
        if taken.is_new:
            text = f"{get_instance_label(instance)} waits for the approval of this delegate."
            record_event(instance, DelegateEvent.Kind.REGISTERED, text, at=now, address=address)
        return AgentReply({"status": "PENDING_APPROVAL", "retry_after": APPROVAL_SECONDS}, status=202)
    session = replace_session(instance, now)
    record_event(
        instance, DelegateEvent.Kind.REGISTERED, _describe_registration(said, taken), at=now, address=address
    )
    notify_back([delegate.pk])
    configuration = serialize_configuration(delegate.configuration)
    return AgentReply(
        {
            "instance_id": instance.pk,
            "delegate_id": delegate.pk,
            "session": session,
            **PROTOCOL_LIMITS,
            "configuration": configuration,
            "clock_skew_seconds": said.skew_seconds,
            "log_next": logs.get_next_sequence(instance.pk),
        }
    )


def _get_or_create_delegate(said: AgentRegistration, token: DelegateToken) -> Delegate:
    """Return the delegate of this name in the token's scope, or a new one (R023–R029)."""
    rows = Delegate.objects.select_related("configuration", "scope")
    found = rows.filter(scope_id=token.scope_id, name=said.name).first()
    if found is not None:
        return found
    configuration = DelegateConfiguration.objects.get(is_primary=True)
    waits = configuration.requires_approval
    try:
        with transaction.atomic():
            Delegate.objects.create(
                scope_id=token.scope_id,
                name=said.name,
                kind=said.kind,
                flavour=said.flavour,
                configuration=configuration,
                token=token,
                admission=Delegate.Admission.PENDING_APPROVAL if waits else Delegate.Admission.ENABLED,
            )
    except IntegrityError:
        logger.info("Two instances of %s came at once", said.name)
    return rows.get(scope_id=token.scope_id, name=said.name)


def _check_admission(delegate: Delegate) -> None:
    if delegate.is_built_in:
        raise NameTaken(f"{delegate.name} is reserved for the built-in delegate. Choose another name.")
    if delegate.admission == Delegate.Admission.REJECTED:
        raise DelegateRejected(f"{delegate.name} was rejected. Ask someone who manages delegates.")
    if delegate.admission == Delegate.Admission.DISABLED:
        raise DelegateDisabled(f"{delegate.name} is disabled. Enable it on its page.")


@dataclass(frozen=True)
class RegisteredInstance:
    """The instance that an agent registered as; `is_rekeyed` if it was bound to another key pair before."""

    instance: DelegateInstance
    is_new: bool
    is_rekeyed: bool


def _upsert_instance(
    said: AgentRegistration, delegate: Delegate, token: DelegateToken, now: datetime
) -> RegisteredInstance:
    """Write the row of the instance. Raises `SignatureWrong`, `InstanceTaken`, `TooOften`."""
    rows = DelegateInstance.objects
    _, is_new = rows.get_or_create(delegate=delegate, key=said.key, defaults={"registered_at": _NEVER_SEEN})
    # Two claimants at once follow each other.
    instance = rows.select_for_update(of=("self",)).get(delegate=delegate, key=said.key)
    instance.delegate = delegate
    _check_claim(said, instance, now)
    is_rekeyed = instance.public_key not in ("", said.public_key)
    waits = delegate.admission == Delegate.Admission.PENDING_APPROVAL
    values: dict[str, Any] = {
        "public_key": said.public_key,
        "hostname": said.hostname,
        "private_ip": said.private_ip,
        "version": said.version,
        "flavour": said.flavour,
        "tags": list(said.tags),
        "capacity": said.capacity,
        "ecs": replace_unstorable(said.ecs),
        "clock_skew_seconds": said.skew_seconds,
        "isolation": said.isolation,
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
    return RegisteredInstance(instance, is_new, is_rekeyed)


def _check_claim(said: AgentRegistration, instance: DelegateInstance, now: datetime) -> None:
    if said.public_key:
        message = build_registration_message(
            challenge=said.challenge, account_id=said.account_id, name=said.name, instance_key=said.key
        )
        proof = instance_keys.KeyProof(said.public_key, said.challenge, said.signature, message)
        proof.check(newer_than=instance.registered_at, now=now)
    instance_keys.check_instance_claim(instance, said.public_key, now)


def _describe_registration(said: AgentRegistration, taken: RegisteredInstance) -> str:
    version = f" with version {said.version}" if said.version else ""
    told = f"{get_instance_label(taken.instance)} registered{version}."
    if taken.is_rekeyed:
        told += " It has a new key pair; the previous process is gone."
    if abs(said.skew_seconds) < NOTABLE_SKEW_SECONDS:
        return told
    return f"{told} {describe_clock_skew(said.skew_seconds)}"


def describe_clock_skew(skew_seconds: float) -> str:
    """Return the remedy for a wrong clock."""
    where = "ahead of" if skew_seconds > 0 else "behind"
    return f"Its clock is {abs(skew_seconds):.0f} s {where} ours: AWS refuses calls from 5 minutes on."


@transaction.atomic
def deregister_agent(request: AgentRequest) -> AgentReply:
    """POST /agent/v1/deregister: the session ends and the instance is gone."""
    instance, now = get_session_instance(request.bearer), get_database_time()
    DelegateInstance.objects.filter(pk=instance.pk).update(
        status=DelegateInstance.Status.GONE,
        connection=DelegateInstance.Connection.NONE,
        session_hash="",
        previous_session_hash="",
        session_expires_at=None,
        running=0,
    )
    leases.end_leases([instance], now=now)
    record_event(instance, DelegateEvent.Kind.GONE, f"{get_instance_label(instance)} signed off.", at=now)
    notify_away([instance], now)
    publish_delegates_changed(instance.delegate_id)
    return AgentReply({})
