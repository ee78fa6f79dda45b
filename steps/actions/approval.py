"""Asks people for their approval, and goes on once enough of them have given it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from steps.actions.asked import AskedApproval
from steps.actions.base import Action, ActionFailed, Rollout, action

REJECTED = "APPROVAL_REJECTED"
EXPIRED = "APPROVAL_EXPIRED"


@action
@dataclass(frozen=True)
class AskForApproval(Action):
    """Wait until enough members of the groups have approved what comes next."""

    repeats: ClassVar[bool] = True
    watches_timeout: ClassVar[bool] = True

    message: str
    groups: list[str]
    minimum: int = 1
    without_executor: bool = False
    inputs: list[Mapping[str, Any]] = field(default_factory=list)
    with_history: bool = False

    @property
    def title(self) -> str:
        who = ", ".join(self.groups)
        return f"Wait for {self.minimum} approval{'' if self.minimum == 1 else 's'} from {who}"[:255]

    def start(self, rollout: Rollout) -> None:
        rollout.ask_approval(
            AskedApproval(
                message=self.message,
                groups=tuple(self.groups),
                minimum=self.minimum,
                without_executor=self.without_executor,
                inputs=tuple(self.inputs),
                with_history=self.with_history,
            )
        )

    def is_done(self, rollout: Rollout) -> bool:
        state = rollout.approval_state()
        if state.verdict == "REJECTED":
            reason = f": {state.comment}" if state.comment else ""
            raise ActionFailed(REJECTED, f"{state.by} rejected this{reason}", outcome="")
        if state.verdict == "EXPIRED":
            missing = self.minimum - len(state.approvers)
            raise ActionFailed(
                EXPIRED,
                f"Nobody decided in time: {missing} more approval{'' if missing == 1 else 's'} of "
                f"{', '.join(self.groups)} would have been needed. Retry to ask again.",
                outcome="TIMED_OUT",
            )
        if state.verdict != "APPROVED":
            return False
        rollout.learn(approvers=list(state.approvers), approverInputs=dict(state.inputs))
        return True
