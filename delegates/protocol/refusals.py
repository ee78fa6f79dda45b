"""Refused registrations: kept with a reason that a person can act on, and slowed down when they go on."""

import hashlib
from dataclasses import dataclass
from datetime import timedelta

from delegates.models import DelegateToken
from delegates.protocol.happenings import note_refusal, was_refused
from delegates.protocol.problems import InstanceTaken, TooOften
from guards.limits import AGENT_REFUSALS, AGENT_REFUSALS_PER_ADDRESS
from rbac.counting import counts
from rbac.models import Scope
from web.clock import database_now
from web.problems import Problem

_SECONDS = 60
_NOTABLE_SKEW_SECONDS = 300
_TOLD_AGAIN = timedelta(hours=1)


@dataclass(frozen=True)
class Stranger:
    """Who tries to register: what it is called, and where it calls from."""

    name: str
    address: str

    @property
    def keys(self) -> tuple[tuple[str, int], ...]:
        """What its refusals are counted by, and how many there may be in a minute."""
        both = hashlib.sha256(f"{self.address}\n{self.name}".encode()).hexdigest()
        return (
            (f"register:{both}", AGENT_REFUSALS),
            (f"register:{self.address}", AGENT_REFUSALS_PER_ADDRESS),
        )


def admit(stranger: Stranger) -> None:
    """Let those try whose last minute was not full of refusals. Raises `TooOften`."""
    if any(counts.of(key) >= most for key, most in stranger.keys):
        raise TooOften(
            "Registering was refused too often in the last minute. Look at the last refusal, then try again.",
            retry_after=_SECONDS,
        )


def refused(
    stranger: Stranger, problem: Problem, *, token: DelegateToken | None, skew_seconds: float
) -> None:
    """Count a refusal and keep it: where the scope is not known, for the whole account."""
    for key, _ in stranger.keys:
        counts.add(key, seconds=_SECONDS)
    scope = token.scope if token is not None else Scope.objects.get(path=Scope.ROOT)
    text = problem.detail
    if abs(skew_seconds) >= _NOTABLE_SKEW_SECONDS:
        text += f" Its clock is {abs(skew_seconds):.0f} s {'ahead' if skew_seconds > 0 else 'behind'}."
    now, address = database_now(), stranger.address[:64]
    if isinstance(problem, InstanceTaken) and was_refused(
        scope, stranger.name, text, since=now - _TOLD_AGAIN
    ):
        # It goes on trying for as long as the other process lives.
        return
    note_refusal(scope=scope, name=stranger.name, text=text, at=now, address=address)
