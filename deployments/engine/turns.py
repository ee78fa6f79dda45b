"""Why an action stopped before its end: turns that the engine takes, none of them a failure."""

from dataclasses import dataclass
from datetime import datetime

from aws.errors import AwsError
from deployments.models import Call


class Turn(Exception):
    """The action cannot go on in this look."""


class OutOfTime(Turn):
    """Too little of the lease is left to send a write; look again at once."""


class InterruptWaiting(Turn):
    """A person asked to stop while a write was about to be sent; it was not sent."""


class SendingForbidden(Turn):
    """The start of an action, replayed for its undo, has come to a call that never happened."""


class Mismatch(Turn):
    """The journal holds another call than the action now makes; a person must decide (rule 6)."""


@dataclass
class Trouble(Turn):
    """AWS could not be asked right now; the same call is made again later."""

    error: AwsError


@dataclass
class NeedsAdoption(Turn):
    """A write was sent and its answer is unknown (rule 7)."""

    call: Call


@dataclass
class SlotWanted(Turn):
    """The action may not go on before its stage holds this ECS service (rule 13)."""

    ecs_service: str
    is_main: bool


@dataclass
class Parked(Turn):
    """An answer comes later; look again then, or when woken."""

    until: datetime


class NoToken(Parked):
    """The share of AWS's quota is used up; the call is made once it has come to its turn."""
