"""Actions on a planned run: find, override policies, confirm, read outputs, discard."""

import json
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import StepContext
from steps.actions.terraform_cloud.api import (
    Document,
    TerraformCloud,
    TerraformCloudRun,
    confirm_terraform_cloud_call,
)
from steps.actions.terraform_cloud.progress import copy_log, log_run_status, refuse_ended_run
from steps.actions.terraform_cloud.run_creation import close_open_run
from steps.expressions import render_expressions

RUN_STEP_TYPE = "TerraformCloudRun"


@action
@dataclass(frozen=True)
class FindTerraformCloudRun(Action):
    """Take up a run: the one that is named, or that the step before this one planned."""

    repeats = True

    connector: str
    run: str = ""
    provisioner: str = ""

    @property
    def title(self) -> str:
        return "Find the planned run"

    def start(self, context: StepContext) -> None:
        cloud = TerraformCloud(context, self.connector)
        run = cloud.run(render_expressions(self.run, context.resolve_expression) or self._planned(context))
        if run.is_over and run.status != "planned_and_finished":
            raise ActionFailed("RUN_ENDED", f"Run {run.id} {run.words}: plan again.")
        workspace = run.raw.get("relationships", {}).get("workspace", {}).get("data", {}).get("id", "")
        context.log(f"Run {run.id} {run.words}")
        context.set_outputs(runId=run.id, workspaceId=str(workspace))

    def _planned(self, context: StepContext) -> str:
        earlier = context.get_earlier_step(RUN_STEP_TYPE)
        if earlier is None:
            raise ActionFailed(
                "NO_PLAN", "No earlier step has planned a run: add one with the run type Plan."
            )
        named = str(earlier.get_output("provisionerIdentifier") or "")
        if self.provisioner and named and named != self.provisioner:
            raise ActionFailed(
                "NO_PLAN",
                f"The last plan is of {named}, not of {self.provisioner}: name its run as runId, such as "
                "<+steps.IDENTIFIER.output.runId>.",
            )
        # A preview knows none, and asks for nothing; a step that was ignored may have made none.
        return str(earlier.get_output("runId") or "no-run")


@action
@dataclass(frozen=True)
class OverrideTerraformCloudPolicies(Action):
    """Override the policies that a run broke, as far as the token may, and wait until the run goes on."""

    again_with = ("CreateTerraformCloudRun",)

    connector: str

    @property
    def title(self) -> str:
        return "Override policies"

    def start(self, context: StepContext) -> None:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            return
        cloud = TerraformCloud(context, self.connector)
        if not cloud.run(run_id).is_undecided:
            return
        for path in (*self._checks(cloud, run_id), *self._stages(cloud, run_id)):
            if cloud.act((*path, "actions", "override"), ""):
                context.log(f"Policy check {path[1]} is overridden", "warning")

    def _checks(self, cloud: TerraformCloud, run_id: str) -> list[tuple[str, str]]:
        checks = cloud.listed(("runs", run_id, "policy-checks"), "the policy checks of the run")
        return [("policy-checks", str(one.get("id"))) for one in checks if _is_allowed(one, "is-overridable")]

    def _stages(self, cloud: TerraformCloud, run_id: str) -> list[tuple[str, str]]:
        stages = cloud.listed(("runs", run_id, "task-stages"), "the tasks of the run")
        waiting = [one for one in stages if _get_policy_attributes(one).get("status") == "awaiting_override"]
        return [("task-stages", str(one.get("id"))) for one in waiting]

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_terraform_cloud_call(context, self.connector, call, "")

    def is_done(self, context: StepContext) -> bool:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            # A preview, which makes none.
            return True
        run = TerraformCloud(context, self.connector).run(run_id)
        refuse_ended_run(run, "plan")
        if run.is_undecided:
            since = context.progress.setdefault("undecided", 0) + 1
            context.progress["undecided"] = since
            if since > _OVERRIDE_READS:
                raise ActionFailed(
                    "POLICY_FAILED",
                    f"Run {run.id} {run.words}, and this token may not override it: give its team the "
                    "permission to manage policy overrides.",
                )
        return run.is_over or run.is_confirmable or run.may_have_applied


# Looks at a run that should have gone on.
_OVERRIDE_READS = 5


def _is_allowed(one: Document, name: str) -> bool:
    actions = _get_policy_attributes(one).get("actions")
    return isinstance(actions, dict) and actions.get(name) is True


def _get_policy_attributes(one: Document) -> dict[str, object]:
    found = one.get("attributes")
    return dict(found) if isinstance(found, dict) else {}


@action
@dataclass(frozen=True)
class ConfirmTerraformCloudRun(Action):
    """Confirm the run that was planned; where nothing changes there is nothing to confirm."""

    again_with = ("CreateTerraformCloudRun", "OverrideTerraformCloudPolicies")

    connector: str

    @property
    def title(self) -> str:
        return "Apply in Terraform Cloud"

    def start(self, context: StepContext) -> None:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            return
        cloud = TerraformCloud(context, self.connector)
        run = cloud.run(run_id)
        if not run.is_confirmable:
            return
        if cloud.act(("runs", run_id, "actions", "apply"), "Confirmed by Slipway"):
            context.log(f"Run {run_id} is confirmed")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_terraform_cloud_call(context, self.connector, call, "")

    def is_done(self, context: StepContext) -> bool:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            # A preview, which makes none.
            return True
        cloud = TerraformCloud(context, self.connector)
        run = cloud.run(run_id)
        log_run_status(context, run)
        if run.is_undecided:
            raise ActionFailed(
                "POLICY_FAILED",
                f"Run {run.id} {run.words}: decide about it in Terraform Cloud, and try again.",
            )
        if run.may_have_applied and not copy_log(cloud, run.apply, is_over=run.is_over):
            return False
        refuse_ended_run(run, "apply")
        if run.is_over:
            context.set_outputs(applyStatus="APPLIED" if run.status == "applied" else "NOTHING_TO_APPLY")
        return run.is_over


OUTPUT_LIMIT = 200
STORED_CHARACTERS = 16_000
SHOWN_CHARACTERS = 200


@action
@dataclass(frozen=True)
class ReadTerraformCloudOutputs(Action):
    """Read the outputs of the workspace's current state; sensitive ones are secrets."""

    repeats = True

    connector: str

    @property
    def title(self) -> str:
        return "Read outputs"

    def start(self, context: StepContext) -> None:
        workspace = str(context.get_output("workspaceId") or "")
        if not workspace:
            return
        cloud = TerraformCloud(context, self.connector)
        path = ("workspaces", workspace, "current-state-version-outputs")
        listed = cloud.listed(path, "the outputs of the workspace")
        if len(listed) > OUTPUT_LIMIT:
            context.log(f"Only the first {OUTPUT_LIMIT} of {len(listed)} outputs are kept", "warning")
        for one in listed[:OUTPUT_LIMIT]:
            self._keep(cloud, one)

    def _keep(self, cloud: TerraformCloud, one: Document) -> None:
        attributes = _get_output_attributes(one)
        name, is_secret = str(attributes.get("name", "")), attributes.get("sensitive") is True
        value = attributes.get("value")
        if is_secret and value is None:
            path = ("state-version-outputs", str(one.get("id")))
            value = _get_output_attributes(cloud.get(path, f"the output {name}").get("data")).get("value")
        text = _format_output(value)
        if len(text) > STORED_CHARACTERS:
            raise ActionFailed(
                "OUTPUTS_TOO_LARGE", f"Output {name} has more than {STORED_CHARACTERS:,} characters."
            )
        cloud.context.set_output(name, text, is_secret=is_secret)
        shown = "(sensitive)" if is_secret else text[:SHOWN_CHARACTERS]
        cloud.context.log(f"Output {name} = {shown}")


def _get_output_attributes(one: Any) -> dict[str, Any]:
    found = one.get("attributes") if isinstance(one, dict) else None
    return dict(found) if isinstance(found, dict) else {}


def _format_output(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_END_TIMEOUT = timedelta(minutes=5)


@action
@dataclass(frozen=True)
class EndTerraformCloudRun(Action):
    """Discard or cancel the run where it is still open; `keeps` one that is planned, for a later step."""

    runs_always = True

    connector: str
    keeps: bool = False

    @property
    def title(self) -> str:
        return "Close open runs"

    def start(self, context: StepContext) -> None:
        cloud = TerraformCloud(context, self.connector)
        run = self._run(cloud)
        if run is None or run.is_over or (self.keeps and context.get_output("planStatus")):
            return
        context.set_outputs(endedRunId=run.id)
        close_open_run(cloud, run)

    def _run(self, cloud: TerraformCloud) -> TerraformCloudRun | None:
        context = cloud.context
        if run_id := str(context.get_output("runId") or ""):
            return cloud.run(run_id)
        message = context.load_for_rollback("asked run")
        if not message:
            return None
        # Its answer was lost, and nobody has asked since.
        runs = cloud.runs(str(context.load_for_rollback("workspace")))
        return next((one for one in runs if one.message == message), None)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_terraform_cloud_call(context, self.connector, call, "")

    def is_done(self, context: StepContext) -> bool:
        ended = str(context.get_output("endedRunId") or "")
        if not ended or TerraformCloud(context, self.connector).run(ended).is_over:
            return True
        since = context.progress.setdefault("since", context.now().isoformat())
        if context.now() - datetime.fromisoformat(since) < _END_TIMEOUT:
            return False
        context.log(f"Run {ended} has not finished yet: check it in Terraform Cloud", "warning")
        return True
