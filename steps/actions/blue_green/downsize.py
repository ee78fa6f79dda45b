"""The actions that let the old version's tasks go, at once or later, and bring them back (R244)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aws.types import EcsService
from steps.actions.base import Action, Earlier, Rollout, action
from steps.actions.blue_green.traffic import other_rule_to, refuse_production
from steps.actions.scale_down import ScaleDown


@action
@dataclass(frozen=True)
class WaitBeforeDownsizing(Action):
    """Keep the old version ready for a while: an abort with rollback is instant as long as it runs."""

    seconds: int

    @property
    def title(self) -> str:
        return f"Keep the old service for {self.seconds} seconds"

    def start(self, rollout: Rollout) -> None:
        if not rollout.recall("pair")["blue"]:
            return
        until = rollout.now() + timedelta(seconds=self.seconds)
        rollout.remember("downsize at", until.isoformat())
        rollout.log(
            f"Service {rollout.recall('pair')['blue']} is scaled down in {self.seconds} seconds; "
            "abort with rollback until then, and it takes over again at once"
        )

    def is_done(self, rollout: Rollout) -> bool:
        until = rollout.recall("downsize at")
        return until is None or rollout.now() >= datetime.fromisoformat(until)


@action
@dataclass(frozen=True)
class DownsizeOldService(ScaleDown):
    """Scale the service that was live to 0; it stays, ready for the next deployment or a rollback (R244)."""

    @property
    def title(self) -> str:
        return "Scale the old service down"

    def snapshots(self, known: Rollout | Earlier) -> Sequence[Mapping[str, Any]]:
        before = known.recall("blue before")
        return [] if before is None else [before]

    def may_go(self, rollout: Rollout, live: EcsService) -> bool:
        if rule := other_rule_to(rollout, live):
            rollout.log(
                f"The {rule} still leads to Service {live.name}, so it is not scaled down. Let that rule "
                "forward to the target group of the prod rule, and scale it down in AWS.",
                "warning",
            )
            return False
        refuse_production(rollout, live, "to scale it down")
        return True
