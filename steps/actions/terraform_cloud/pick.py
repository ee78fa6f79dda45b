"""The action that finds the run which an earlier step planned."""

from dataclasses import dataclass

from steps.actions.base import Action, ActionFailed, Rollout, action
from steps.actions.terraform_cloud.api import TerraformCloud
from steps.variables import filled_in

STEP = "TerraformCloudRun"


@action
@dataclass(frozen=True)
class PickTerraformCloudRun(Action):
    """Take up a run: the one that is named, or that the step before this one planned."""

    repeats = True

    connector: str
    run: str = ""
    provisioner: str = ""

    @property
    def title(self) -> str:
        return "Find the planned run"

    def start(self, rollout: Rollout) -> None:
        cloud = TerraformCloud(rollout, self.connector)
        run = cloud.run(filled_in(self.run, rollout.value_of) or self._planned(rollout))
        if run.is_over and run.status != "planned_and_finished":
            raise ActionFailed("RUN_ENDED", f"Run {run.id} {run.words}: plan anew.")
        workspace = run.raw.get("relationships", {}).get("workspace", {}).get("data", {}).get("id", "")
        rollout.log(f"Run {run.id} {run.words}")
        rollout.learn(runId=run.id, workspaceId=str(workspace))

    def _planned(self, rollout: Rollout) -> str:
        earlier = rollout.earlier(STEP)
        if earlier is None:
            raise ActionFailed(
                "NO_PLAN", "No step before this one has planned a run: add one with the run type Plan."
            )
        named = str(earlier.know("provisionerIdentifier") or "")
        if self.provisioner and named and named != self.provisioner:
            raise ActionFailed(
                "NO_PLAN",
                f"The last plan is of {named}, not of {self.provisioner}: name its run as runId, such as "
                "<+steps.IDENTIFIER.output.runId>.",
            )
        # A preview knows none, and asks for nothing; a step that was ignored may have made none.
        return str(earlier.know("runId") or "no-run")
