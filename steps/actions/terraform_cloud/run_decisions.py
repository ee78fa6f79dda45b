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
    """Find the run that the step names, or that the step before this one planned."""

    repeats = True

    connector: str
    run: str = ""
    provisioner: str = ""

    @property
    def title(self) -> str:
        return "Find the planned run"

    def start(self, context: StepContext) -> None:
        cloud = TerraformCloud(context, self.connector)
        run = cloud.run(
            render_expressions(self.run, context.resolve_expression) or self._get_planned_run_id(context)
        )
        if run.is_over and run.status != "planned_and_finished":
            raise ActionFailed("RUN_ENDED", f"Run {run.id} {run.status_text}: plan again.")
        workspace = run.raw.get("relationships", {}).get("workspace", {}).get("data", {}).get("id", "")
        context.log(f"Run {run.id} {run.status_text}")
        context.set_outputs(runId=run.id, workspaceId=str(workspace))

    def _get_planned_run_id(self, context: StepContext) -> str:
        earlier = context.get_earlier_step(RUN_STEP_TYPE)
        if earlier is None:
            raise ActionFailed(
                "NO_PLAN", "No earlier step has planned a run: add one with the run type Plan."
            )
        planned_identifier = str(earlier.get_output("provisionerIdentifier") or "")
        if self.provisioner and planned_identifier and planned_identifier != self.provisioner:
            raise ActionFailed(
                "NO_PLAN",
                f"The last plan is of {planned_identifier}, not of {self.provisioner}: name its run as "
                "runId, such as <+steps.IDENTIFIER.output.runId>.",
            )
        # A preview and an ignored step have created no run.
        return str(earlier.get_output("runId") or "no-run")


@action
@dataclass(frozen=True)
class OverrideTerraformCloudPolicies(Action):
    """Override the broken policies that the token may override, and wait until the run continues."""

    repeated_with = ("CreateTerraformCloudRun",)

    connector: str

    @property
    def title(self) -> str:
        return "Override policies"

    def start(self, context: StepContext) -> None:
        self.write(context)

    def write(self, context: StepContext) -> None:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            return
        cloud = TerraformCloud(context, self.connector)
        if not cloud.run(run_id).is_undecided:
            return
        for path in (
            *self._list_overridable_checks(cloud, run_id),
            *self._list_waiting_stages(cloud, run_id),
        ):
            if cloud.post_action((*path, "actions", "override"), ""):
                context.log(f"Policy check {path[1]} is overridden", "warning")

    def _list_overridable_checks(self, cloud: TerraformCloud, run_id: str) -> list[tuple[str, str]]:
        checks = cloud.list_documents(("runs", run_id, "policy-checks"), "the policy checks of the run")
        return [
            ("policy-checks", str(check.get("id")))
            for check in checks
            if _is_allowed(check, "is-overridable")
        ]

    def _list_waiting_stages(self, cloud: TerraformCloud, run_id: str) -> list[tuple[str, str]]:
        stages = cloud.list_documents(("runs", run_id, "task-stages"), "the tasks of the run")
        waiting = [
            stage for stage in stages if _get_policy_attributes(stage).get("status") == "awaiting_override"
        ]
        return [("task-stages", str(stage.get("id"))) for stage in waiting]

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_terraform_cloud_call(context, self.connector, call, "")

    def is_done(self, context: StepContext) -> bool:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            # A preview creates no run.
            return True
        run = TerraformCloud(context, self.connector).run(run_id)
        refuse_ended_run(run, "plan")
        if run.is_undecided:
            read_count = context.progress.setdefault("undecided", 0) + 1
            context.progress["undecided"] = read_count
            if read_count == 1:
                # The run may not have been planned yet when this action started.
                context.request_write()
            if read_count > _OVERRIDE_READS:
                raise ActionFailed(
                    "POLICY_FAILED",
                    f"Run {run.id} {run.status_text}, and this token may not override it: give its team the "
                    "permission to manage policy overrides.",
                )
        return run.is_over or run.is_confirmable or run.may_have_applied


# Number of reads after which an override counts as refused.
_OVERRIDE_READS = 5


def _is_allowed(document: Document, name: str) -> bool:
    actions = _get_policy_attributes(document).get("actions")
    return isinstance(actions, dict) and actions.get(name) is True


def _get_policy_attributes(document: Document) -> dict[str, object]:
    attributes = document.get("attributes")
    return dict(attributes) if isinstance(attributes, dict) else {}


@action
@dataclass(frozen=True)
class ConfirmTerraformCloudRun(Action):
    """Confirm the planned run; a run without changes needs no confirmation."""

    repeated_with = ("CreateTerraformCloudRun", "OverrideTerraformCloudPolicies")

    connector: str

    @property
    def title(self) -> str:
        return "Apply in Terraform Cloud"

    def start(self, context: StepContext) -> None:
        self.write(context)

    def write(self, context: StepContext) -> None:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            return
        cloud = TerraformCloud(context, self.connector)
        run = cloud.run(run_id)
        if not run.is_confirmable:
            return
        if cloud.post_action(("runs", run_id, "actions", "apply"), "Confirmed by Slipway"):
            context.log(f"Run {run_id} is confirmed")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_terraform_cloud_call(context, self.connector, call, "")

    def is_done(self, context: StepContext) -> bool:
        run_id = str(context.get_output("runId") or "")
        if not run_id:
            # A preview creates no run.
            return True
        cloud = TerraformCloud(context, self.connector)
        run = cloud.run(run_id)
        log_run_status(context, run)
        if run.is_undecided:
            raise ActionFailed(
                "POLICY_FAILED",
                f"Run {run.id} {run.status_text}: decide about it in Terraform Cloud, and try again.",
            )
        if run.is_confirmable and context.progress.get("confirmable") != run.status:
            # It was still being planned when this action started. One request for each status is enough.
            context.progress["confirmable"] = run.status
            context.request_write()
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
        outputs = cloud.list_documents(path, "the outputs of the workspace")
        if len(outputs) > OUTPUT_LIMIT:
            context.log(f"Only the first {OUTPUT_LIMIT} of {len(outputs)} outputs are kept", "warning")
        for output in outputs[:OUTPUT_LIMIT]:
            self._set_output(cloud, output)

    def _set_output(self, cloud: TerraformCloud, output: Document) -> None:
        attributes = _get_output_attributes(output)
        name, is_secret = str(attributes.get("name", "")), attributes.get("sensitive") is True
        value = attributes.get("value")
        if is_secret and value is None:
            path = ("state-version-outputs", str(output.get("id")))
            value = _get_output_attributes(cloud.get(path, f"the output {name}").get("data")).get("value")
        text = _format_output(value)
        if len(text) > STORED_CHARACTERS:
            raise ActionFailed(
                "OUTPUTS_TOO_LARGE", f"Output {name} has more than {STORED_CHARACTERS:,} characters."
            )
        cloud.context.set_output(name, text, is_secret=is_secret)
        displayed = "(sensitive)" if is_secret else text[:SHOWN_CHARACTERS]
        cloud.context.log(f"Output {name} = {displayed}")


def _get_output_attributes(output: Any) -> dict[str, Any]:
    attributes = output.get("attributes") if isinstance(output, dict) else None
    return dict(attributes) if isinstance(attributes, dict) else {}


def _format_output(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


_END_TIMEOUT = timedelta(minutes=5)


@action
@dataclass(frozen=True)
class EndTerraformCloudRun(Action):
    """Discard or cancel the run if it is still open; `keeps` leaves a planned one for a later step."""

    runs_always = True

    connector: str
    keeps: bool = False

    @property
    def title(self) -> str:
        return "Close open runs"

    def start(self, context: StepContext) -> None:
        cloud = TerraformCloud(context, self.connector)
        run = self._find_run(cloud)
        if run is None or run.is_over or (self.keeps and context.get_output("planStatus")):
            return
        context.set_outputs(endedRunId=run.id)
        close_open_run(cloud, run)

    def _find_run(self, cloud: TerraformCloud) -> TerraformCloudRun | None:
        context = cloud.context
        if run_id := str(context.get_output("runId") or ""):
            return cloud.run(run_id)
        message = context.load_for_rollback("run message")
        if not message:
            return None
        # The answer to the creation was lost and never confirmed.
        runs = cloud.runs(str(context.load_for_rollback("workspace")))
        return next((run for run in runs if run.message == message), None)

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_terraform_cloud_call(context, self.connector, call, "")

    def is_done(self, context: StepContext) -> bool:
        run_id = str(context.get_output("endedRunId") or "")
        if not run_id or TerraformCloud(context, self.connector).run(run_id).is_over:
            return True
        since = context.progress.setdefault("since", context.now().isoformat())
        if context.now() - datetime.fromisoformat(since) < _END_TIMEOUT:
            return False
        context.log(f"Run {run_id} has not finished yet: check it in Terraform Cloud", "warning")
        return True
