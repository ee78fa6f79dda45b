"""Putting a workspace back: a run of the configuration that was applied before, or a destruction."""

from collections.abc import Mapping
from typing import Any

from steps.actions.base import ActionFailed, Check
from steps.actions.terraform_cloud.api import TerraformCloud
from steps.actions.terraform_cloud.following import follow_log, tell_status
from steps.actions.terraform_cloud.planning import refuse_ended
from steps.actions.terraform_cloud.runs import Run


def in_workspace(workspace: str, configuration: str = "") -> dict[str, Any]:
    """The relationships of a run that is to be made; without a configuration the newest one is meant."""
    relations: dict[str, Any] = {"workspace": {"data": {"type": "workspaces", "id": workspace}}}
    if configuration:
        relations["configuration-version"] = {"data": {"type": "configuration-versions", "id": configuration}}
    return {"relationships": relations}


def newer_than(cloud: TerraformCloud, run: Run, workspace: str) -> str:
    """The newest run that was applied, if it is another one than this; else nothing."""
    applied = cloud.runs(workspace, "applied", most=1)
    return applied[0].id if applied and applied[0].id != run.id else ""


def begin(cloud: TerraformCloud, run: Run) -> None:
    """Make the run that puts back what was applied before `run`, which is then `rollbackRunId`."""
    rollout = cloud.rollout
    workspace, before_id = str(rollout.recall("workspace")), str(rollout.recall("applied before") or "")
    if before_id:
        before = cloud.run(before_id)
        is_destroy, configuration, variables = before.is_destroy, before.configuration, before.variables
        rollout.log(f"Applying again what run {before_id} applied")
    elif rollout.recall("state before"):
        raise ActionFailed(
            "NOTHING_TO_GO_BACK_TO",
            "The state before this step was not made by a run that Terraform Cloud still shows, so there is "
            "no configuration to apply again.",
        )
    else:
        is_destroy, configuration, variables = True, run.configuration, run.variables
        rollout.log(f"Nothing was there before run {run.id}: what it made is destroyed")
    mark = rollout.remember("rollback mark", f"{rollout.intent} back {rollout.now():%Y%m%d%H%M%S}")
    attributes = {
        "message": f"Rolled back by Slipway: run {run.id} [Slipway {mark}]",
        "auto-apply": True,
        "is-destroy": is_destroy,
    }
    body = {"data": {"type": "runs", "attributes": attributes, **in_workspace(workspace, configuration)}}
    made = cloud.create_run(body, {"hcl": _given(variables)})
    rollout.log(f"Run {made.id} is made in workspace {rollout.recall('workspace name')}")
    rollout.learn(rollbackRunId=made.id)


def is_over(cloud: TerraformCloud, run_id: str) -> bool:
    """One look at the run that puts things back; raises `ActionFailed` where it does not come to that."""
    if not run_id:
        return True
    run = cloud.run(run_id)
    tell_status(cloud.rollout, run)
    is_planned = run.is_over or run.may_have_applied or run.is_undecided
    if not follow_log(cloud, run.plan, is_over=is_planned):
        return False
    if run.is_undecided or run.status == "policy_soft_failed":
        raise ActionFailed("POLICY_FAILED", f"Run {run.id} {run.words}: decide about it in Terraform Cloud.")
    if run.apply.log_url and run.may_have_applied and not follow_log(cloud, run.apply, is_over=run.is_over):
        return False
    refuse_ended(run, "rollback")
    return run.is_over


def checked(cloud: TerraformCloud) -> list[Check]:
    """The line of the checklist: what was applied last, beside what was meant to be."""
    rollout = cloud.rollout
    back = str(rollout.know("rollbackRunId") or "")
    if not back:
        return []
    run = cloud.run(back)
    before = str(rollout.recall("applied before") or "")
    expected = f"as run {before} applied it" if before else "nothing"
    is_back = run.status in ("applied", "planned_and_finished")
    found = expected if is_back else f"run {back} {run.words}"
    return [Check(f"Workspace {rollout.recall('workspace name')}", expected, found, ok=is_back)]


def _given(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name}
