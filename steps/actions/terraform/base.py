"""What the actions of Terraform share: how a run is asked for, and what is said of one that failed."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steps.actions.base import Action, ActionFailed, CallRecord, Happened, Rollout, Verdict
from steps.actions.terraform.configuration import TERRAFORM, TITLES, Asked, parameters_of
from steps.actions.work import LOST, TerraformEnd

INLINE, FROM_PLAN, FROM_APPLY = "Inline", "InheritFromPlan", "InheritFromApply"
_NOT_KNOWN = "The worker that asked for it was lost before it could note the task."


@dataclass(frozen=True)
class TerraformAction(Action):
    """One run of Terraform, or of Terragrunt; `identifier` names what it makes, across executions."""

    repeats = True

    identifier: str
    program: str = TERRAFORM
    configuration: str = INLINE
    asked: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return TITLES[self.program]

    def own(self, rollout: Rollout) -> dict[str, Any]:
        """The parameters of a run with what the step itself says."""
        return parameters_of(self.program, Asked(**self.asked), rollout)

    def run(self, rollout: Rollout, command: str, used: Mapping[str, Any], **more: Any) -> TerraformEnd:
        """Let a delegate do it; a good end or not, it is over then."""
        return rollout.work.run_terraform({**used, "command": command, **more})

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        """Nothing shows how far it came, so it counts as one that may have changed something."""
        return Happened({"ended": LOST, "reason": _NOT_KNOWN, "begun": True})

    def refuse_failure(self, end: TerraformEnd, command: str) -> None:
        """Raises `ActionFailed` saying what is known, and what to do."""
        if end.is_good:
            return
        if end.ended == LOST:
            raise ActionFailed(
                "DELEGATE_LOST",
                f"{end.reason or 'The delegate was lost.'} Nobody knows how far {self.program} {command} "
                "came; it is not begun again by itself. The log above ends where it was heard last. "
                "Its state may still be locked: the next run names the lock, and where no other run is under "
                f"way, {self.program} force-unlock with its ID opens it.",
            )
        what = f"{self.program} {end.command or command}"
        how = {"STOPPED": "was stopped", "TIMED_OUT": "did not end in time and was stopped"}.get(
            end.ended, f"ended with exit code {end.exit_code}"
        )
        code = {"STOPPED": "TASK_ABORTED", "TIMED_OUT": "TIMED_OUT"}.get(end.ended, "TERRAFORM_FAILED")
        why = f": {end.errors[0]}" if end.errors else ". Its output above says why."
        unlock = (
            f"\nWhere no other run is under way, unlock the state: {self.program} force-unlock {end.lock_id}"
            if end.lock_id
            else ""
        )
        raise ActionFailed(code, f"{what} {how}{why}{unlock}", exit_code=end.exit_code or None)


def counted(end: TerraformEnd) -> str:
    """How much was changed, in words."""
    said = {"add": "added", "change": "changed", "destroy": "destroyed"}
    return ", ".join(f"{end.counts.get(name, 0)} {word}" for name, word in said.items())
