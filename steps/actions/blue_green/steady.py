"""The action that follows the stage service until it is steady (R236)."""

from dataclasses import dataclass

from steps.actions.base import Rollout, action
from steps.actions.steady_state import WaitForSteadyState


@action
@dataclass(frozen=True)
class WaitForStageService(WaitForSteadyState):
    """As any deployment is followed, by its id; what is said at the end is blue/green's."""

    update: bool = False

    @property
    def title(self) -> str:
        return "Wait for the stage service's steady state"

    def tell_success(self, rollout: Rollout, name: str) -> None:
        is_update = self.update and rollout.recall("service before")
        verb = "Updated" if is_update else "Created"
        rollout.log(f"{verb} Stage Service {name} with Arn {rollout.know('serviceArn')}")
