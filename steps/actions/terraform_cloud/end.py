"""The action that leaves no run open behind a step that failed, ran out of time or was aborted."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steps.actions.base import Action, CallRecord, Rollout, Verdict, action
from steps.actions.terraform_cloud.adopting import adopt_call
from steps.actions.terraform_cloud.api import TerraformCloud
from steps.actions.terraform_cloud.create import discard
from steps.actions.terraform_cloud.runs import Run

_PATIENCE = timedelta(minutes=5)


@action
@dataclass(frozen=True)
class EndTerraformCloudRun(Action):
    """Discard or cancel the run where it is still open; `keeps` one that is planned, for a later step."""

    runs_always = True

    connector: str
    keeps: bool = False

    @property
    def title(self) -> str:
        return "Leave no run open"

    def start(self, rollout: Rollout) -> None:
        cloud = TerraformCloud(rollout, self.connector)
        run = self._run(cloud)
        if run is None or run.is_over or (self.keeps and rollout.know("planStatus")):
            return
        rollout.learn(endedRunId=run.id)
        discard(cloud, run)

    def _run(self, cloud: TerraformCloud) -> Run | None:
        rollout = cloud.rollout
        if run_id := str(rollout.know("runId") or ""):
            return cloud.run(run_id)
        message = rollout.recall("asked run")
        if not message:
            return None
        # Its answer was lost, and nobody has asked since.
        runs = cloud.runs(str(rollout.recall("workspace")))
        return next((one for one in runs if one.message == message), None)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_call(rollout, self.connector, call, "")

    def is_done(self, rollout: Rollout) -> bool:
        ended = str(rollout.know("endedRunId") or "")
        if not ended or TerraformCloud(rollout, self.connector).run(ended).is_over:
            return True
        since = rollout.progress.setdefault("since", rollout.now().isoformat())
        if rollout.now() - datetime.fromisoformat(since) < _PATIENCE:
            return False
        rollout.log(f"Run {ended} has not ended yet: look at it in Terraform Cloud", "warning")
        return True
