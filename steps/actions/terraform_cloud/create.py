"""The action that makes a run in Terraform Cloud, follows its plan, and takes back what came of it."""

from dataclasses import dataclass, field
from typing import Any

from steps.actions.base import (
    Action,
    ActionFailed,
    CallRecord,
    Check,
    Earlier,
    NotOurs,
    Rollout,
    Verdict,
    action,
)
from steps.actions.terraform_cloud import going_back
from steps.actions.terraform_cloud.adopting import adopt_call
from steps.actions.terraform_cloud.api import TerraformCloud, Workspace
from steps.actions.terraform_cloud.following import follow_log, tell_status
from steps.actions.terraform_cloud.planning import judge_plan, tell_plan
from steps.actions.terraform_cloud.runs import Run
from steps.variables import filled_in

# Runs in these states wait for somebody who confirms or discards them, and keep others waiting.
PENDING = "pending,planned,cost_estimated,policy_checked,policy_override,post_plan_completed"


@action
@dataclass(frozen=True)
class CreateTerraformCloudRun(Action):
    """Make a run and follow its plan; texts, hcl and secrets (to references) are its variables."""

    has_undo = True

    connector: str
    organization: str
    workspace: str
    message: str = ""
    is_destroy: bool = False
    plan_only: bool = False
    refresh_only: bool = False
    discards_pending: bool = False
    overrides_policies: bool = False
    targets: list[str] = field(default_factory=list)
    texts: dict[str, str] = field(default_factory=dict)
    hcl: dict[str, str] = field(default_factory=dict)
    secrets: dict[str, str] = field(default_factory=dict)
    terraform_version: str = ""
    provisioner: str = ""

    @property
    def title(self) -> str:
        return "Plan in Terraform Cloud"

    def start(self, rollout: Rollout) -> None:
        cloud = TerraformCloud(rollout, self.connector)
        workspace = cloud.workspace(*(_filled(rollout, one) for one in (self.organization, self.workspace)))
        _refuse_unfit(rollout, workspace)
        rollout.remember("workspace", workspace.id)
        rollout.remember("workspace name", str(workspace))
        applied = cloud.runs(workspace.id, "applied", most=1)
        rollout.remember("applied before", applied[0].id if applied else "")
        rollout.remember("state before", workspace.has_state)
        self._make_way(cloud, workspace)
        for name in self.secrets:
            rollout.log(
                f"Variable {name} is a secret: Terraform Cloud shows variables of a run to whoever may read "
                "the run. A sensitive variable of the workspace stays hidden.",
                "warning",
            )
        run = cloud.create_run(
            self._body(rollout, workspace),
            {
                "texts": {name: _filled(rollout, one) for name, one in self.texts.items()},
                "hcl": {name: _filled(rollout, one) for name, one in self.hcl.items()},
                "secrets": self.secrets,
            },
        )
        rollout.log(f"Run {run.id} is made in workspace {workspace}")
        rollout.learn(runId=run.id, workspaceId=workspace.id)
        if self.provisioner:
            rollout.learn(provisionerIdentifier=self.provisioner)

    def _make_way(self, cloud: TerraformCloud, workspace: Workspace) -> None:
        """Discard what this step left open in an earlier attempt, and what waits where that is wanted."""
        rollout = cloud.rollout
        earlier = str(rollout.know("runId") or "")
        if earlier:
            discard(cloud, cloud.run(earlier))
        if self.discards_pending:
            for run in cloud.runs(workspace.id, PENDING):
                discard(cloud, run)

    def _body(self, rollout: Rollout, workspace: Workspace) -> dict[str, Any]:
        said = _filled(rollout, self.message) or "Asked for by Slipway"
        attributes: dict[str, Any] = {
            "message": f"{said} [Slipway {rollout.intent}]",
            "auto-apply": False,
            "is-destroy": self.is_destroy,
            "plan-only": self.plan_only,
            "refresh-only": self.refresh_only,
        }
        if self.targets:
            attributes["target-addrs"] = [_filled(rollout, one) for one in self.targets]
        if self.terraform_version:
            attributes["terraform-version"] = self.terraform_version
        # What the action at the end looks for, should the answer be lost and never be looked for.
        rollout.remember("asked run", attributes["message"])
        return {"data": {"type": "runs", "attributes": attributes, **going_back.in_workspace(workspace.id)}}

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_call(rollout, self.connector, call, str(rollout.recall("workspace")))

    def is_done(self, rollout: Rollout) -> bool:
        cloud = TerraformCloud(rollout, self.connector)
        run = cloud.run(str(rollout.know("runId")))
        tell_status(rollout, run)
        is_planned = run.is_over or run.is_confirmable or run.is_undecided or run.may_have_applied
        if not follow_log(cloud, run.plan, is_over=is_planned) or not is_planned:
            return False
        judge_plan(cloud, run, overrides=self.overrides_policies, plan_only=self.plan_only)
        tell_plan(rollout, run)
        return True

    def prepare_undo(self, rollout: Rollout) -> None:
        cloud = TerraformCloud(rollout, self.connector)
        run = _made(cloud)
        if run is not None:
            discard(cloud, run)

    def may_undo(self, rollout: Rollout) -> bool:
        cloud = TerraformCloud(rollout, self.connector)
        run = _made(cloud)
        if run is None or not run.is_over:
            return run is None
        newest = going_back.newer_than(cloud, run, str(rollout.recall("workspace")))
        if newest and newest != str(rollout.recall("applied before") or "") and run.may_have_applied:
            raise NotOurs(f"Run {newest} was applied after run {run.id}: nothing is put back.")
        return True

    def undo(self, rollout: Rollout) -> None:
        cloud = TerraformCloud(rollout, self.connector)
        run = _made(cloud)
        if run is None or not run.may_have_applied:
            rollout.log("Nothing was applied, so there is nothing to put back")
            rollout.learn(rollbackRunId="")
            return
        going_back.begin(cloud, run)

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return self.adopt(rollout, call)

    def is_undone(self, rollout: Rollout) -> bool:
        return going_back.is_over(
            TerraformCloud(rollout, self.connector), str(rollout.know("rollbackRunId") or "")
        )

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        before = str(known.recall("applied before") or "")
        name = str(known.recall("workspace name") or self.workspace)
        if before:
            return (f"Workspace {name} is applied again as run {before} had it.",)
        return (f"What run {known.know('runId')} made in workspace {name} is destroyed.",)

    def checklist(self, rollout: Rollout) -> list[Check]:
        return going_back.checked(TerraformCloud(rollout, self.connector))


def _filled(rollout: Rollout, text: str) -> str:
    return filled_in(text, rollout.value_of)


def _refuse_unfit(rollout: Rollout, workspace: Workspace) -> None:
    if workspace.execution_mode == "local":
        raise ActionFailed(
            "WORKSPACE_IS_LOCAL",
            f"Workspace {workspace} only keeps state: set its execution mode to remote or agent.",
        )
    if not workspace.can_queue:
        raise ActionFailed(
            "ACCESS_DENIED",
            f"The connector's token may not make runs in workspace {workspace}: give its user or team the "
            "permission to plan or to write.",
        )
    if workspace.is_locked:
        rollout.log(f"Workspace {workspace} is locked: the run waits until somebody unlocks it", "warning")


def _made(cloud: TerraformCloud) -> Run | None:
    """The run that this step made, if it is known."""
    run_id = str(cloud.rollout.know("runId") or "")
    return cloud.run(run_id) if run_id else None


def discard(cloud: TerraformCloud, run: Run) -> None:
    """Let a run that is open come to its end."""
    if run.is_over or not (run.is_discardable or run.is_cancelable):
        return
    verb = "discard" if run.is_discardable else "cancel"
    if cloud.act(("runs", run.id, "actions", verb), "Not wanted any more, says Slipway"):
        cloud.rollout.log(
            f"Run {run.id} is {'discarded' if verb == 'discard' else 'told to stop'}", "warning"
        )
