"""The action that lets time pass."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steps.actions.base import Action, Rollout, action

UNTIL = "waitsUntil"


@action
@dataclass(frozen=True)
class WaitForTime(Action):
    """Wait so many seconds; a person may end it sooner."""

    repeats = True
    may_be_cut_short = True

    seconds: int

    @property
    def title(self) -> str:
        return f"Wait for {words(self.seconds)}"

    def start(self, rollout: Rollout) -> None:
        until = rollout.now() + timedelta(seconds=self.seconds)
        rollout.learn(**{UNTIL: until.isoformat()})
        rollout.log(f"Waiting for {words(self.seconds)}, until {until:%Y-%m-%d %H:%M:%S} UTC")

    def is_done(self, rollout: Rollout) -> bool:
        until = datetime.fromisoformat(str(rollout.know(UNTIL)))
        if rollout.now() < until:
            rollout.rest(until)
            return False
        rollout.log("The time is over")
        return True


def words(seconds: int) -> str:
    """A time in words, such as 1 hour 30 minutes."""
    parts = [(seconds // 3600, "hour"), (seconds // 60 % 60, "minute"), (seconds % 60, "second")]
    return " ".join(f"{n} {unit}{'' if n == 1 else 's'}" for n, unit in parts if n) or "0 seconds"
