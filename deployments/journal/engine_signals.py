"""Signals that stop an action before its end, and their reasons."""

from dataclasses import dataclass
from datetime import datetime

from aws.errors import AwsError
from deployments.models import AwsCall


class EngineSignal(Exception):
    """Base of the reasons why an action cannot continue in this reconcile pass."""


class LeaseRunsOut(EngineSignal):
    """Too little time is left in the lease to send a write; reconcile again immediately."""


class AbortRequested(EngineSignal):
    """A person requested an abort before a write was sent; it was not sent."""


class SendingForbidden(EngineSignal):
    """A replayed `start` reached a call that was never made."""


class JournalMismatch(EngineSignal):
    """The action makes another call than the journal has; a person must decide (rule 6)."""


@dataclass
class AwsUnavailable(EngineSignal):
    """AWS could not be called; the same call is repeated later."""

    error: AwsError


@dataclass
class NeedsConfirmation(EngineSignal):
    """A write was sent and its answer is unknown (rule 7)."""

    call: AwsCall


@dataclass
class ServiceLockRequired(EngineSignal):
    """The stage must lock this ECS service first (rule 13)."""

    ecs_service: str
    is_main: bool


@dataclass
class AnswerPending(EngineSignal):
    """The answer comes later; reconcile at `until`, or when woken."""

    until: datetime


class RateLimited(AnswerPending):
    """The rate limit is reached; the call is made when a token is available."""
