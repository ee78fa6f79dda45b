"""Planning: what an apply would do, kept for the step that applies it."""

from dataclasses import dataclass

from steps.actions.base import Rollout, action
from steps.actions.terraform.base import TerraformAction


@action
@dataclass(frozen=True)
class PlanTerraform(TerraformAction):
    """Plan, export the counts and the plan as people read it, and keep its file."""

    destroys: bool = False

    @property
    def title(self) -> str:
        return f"Plan with {self.name}"

    def start(self, rollout: Rollout) -> None:
        used = self.own(rollout)
        rollout.log(f"Planning {'the end of ' * self.destroys}{self.identifier} with {self.name}")
        end = self.run(rollout, "plan", used, destroys=self.destroys)
        self.refuse_failure(end, "plan")
        lock = {"lock": end.lock} if end.lock else {}
        rollout.provisions.keep_plan(self.identifier, {**used, **lock}, end.plan, destroys=self.destroys)
        counts = {name: int(end.counts.get(name, 0)) for name in ("add", "change", "destroy", "import")}
        rollout.learn(**counts, hasChanges=any(counts.values()))
        rollout.learn_output("humanReadablePlan", end.words)
        rollout.log(
            f"Planned: {counts['add']} to add, {counts['change']} to change, {counts['destroy']} to destroy"
        )
