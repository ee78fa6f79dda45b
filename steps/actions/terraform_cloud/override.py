"""The action that overrides policies of a run that Terraform Cloud lets people override."""

from dataclasses import dataclass

from steps.actions.base import Action, ActionFailed, CallRecord, Rollout, Verdict, action
from steps.actions.terraform_cloud.adopting import adopt_call
from steps.actions.terraform_cloud.api import Document, TerraformCloud
from steps.actions.terraform_cloud.planning import refuse_ended


@action
@dataclass(frozen=True)
class OverrideTerraformCloudPolicies(Action):
    """Override the policies that a run broke, as far as the token may, and wait until the run goes on."""

    again_with = ("CreateTerraformCloudRun",)

    connector: str

    @property
    def title(self) -> str:
        return "Override policies"

    def start(self, rollout: Rollout) -> None:
        run_id = str(rollout.know("runId") or "")
        if not run_id:
            return
        cloud = TerraformCloud(rollout, self.connector)
        if not cloud.run(run_id).is_undecided:
            return
        for path in (*self._checks(cloud, run_id), *self._stages(cloud, run_id)):
            if cloud.act((*path, "actions", "override"), ""):
                rollout.log(f"What {path[1]} found is overridden", "warning")

    def _checks(self, cloud: TerraformCloud, run_id: str) -> list[tuple[str, str]]:
        checks = cloud.listed(("runs", run_id, "policy-checks"), "the policy checks of the run")
        return [("policy-checks", str(one.get("id"))) for one in checks if _may(one, "is-overridable")]

    def _stages(self, cloud: TerraformCloud, run_id: str) -> list[tuple[str, str]]:
        stages = cloud.listed(("runs", run_id, "task-stages"), "the tasks of the run")
        waiting = [one for one in stages if _attributes(one).get("status") == "awaiting_override"]
        return [("task-stages", str(one.get("id"))) for one in waiting]

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_call(rollout, self.connector, call, "")

    def is_done(self, rollout: Rollout) -> bool:
        run_id = str(rollout.know("runId") or "")
        if not run_id:
            # A preview, which makes none.
            return True
        run = TerraformCloud(rollout, self.connector).run(run_id)
        refuse_ended(run, "plan")
        if run.is_undecided:
            since = rollout.progress.setdefault("undecided", 0) + 1
            rollout.progress["undecided"] = since
            if since > _PATIENCE:
                raise ActionFailed(
                    "POLICY_FAILED",
                    f"Run {run.id} {run.words}, and this token may not override it: give its team the "
                    "permission to manage policy overrides.",
                )
        return run.is_over or run.is_confirmable or run.may_have_applied


# Looks at a run that should have gone on.
_PATIENCE = 5


def _may(one: Document, name: str) -> bool:
    actions = _attributes(one).get("actions")
    return isinstance(actions, dict) and actions.get(name) is True


def _attributes(one: Document) -> dict[str, object]:
    found = one.get("attributes")
    return dict(found) if isinstance(found, dict) else {}
