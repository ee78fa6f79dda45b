"""Action that creates a run and follows its plan; undo restores the workspace."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import EarlierStep, StepContext
from steps.actions.terraform_cloud.api import (
    TerraformCloud,
    TerraformCloudRun,
    TerraformCloudWorkspace,
    confirm_terraform_cloud_call,
)
from steps.actions.terraform_cloud.progress import (
    copy_log,
    log_plan,
    log_run_status,
    refuse_ended_run,
    require_usable_plan,
)
from steps.expressions import render_expressions


def build_run_relationships(workspace: str, configuration: str = "") -> dict[str, Any]:
    """Return the relationships of a new run; without a configuration it uses the newest one."""
    relations: dict[str, Any] = {"workspace": {"data": {"type": "workspaces", "id": workspace}}}
    if configuration:
        relations["configuration-version"] = {"data": {"type": "configuration-versions", "id": configuration}}
    return {"relationships": relations}


def find_newer_run(cloud: TerraformCloud, run: TerraformCloudRun, workspace: str) -> str:
    """Return the newest applied run if it is another one than this, else an empty text."""
    applied = cloud.runs(workspace, "applied", limit=1)
    return applied[0].id if applied and applied[0].id != run.id else ""


def _save_applied_before(cloud: TerraformCloud, run: TerraformCloudRun) -> None:
    """Save which run was applied last before this one, which holds the workspace now.

    When it was created, runs of others may have been ahead of it.
    """
    context = cloud.context
    applied = cloud.runs(str(context.load_for_rollback("workspace")), "applied", limit=2)
    newest = next((other.id for other in applied if other.id != run.id), "")
    context.save_for_rollback(f"applied before {run.id}", newest)


def _get_applied_before(saved: EarlierStep, run_id: str) -> str:
    """Return the run that was applied last before a run of the step, or an empty text."""
    found = saved.load_for_rollback(f"applied before {run_id}")
    return str((saved.load_for_rollback("applied before") if found is None else found) or "")


def start_rollback_run(cloud: TerraformCloud, run: TerraformCloudRun) -> None:
    """Create the run that restores the configuration from before `run`; its id is output `rollbackRunId`."""
    context = cloud.context
    workspace, before_id = str(context.load_for_rollback("workspace")), _get_applied_before(context, run.id)
    targets: tuple[str, ...] = ()
    if before_id:
        before = cloud.run(before_id)
        _require_known_configuration(run, before)
        is_destroy, configuration, variables = before.is_destroy, before.configuration, before.variables
        targets = run.targets
        to = f" to {', '.join(targets)}" if targets else ""
        context.log(f"Applying again what run {before_id} applied{to}")
    elif context.load_for_rollback("state before"):
        raise ActionFailed(
            "NOTHING_TO_GO_BACK_TO",
            "The state before this step was not made by a run that Terraform Cloud still shows, so there is "
            "no configuration to apply again.",
        )
    else:
        is_destroy, configuration, variables = True, run.configuration, run.variables
        context.log(f"Nothing was there before run {run.id}: its resources are destroyed")
    marker = context.save_for_rollback("rollback mark", f"{context.intent} back {context.now():%Y%m%d%H%M%S}")
    attributes: dict[str, Any] = {
        "message": f"Rolled back by Slipway: run {run.id} [Slipway {marker}]",
        "auto-apply": True,
        "is-destroy": is_destroy,
    }
    if targets:
        attributes["target-addrs"] = list(targets)
    body = {
        "data": {
            "type": "runs",
            "attributes": attributes,
            **build_run_relationships(workspace, configuration),
        }
    }
    rollback_run = cloud.create_run(body, {"hcl": _build_variables(variables)})
    context.log(
        f"Run {rollback_run.id} is created in workspace {context.load_for_rollback('workspace name')}"
    )
    context.set_outputs(rollbackRunId=rollback_run.id)


def _require_known_configuration(run: TerraformCloudRun, before: TerraformCloudRun) -> None:
    """Raise `ActionFailed` if the run before was limited to other resources than this one changed."""
    if before.targets and not (run.targets and set(run.targets) <= set(before.targets)):
        raise ActionFailed(
            "NOTHING_TO_GO_BACK_TO",
            f"Run {before.id}, the last one before this step, applied only {', '.join(before.targets)}. No "
            "configuration shows what the other resources were: decide in Terraform Cloud what to apply.",
        )


def is_rollback_run_over(cloud: TerraformCloud, run_id: str) -> bool:
    """Check the rollback run once; raises `ActionFailed` if it cannot succeed."""
    if not run_id:
        return True
    run = cloud.run(run_id)
    log_run_status(cloud.context, run)
    is_planned = run.is_over or run.may_have_applied or run.is_undecided
    if not copy_log(cloud, run.plan, is_over=is_planned):
        return False
    if run.is_undecided or run.status == "policy_soft_failed":
        raise ActionFailed(
            "POLICY_FAILED", f"Run {run.id} {run.status_text}: decide about it in Terraform Cloud."
        )
    if run.apply.log_url and run.may_have_applied and not copy_log(cloud, run.apply, is_over=run.is_over):
        return False
    refuse_ended_run(run, "rollback")
    return run.is_over


def build_rollback_check(cloud: TerraformCloud) -> list[ChecklistEntry]:
    """Return the checklist entry with the expected and the latest applied configuration."""
    context = cloud.context
    rollback_run_id = str(context.get_output("rollbackRunId") or "")
    if not rollback_run_id:
        return []
    run, undone = cloud.run(rollback_run_id), _find_run_to_undo(cloud)
    before = _get_applied_before(context, undone.id) if undone is not None else ""
    expected = f"as run {before} applied it" if before else "nothing"
    is_restored = run.status in ("applied", "planned_and_finished")
    actual = expected if is_restored else f"run {rollback_run_id} {run.status_text}"
    return [
        ChecklistEntry(
            f"Workspace {context.load_for_rollback('workspace name')}", expected, actual, ok=is_restored
        )
    ]


def _build_variables(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name}


# Statuses of runs that block later runs until somebody confirms or discards them.
OPEN_STATUSES = "pending,planned,cost_estimated,policy_checked,policy_override,post_plan_completed"


@action
@dataclass(frozen=True)
class CreateTerraformCloudRun(Action):
    """Create a run and follow its plan; texts, hcl and secrets (to references) are its variables."""

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

    def start(self, context: StepContext) -> None:
        cloud = TerraformCloud(context, self.connector)
        workspace = cloud.workspace(
            *(_resolve_text(context, text) for text in (self.organization, self.workspace))
        )
        _refuse_workspace(context, workspace)
        context.save_for_rollback("workspace", workspace.id)
        context.save_for_rollback("workspace name", str(workspace))
        applied = cloud.runs(workspace.id, "applied", limit=1)
        context.save_for_rollback("applied before", applied[0].id if applied else "")
        context.save_for_rollback("state before", workspace.has_state)
        self._discard_open_runs(cloud, workspace)
        for name in self.secrets:
            context.log(
                f"Variable {name} is a secret: Terraform Cloud shows variables of a run to whoever may read "
                "the run. A sensitive variable of the workspace stays hidden.",
                "warning",
            )
        run = cloud.create_run(
            self._build_body(context, workspace),
            {
                "texts": {name: _resolve_text(context, text) for name, text in self.texts.items()},
                "hcl": {name: _resolve_text(context, text) for name, text in self.hcl.items()},
                "secrets": self.secrets,
            },
        )
        context.log(f"Run {run.id} is created in workspace {workspace}")
        context.set_outputs(runId=run.id, workspaceId=workspace.id)
        if self.provisioner:
            context.set_outputs(provisionerIdentifier=self.provisioner)

    def _discard_open_runs(self, cloud: TerraformCloud, workspace: TerraformCloudWorkspace) -> None:
        """Discard the open run of an earlier attempt, and pending runs if the step says so."""
        context = cloud.context
        earlier = _get_created_run(cloud)
        if earlier is not None and earlier.may_have_applied:
            # Its apply failed half way: the next run may apply nothing, and this is left to undo.
            context.save_for_rollback("applied by an earlier attempt", earlier.id)
        if earlier is not None:
            close_open_run(cloud, earlier)
        if self.discards_pending:
            for run in cloud.runs(workspace.id, OPEN_STATUSES):
                close_open_run(cloud, run)

    def _build_body(self, context: StepContext, workspace: TerraformCloudWorkspace) -> dict[str, Any]:
        message = _resolve_text(context, self.message) or "Asked for by Slipway"
        attributes: dict[str, Any] = {
            "message": f"{message} [Slipway {context.intent}]",
            "auto-apply": False,
            "is-destroy": self.is_destroy,
            "plan-only": self.plan_only,
            "refresh-only": self.refresh_only,
        }
        if self.targets:
            attributes["target-addrs"] = [_resolve_text(context, target) for target in self.targets]
        if self.terraform_version:
            attributes["terraform-version"] = self.terraform_version
        # `EndTerraformCloudRun` searches for this message if the answer is lost and never confirmed.
        context.save_for_rollback("run message", attributes["message"])
        return {"data": {"type": "runs", "attributes": attributes, **build_run_relationships(workspace.id)}}

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_terraform_cloud_call(
            context, self.connector, call, str(context.load_for_rollback("workspace"))
        )

    def is_done(self, context: StepContext) -> bool:
        cloud = TerraformCloud(context, self.connector)
        run = cloud.run(str(context.get_output("runId")))
        log_run_status(context, run)
        is_planned = run.is_over or run.is_confirmable or run.is_undecided or run.may_have_applied
        if not copy_log(cloud, run.plan, is_over=is_planned) or not is_planned:
            return False
        _save_applied_before(cloud, run)
        require_usable_plan(cloud, run, overrides=self.overrides_policies, plan_only=self.plan_only)
        log_plan(context, run)
        return True

    def prepare_undo(self, context: StepContext) -> None:
        cloud = TerraformCloud(context, self.connector)
        run = _get_created_run(cloud)
        if run is not None:
            close_open_run(cloud, run)

    def may_undo(self, context: StepContext) -> bool:
        cloud = TerraformCloud(context, self.connector)
        created = _get_created_run(cloud)
        if created is None or not created.is_over:
            return created is None
        run = _find_run_to_undo(cloud)
        if run is None:
            return True
        newest = find_newer_run(cloud, run, str(context.load_for_rollback("workspace")))
        if newest and newest != _get_applied_before(context, run.id):
            raise ChangedByOthers(f"Run {newest} was applied after run {run.id}: nothing is restored.")
        return True

    def undo(self, context: StepContext) -> None:
        cloud = TerraformCloud(context, self.connector)
        run = _find_run_to_undo(cloud)
        if run is None:
            context.log("Nothing was applied, so there is nothing to restore")
            context.set_outputs(rollbackRunId="")
            return
        start_rollback_run(cloud, run)

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        return self.confirm(context, call)

    def is_undone(self, context: StepContext) -> bool:
        return is_rollback_run_over(
            TerraformCloud(context, self.connector), str(context.get_output("rollbackRunId") or "")
        )

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        before = _get_applied_before(saved, str(saved.get_output("runId")))
        name = str(saved.load_for_rollback("workspace name") or self.workspace)
        if before:
            return (f"Workspace {name} is applied again as run {before} had it.",)
        return (f"What run {saved.get_output('runId')} made in workspace {name} is destroyed.",)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        return build_rollback_check(TerraformCloud(context, self.connector))


def _resolve_text(context: StepContext, text: str) -> str:
    return render_expressions(text, context.resolve_expression)


def _refuse_workspace(context: StepContext, workspace: TerraformCloudWorkspace) -> None:
    if workspace.execution_mode == "local":
        raise ActionFailed(
            "WORKSPACE_IS_LOCAL",
            f"Workspace {workspace} only keeps state: set its execution mode to remote or agent.",
        )
    if not workspace.can_queue:
        raise ActionFailed(
            "ACCESS_DENIED",
            f"The connector's token cannot create runs in workspace {workspace}: give its user or team the "
            "permission to plan or to write.",
        )
    if workspace.is_locked:
        context.log(f"Workspace {workspace} is locked: the run waits until it is unlocked", "warning")


def _get_created_run(cloud: TerraformCloud) -> TerraformCloudRun | None:
    """Return the run that this step created, if its id is known."""
    run_id = str(cloud.context.get_output("runId") or "")
    return cloud.run(run_id) if run_id else None


def _find_run_to_undo(cloud: TerraformCloud) -> TerraformCloudRun | None:
    """Return the newest run of this step that may have applied something, of all attempts."""
    run = _get_created_run(cloud)
    if run is not None and run.may_have_applied:
        return run
    earlier = str(cloud.context.load_for_rollback("applied by an earlier attempt") or "")
    return cloud.run(earlier) if earlier else None


def close_open_run(cloud: TerraformCloud, run: TerraformCloudRun) -> None:
    """Discard or cancel a run that is open."""
    if run.is_over or not (run.is_discardable or run.is_cancelable):
        return
    verb = "discard" if run.is_discardable else "cancel"
    if cloud.post_action(("runs", run.id, "actions", verb), "Discarded by Slipway"):
        cloud.context.log(
            f"Run {run.id} is {'discarded' if verb == 'discard' else 'asked to stop'}", "warning"
        )
