"""Signals that tell the engine why an action stopped before its end."""

from dataclasses import dataclass
from datetime import datetime

from aws.errors import AwsError
from deployments.models import AwsCall


class EngineSignal(Exception):
    """The action cannot go on in this reconcile pass."""


class LeaseRunsOut(EngineSignal):
    """Too little of the lease is left to send a write; reconcile again at once."""


class AbortRequested(EngineSignal):
    """A person asked to stop while a write was about to be sent; it was not sent."""


class SendingForbidden(EngineSignal):
    """The start of an action, replayed for its undo, has come to a call that never happened."""


class JournalMismatch(EngineSignal):
    """The journal holds another call than the action now makes; a person must decide (rule 6)."""


@dataclass
class AwsUnavailable(EngineSignal):
    """AWS could not be asked right now; the same call is made again later."""

    error: AwsError


@dataclass
class NeedsConfirmation(EngineSignal):
    """A write was sent and its answer is unknown (rule 7)."""

    call: AwsCall


@dataclass
class ServiceLockRequired(EngineSignal):
    """The action may not go on before its stage holds this ECS service (rule 13)."""

    ecs_service: str
    is_main: bool


@dataclass
class AnswerPending(EngineSignal):
    """An answer comes later; reconcile again then, or when woken."""

    until: datetime


class RateLimited(AnswerPending):
    """The share of AWS's quota is used up; the call is made once it has come to its turn."""
