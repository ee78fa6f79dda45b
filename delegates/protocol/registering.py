"""Registering: an agent shows its delegate token once and gets a session for the instance that it is."""

import logging
import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from django.db import IntegrityError, transaction

from delegates.agent.instance_key import registration_message
from delegates.models import (
    Delegate,
    DelegateConfiguration,
    DelegateEvent,
    DelegateInstance,
    DelegateToken,
    account_id,
)
from delegates.notifying import tell_back
from delegates.protocol import instance_keys, instance_logs
from delegates.protocol.configurations import document
from delegates.protocol.fields import Fields, storable
from delegates.protocol.happenings import called, note
from delegates.protocol.problems import DelegateDisabled, DelegateRejected, NameTaken
from delegates.protocol.refusals import Stranger, admit, refused
from delegates.protocol.requests import AgentRequest, Reply
from delegates.protocol.sessions import replace_session
from delegates.protocol.terms import APPROVAL_SECONDS, TERMS
from delegates.protocol.tokens import check_account, check_token, token_of
from delegates.telling import tell
from web.clock import database_now
from web.problems import Problem

FLAVOURS = ("legacy", "v3", "")
KINDS = tuple(kind for kind in Delegate.Kind.values if kind != Delegate.Kind.BUILT_IN)
ISOLATIONS = tuple(value for value in DelegateInstance.Isolation.values if value)
NOTABLE_SKEW_SECONDS = 30
# Of a row that is made as its first claimant comes.
_NEVER = datetime(1970, 1, 1, tzinfo=UTC)
logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Registration:
    """What an agent says of itself, checked."""

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


def register(request: AgentRequest) -> Reply:
    """POST /agent/v1/register: 200 with a session, 202 with a challenge, or 202 until somebody approves.

    An agent that sends a public key is given a challenge, and registers again with it and its signature.
    """
    said = read_registration(request.fields())
    stranger = Stranger(name=said.name, address=request.address)
    admit(stranger)
    token: DelegateToken | None = None
    try:
        token = token_of(request.bearer)
        check_token(token)
        check_account(sent=said.account_id, ours=account_id())
        if said.public_key and not said.challenge:
            challenge = instance_keys.new_challenge(database_now())
            return Reply({"status": "CHALLENGE", "challenge": challenge}, status=202)
        return _enter(said, token, address=request.address)
    except Problem as problem:
        refused(stranger, problem, token=token, skew_seconds=said.skew_seconds)
        raise


def read_registration(fields: Fields) -> Registration:
    """The body of a registration. Raises `BadInput` naming the field."""
    sent = fields.moment("time")
    hostname, private_ip = fields.shown("hostname", 255), fields.shown("private_ip", 64)
    return Registration(
        account_id=fields.shown("account_id", 128),
        name=fields.name("name"),
        key=fields.shown("instance_key", 512) or f"{hostname}/{private_ip}",
        public_key=instance_keys.read_public_key(fields),
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
            name: Fields(fields.object("ecs") or {}).shown(name, 512)
            for name in ("cluster", "task_arn", "service", "family")
            if (fields.object("ecs") or {}).get(name)
        },
        isolation=fields.choice("isolation", ISOLATIONS) if fields.body.get("isolation") else "",
        skew_seconds=0.0 if sent is None else round(sent - time.time(), 1),
    )


@transaction.atomic
def _enter(said: Registration, token: DelegateToken, *, address: str) -> Reply:
    now = database_now()
    delegate = _delegate(said, token)
    _check_admission(delegate)
    taken = _take_instance(said, delegate, token, now)
    instance = taken.instance
    DelegateToken.objects.filter(pk=token.pk).update(last_used_at=now)
    tell(delegate.pk)
    if delegate.admission == Delegate.Admission.PENDING_APPROVAL:
        if taken.is_new:
            text = f"{called(instance)} waits for somebody to approve this delegate."
            note(instance, DelegateEvent.Kind.REGISTERED, text, at=now, address=address)
        return Reply({"status": "PENDING_APPROVAL", "retry_after": APPROVAL_SECONDS}, status=202)
    session = replace_session(instance, now)
    note(instance, DelegateEvent.Kind.REGISTERED, _sentence(said, taken), at=now, address=address)
    tell_back([delegate.pk])
    configuration = document(delegate.configuration)
    return Reply(
        {
            "instance_id": instance.pk,
            "delegate_id": delegate.pk,
            "session": session,
            **TERMS,
            "configuration": configuration,
            "clock_skew_seconds": said.skew_seconds,
            "log_next": instance_logs.next_of(instance.pk),
        }
    )


def _delegate(said: Registration, token: DelegateToken) -> Delegate:
    """The delegate of this name in the token's scope; a new one where there is none (R023–R029)."""
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
        raise NameTaken(
            f"{delegate.name} is what the workers of this Slipway are called. Choose another name."
        )
    if delegate.admission == Delegate.Admission.REJECTED:
        raise DelegateRejected(f"Somebody rejected {delegate.name}. Ask who looks after delegates here.")
    if delegate.admission == Delegate.Admission.DISABLED:
        raise DelegateDisabled(f"{delegate.name} is switched off. Enable it on its page.")


@dataclass(frozen=True)
class Taken:
    """The instance that an agent registered as; `is_rekeyed` if it was bound to another key pair before."""

    instance: DelegateInstance
    is_new: bool
    is_rekeyed: bool


def _take_instance(said: Registration, delegate: Delegate, token: DelegateToken, now: datetime) -> Taken:
    """Write the row of the instance. Raises `SignatureWrong`, `InstanceTaken`, `TooOften`."""
    rows = DelegateInstance.objects
    _, is_new = rows.get_or_create(delegate=delegate, key=said.key, defaults={"registered_at": _NEVER})
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
        "ecs": storable(said.ecs),
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
    return Taken(instance, is_new, is_rekeyed)


def _check_claim(said: Registration, instance: DelegateInstance, now: datetime) -> None:
    if said.public_key:
        message = registration_message(
            challenge=said.challenge, account_id=said.account_id, name=said.name, instance_key=said.key
        )
        proof = instance_keys.Proof(said.public_key, said.challenge, said.signature, message)
        proof.check(newer_than=instance.registered_at, now=now)
    instance_keys.check_claim(instance, said.public_key, now)


def _sentence(said: Registration, taken: Taken) -> str:
    version = f" with version {said.version}" if said.version else ""
    told = f"{called(taken.instance)} registered{version}."
    if taken.is_rekeyed:
        told += " It has another key pair than the process before it, which is gone."
    if abs(said.skew_seconds) < NOTABLE_SKEW_SECONDS:
        return told
    return f"{told} {clock_sentence(said.skew_seconds)}"


def clock_sentence(skew_seconds: float) -> str:
    """What is to be done about a clock that is wrong."""
    where = "ahead of" if skew_seconds > 0 else "behind"
    return f"Its clock is {abs(skew_seconds):.0f} s {where} ours: AWS refuses calls from 5 minutes on."
