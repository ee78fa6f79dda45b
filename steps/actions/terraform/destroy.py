"""Destroying all that a configuration has made."""

from dataclasses import dataclass
from typing import Any

from steps.actions.base import ActionFailed, Rollout, action
from steps.actions.terraform.base import FROM_APPLY, FROM_PLAN, TerraformAction, counted
from steps.actions.terraform.inherited import planned, ready


@action
@dataclass(frozen=True)
class DestroyTerraform(TerraformAction):
    """Destroy by a configuration, by a plan to destroy, or by what was applied last. It has no undo."""

    @property
    def title(self) -> str:
        return f"Destroy with {self.name}"

    def start(self, rollout: Rollout) -> None:
        plan = planned(rollout, self.identifier, destroys=True) if self.configuration == FROM_PLAN else None
        used = rollout.remember("used", dict(plan.used) if plan else self._used(rollout))
        rollout.log(f"Destroying {self.identifier} with {self.name}")
        end = self.run(rollout, "destroy", ready(used), **({"plan_id": plan.id} if plan else {}))
        self.refuse_failure(end, "destroy")
        rollout.provisions.forget(self.identifier)
        rollout.learn(destroyed=int(end.counts.get("destroy", 0)))
        if plan:
            rollout.provisions.free_plan(plan.id)
        rollout.log(f"Destroyed {self.identifier}: {counted(end)}")

    def _used(self, rollout: Rollout) -> dict[str, Any]:
        if self.configuration != FROM_APPLY:
            return self.own(rollout)
        latest = rollout.provisions.latest(self.identifier)
        if latest is None:
            raise ActionFailed(
                "NOTHING_APPLIED",
                f"Slipway knows of nothing that was applied as {self.identifier} here and was not destroyed "
                "since. Check provisionerIdentifier, or give the configuration itself.",
            )
        return dict(latest.used)
