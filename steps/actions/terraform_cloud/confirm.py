"""The action that lets Terraform Cloud apply what was planned, and follows that to its end."""

from dataclasses import dataclass

from steps.actions.base import Action, ActionFailed, CallRecord, Rollout, Verdict, action
from steps.actions.terraform_cloud.adopting import adopt_call
from steps.actions.terraform_cloud.api import TerraformCloud
from steps.actions.terraform_cloud.following import follow_log, tell_status
from steps.actions.terraform_cloud.planning import refuse_ended


@action
@dataclass(frozen=True)
class ConfirmTerraformCloudRun(Action):
    """Confirm the run that was planned; where nothing changes there is nothing to confirm."""

    again_with = ("CreateTerraformCloudRun", "OverrideTerraformCloudPolicies")

    connector: str

    @property
    def title(self) -> str:
        return "Apply in Terraform Cloud"

    def start(self, rollout: Rollout) -> None:
        run_id = str(rollout.know("runId") or "")
        if not run_id:
            return
        cloud = TerraformCloud(rollout, self.connector)
        run = cloud.run(run_id)
        if not run.is_confirmable:
            return
        if cloud.act(("runs", run_id, "actions", "apply"), "Confirmed by Slipway"):
            rollout.log(f"Run {run_id} is confirmed")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_call(rollout, self.connector, call, "")

    def is_done(self, rollout: Rollout) -> bool:
        run_id = str(rollout.know("runId") or "")
        if not run_id:
            # A preview, which makes none.
            return True
        cloud = TerraformCloud(rollout, self.connector)
        run = cloud.run(run_id)
        tell_status(rollout, run)
        if run.is_undecided:
            raise ActionFailed(
                "POLICY_FAILED",
                f"Run {run.id} {run.words}: decide about it in Terraform Cloud, and try again.",
            )
        if run.may_have_applied and not follow_log(cloud, run.apply, is_over=run.is_over):
            return False
        refuse_ended(run, "apply")
        if run.is_over:
            rollout.learn(applyStatus="APPLIED" if run.status == "applied" else "NOTHING_TO_APPLY")
        return run.is_over
