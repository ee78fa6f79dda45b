"""Applying, and going back to what was applied before."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steps.actions.base import ActionFailed, Check, Earlier, NotOurs, Rollout, action
from steps.actions.terraform.base import FROM_PLAN, TerraformAction, counted
from steps.actions.terraform.inherited import planned, ready
from steps.actions.work import TerraformEnd


@action
@dataclass(frozen=True)
class ApplyTerraform(TerraformAction):
    """Apply a configuration, or a plan; its undo applies what was applied before, or destroys."""

    has_undo = True

    @property
    def title(self) -> str:
        return f"Apply with {self.name}"

    def start(self, rollout: Rollout) -> None:
        plan = planned(rollout, self.identifier, destroys=False) if self.configuration == FROM_PLAN else None
        used = rollout.remember("used", dict(plan.used) if plan else self.own(rollout))
        before = rollout.provisions.latest(self.identifier)
        before_id = rollout.remember("before", before.id if before else "")
        rollout.log(
            f"Applying {f'the plan of {self.identifier}' if plan else self.identifier} with {self.name}"
        )
        more = {"plan_id": plan.id} if plan else {}
        end = self.run(rollout, "apply", ready(used), asks_what_is_there=not before_id, **more)
        if end.begun:
            rollout.remember("begun", True)
        if end.holds_resources is not None:
            rollout.remember("held resources", end.holds_resources)
        self.refuse_failure(end, "apply")
        rollout.remember("kept", rollout.provisions.keep(self.identifier, used))
        if plan:
            rollout.provisions.free_plan(plan.id)
        learn_outputs(rollout, end.outputs)
        rollout.log(f"Applied {self.identifier}: {counted(end)}")

    # --- going back -------------------------------------------------------------------------------

    def may_undo(self, rollout: Rollout) -> bool:
        """Raises `NotOurs` where somebody has applied it since."""
        latest = rollout.provisions.latest(self.identifier)
        if latest is not None and latest.id not in (rollout.recall("kept"), rollout.recall("before")):
            raise NotOurs(
                f"{self.identifier} was applied by {latest.by} since. Nothing of it is touched: "
                "roll back there first, or apply what you want to have."
            )
        return True

    def undo(self, rollout: Rollout) -> None:
        if not rollout.recall("begun"):
            rollout.log(f"Nothing of {self.identifier} was changed, so nothing is put back")
            return
        if before := rollout.recall("before"):
            self._apply(rollout, before)
        else:
            self._destroy(rollout)
        rollout.provisions.forget(self.identifier, after=before or "")

    def _apply(self, rollout: Rollout, before: str) -> None:
        earlier = rollout.provisions.find(before)
        if earlier is None:
            raise ActionFailed(
                "NOT_KNOWN",
                f"What was applied as {self.identifier} before is no longer kept: apply it by hand.",
            )
        rollout.log(f"Applying what {earlier.by} had applied as {self.identifier}")
        self._done(self.run(rollout, "apply", ready(earlier.used)), "apply", rollout)

    def _destroy(self, rollout: Rollout) -> None:
        if rollout.recall("held resources") is not False:
            raise ActionFailed(
                "NOT_MADE_HERE",
                f"Slipway knows of no earlier apply of {self.identifier}, and its state held resources "
                "before, or may have. They are not destroyed: put them back by hand, or destroy them with a "
                "step of their own.",
            )
        rollout.log(f"Destroying {self.identifier}: there was nothing before")
        self._done(self.run(rollout, "destroy", ready(rollout.recall("used"))), "destroy", rollout)

    def _done(self, end: TerraformEnd, command: str, rollout: Rollout) -> None:
        self.refuse_failure(end, command)
        rollout.log(f"Put back {self.identifier}: {counted(end)}")

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        if known.recall("before"):
            return (f"Apply what was applied as {self.identifier} before",)
        return (f"Destroy {self.identifier}",)

    def checklist(self, rollout: Rollout) -> list[Check]:
        if not rollout.recall("begun"):
            return []
        wanted = rollout.recall("before") or ""
        latest = rollout.provisions.latest(self.identifier)
        found = f"what {latest.by} applied" if latest else "destroyed"
        ok = (latest.id if latest else "") == wanted
        return [Check(self.identifier, "as it was applied before" if wanted else "destroyed", found, ok)]


def learn_outputs(rollout: Rollout, outputs: Mapping[str, Mapping[str, Any]]) -> None:
    """Hand on the outputs of a run; what is no text keeps its type, unless it is a secret."""
    typed: dict[str, Any] = {}
    for name, one in outputs.items():
        value, is_secret = one.get("value"), bool(one.get("is_secret"))
        if is_secret or isinstance(value, str):
            text = value if isinstance(value, str) else json.dumps(value)
            rollout.learn_output(name, text, is_secret=is_secret)
        else:
            typed[name] = value
    rollout.learn(**typed)
