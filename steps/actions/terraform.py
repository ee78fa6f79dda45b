"""Terraform and Terragrunt: parameters of a run, and the actions plan, apply and destroy."""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.confirmations import Applied, CallRecord, Confirmation
from steps.actions.context import EarlierStep, PlannedRun, StepContext
from steps.actions.non_aws_calls import WORKER_LOST, TerraformRunResult
from steps.expressions import format_value, parse_secret_reference
from steps.variables import SECRET_TYPE, ScriptEnvironment

TERRAFORM_CONFIGURATION = "TerraformConfiguration"
TERRAFORM, TERRAGRUNT = "terraform", "terragrunt"
TITLES = {TERRAFORM: "Terraform", TERRAGRUNT: "Terragrunt"}
# What a configuration that is written in the step itself is called on disk.
_MAIN_FILES = {TERRAFORM: "main.tf", TERRAGRUNT: "terragrunt.hcl"}
_FILE_SUFFIXES = {
    TERRAFORM: (".tf", ".tf.json", ".tofu"),
    TERRAGRUNT: ("terragrunt.hcl", "terragrunt.hcl.json"),
}
_EXPRESSION_PATTERN = re.compile(r"<\+((?:[^<>\"]|\"[^\"]*\")*)>")
_HCL_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class TerraformSettings:
    """What a step says of a run. `variables` and `environment` are [name, type, value] each."""

    folder: str = ""
    workspace: str = ""
    variables: list[list[str]] = field(default_factory=list)
    environment: list[list[str]] = field(default_factory=list)
    variable_files: list[str] = field(default_factory=list)
    variable_text: str = ""
    backend: str = ""
    targets: list[str] = field(default_factory=list)


def build_run_parameters(program: str, asked: TerraformSettings, context: StepContext) -> dict[str, Any]:
    """Return the parameters of a run, with expressions filled in and secrets as references.

    Raises `ActionFailed` for a folder that cannot be told, or an expression that names nothing.
    """
    files = {
        path or _MAIN_FILES[program]: text
        for path, text in context.step_inputs.load_program_files(TERRAFORM_CONFIGURATION).items()
    }
    environment = ScriptEnvironment(context.resolve_expression)
    for listed, prefix in ((asked.variables, "TF_VAR_"), (asked.environment, "")):
        for name, kind, value in listed:
            if kind == SECRET_TYPE:
                environment.secrets[prefix + name] = value
            else:
                environment.add(prefix + name, value)
    return {
        "program": program,
        "files": files,
        "folder": asked.folder.strip("/") or find_folder(program, files),
        "workspace": asked.workspace,
        "environment": environment.values,
        "secrets": {f"environment.{name}": ref for name, ref in environment.secrets.items()},
        "inputs": {
            "backend": render_hcl(asked.backend, context),
            "variables": render_hcl(asked.variable_text, context),
        },
        "variable_files": list(asked.variable_files),
        "targets": list(asked.targets),
    }


def find_folder(program: str, files: Mapping[str, str]) -> str:
    """Return the folder to run in: the highest that holds files of the program. Raises `ActionFailed`."""
    ends = _FILE_SUFFIXES[program]
    found = {str(PurePosixPath(path).parent) for path in files if path.endswith(ends)}
    if not found:
        raise ActionFailed(
            "CONFIGURATION_MISSING",
            f"None of the {len(files)} files is one of {TITLES[program]} ({', '.join(ends)}). "
            "Set configFiles to the folder that contains them.",
        )
    depths = {folder: len(PurePosixPath(folder).parts) for folder in found}
    highest = sorted(folder for folder, depth in depths.items() if depth == min(depths.values()))
    if len(highest) > 1:
        raise ActionFailed(
            "FOLDER_UNCLEAR",
            f"Several folders hold a configuration: {', '.join(highest[:10])}. Name one as folderPath.",
        )
    return highest[0]


def render_hcl(text: str, context: StepContext) -> str:
    """Return a text of HCL with its expressions filled in, escaped as within double quotes.

    Raises `ActionFailed` for a secret: it would stand in a file.
    """

    def filled(match: "re.Match[str]") -> str:
        if parse_secret_reference(match[0]):
            raise ActionFailed(
                "SECRET_IN_FILE",
                f"{match[0]} would be written into a file. Give the secret as a variable, or as an "
                "environment variable, of type Secret.",
            )
        return escape_hcl(format_value(context.resolve_expression(match[1].strip())))

    return _EXPRESSION_PATTERN.sub(filled, text)


def escape_hcl(text: str) -> str:
    """Return a text as it stands between double quotes in HCL: never the end of them, never a template."""
    escaped = "".join(_HCL_ESCAPES.get(one, one) for one in text)
    return escaped.replace("${", "$${").replace("%{", "%%{")


def normalize_variables(variables: Sequence[Mapping[str, Any]], default: str) -> list[list[str]]:
    """Variables as people write them, as [name, type, value]."""
    return [
        [str(one["name"]), str(one.get("type", default)), _format_variable(one.get("value", ""))]
        for one in variables
    ]


def _format_variable(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)


INLINE, FROM_PLAN, FROM_APPLY = "Inline", "InheritFromPlan", "InheritFromApply"
_WORKER_LOST_MESSAGE = "The worker that asked for it was lost before it recorded the task."


@dataclass(frozen=True)
class TerraformAction(Action):
    """One run of Terraform, or of Terragrunt; `identifier` names what it makes, across executions."""

    repeats = True

    identifier: str
    program: str = TERRAFORM
    configuration: str = INLINE
    asked: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return TITLES[self.program]

    def own(self, context: StepContext) -> dict[str, Any]:
        """Return the parameters of a run with what the step itself says."""
        return build_run_parameters(self.program, TerraformSettings(**self.asked), context)

    def run(
        self, context: StepContext, command: str, used: Mapping[str, Any], **more: Any
    ) -> TerraformRunResult:
        """Let a delegate do it; a good end or not, it is over then."""
        return context.work.run_terraform({**used, "command": command, **more})

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        """Nothing shows how far it came, so it counts as one that may have changed something."""
        return Applied({"ended": WORKER_LOST, "reason": _WORKER_LOST_MESSAGE, "begun": True})

    def refuse_failure(self, end: TerraformRunResult, command: str) -> None:
        """Raises `ActionFailed` saying what is known, and what to do."""
        if end.is_good:
            return
        if end.ended == WORKER_LOST:
            raise ActionFailed(
                "DELEGATE_LOST",
                f"{end.reason or 'The delegate was lost.'} It is unknown how far {self.program} {command} "
                "got; it is not retried automatically. The log above ends at the last received line. "
                "Its state may still be locked: the next run names the lock, and where no other run is under "
                f"way, {self.program} force-unlock with its ID opens it.",
            )
        what = f"{self.program} {end.command or command}"
        how = {"STOPPED": "was stopped", "TIMED_OUT": "did not end in time and was stopped"}.get(
            end.ended, f"ended with exit code {end.exit_code}"
        )
        code = {"STOPPED": "TASK_ABORTED", "TIMED_OUT": "TIMED_OUT"}.get(end.ended, "TERRAFORM_FAILED")
        why = f": {end.errors[0]}" if end.errors else ". See its output above."
        unlock = (
            f"\nWhere no other run is under way, unlock the state: {self.program} force-unlock {end.lock_id}"
            if end.lock_id
            else ""
        )
        raise ActionFailed(code, f"{what} {how}{why}{unlock}", exit_code=end.exit_code or None)


def format_changes(end: TerraformRunResult) -> str:
    """Return how much was changed, in words."""
    said = {"add": "added", "change": "changed", "destroy": "destroyed"}
    return ", ".join(f"{end.counts.get(name, 0)} {word}" for name, word in said.items())


_LOCK_FILE = ".terraform.lock.hcl"


def get_stored_plan(context: StepContext, identifier: str, *, destroys: bool) -> PlannedRun:
    """The plan that this execution has made. Raises `ActionFailed` where there is none, or another sort."""
    found = context.provisions.plan(identifier)
    if found is None:
        raise ActionFailed(
            "PLAN_MISSING",
            f"No earlier step has planned {identifier}, or its plan was applied already. Plan it "
            "with the same provisionerIdentifier before.",
        )
    if found.destroys not in (None, destroys):
        raise ActionFailed(
            "PLAN_OF_ANOTHER_SORT",
            f"The plan of {identifier} is to {'destroy' if found.destroys else 'apply'}. "
            "Change command of the step that plans.",
        )
    return found


def build_repeated_parameters(used: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an earlier run for another one, which takes the same versions of providers."""
    rest = {name: one for name, one in used.items() if name != "lock"}
    if not used.get("lock"):
        return rest
    path = str(PurePosixPath(str(used["folder"])) / _LOCK_FILE)
    return {**rest, "files": {**used["files"], path: used["lock"]}}


@action
@dataclass(frozen=True)
class PlanTerraform(TerraformAction):
    """Plan, export the counts and the plan as people read it, and keep its file."""

    destroys: bool = False

    @property
    def title(self) -> str:
        return f"Plan with {self.name}"

    def start(self, context: StepContext) -> None:
        used = self.own(context)
        context.log(f"Planning {'the end of ' * self.destroys}{self.identifier} with {self.name}")
        end = self.run(context, "plan", used, destroys=self.destroys)
        self.refuse_failure(end, "plan")
        lock = {"lock": end.lock} if end.lock else {}
        context.provisions.keep_plan(self.identifier, {**used, **lock}, end.plan, destroys=self.destroys)
        counts = {name: int(end.counts.get(name, 0)) for name in ("add", "change", "destroy", "import")}
        context.set_outputs(**counts, hasChanges=any(counts.values()))
        context.set_output("humanReadablePlan", end.words)
        context.log(
            f"Planned: {counts['add']} to add, {counts['change']} to change, {counts['destroy']} to destroy"
        )


@action
@dataclass(frozen=True)
class ApplyTerraform(TerraformAction):
    """Apply a configuration, or a plan; its undo applies what was applied before, or destroys."""

    has_undo = True

    @property
    def title(self) -> str:
        return f"Apply with {self.name}"

    def start(self, context: StepContext) -> None:
        plan = (
            get_stored_plan(context, self.identifier, destroys=False)
            if self.configuration == FROM_PLAN
            else None
        )
        used = context.save_for_rollback("used", dict(plan.used) if plan else self.own(context))
        before = context.provisions.latest(self.identifier)
        before_id = context.save_for_rollback("before", before.id if before else "")
        context.log(
            f"Applying {f'the plan of {self.identifier}' if plan else self.identifier} with {self.name}"
        )
        more = {"plan_id": plan.id} if plan else {}
        end = self.run(
            context, "apply", build_repeated_parameters(used), asks_what_is_there=not before_id, **more
        )
        if end.begun:
            context.save_for_rollback("begun", True)
        if end.holds_resources is not None:
            context.save_for_rollback("held resources", end.holds_resources)
        self.refuse_failure(end, "apply")
        context.save_for_rollback("kept", context.provisions.keep(self.identifier, used))
        if plan:
            context.provisions.free_plan(plan.id)
        set_terraform_outputs(context, end.outputs)
        context.log(f"Applied {self.identifier}: {format_changes(end)}")

    # --- going back -------------------------------------------------------------------------------

    def may_undo(self, context: StepContext) -> bool:
        """Raises `ChangedByOthers` where somebody has applied it since."""
        latest = context.provisions.latest(self.identifier)
        if latest is not None and latest.id not in (
            context.load_for_rollback("kept"),
            context.load_for_rollback("before"),
        ):
            raise ChangedByOthers(
                f"{self.identifier} was applied by {latest.by} since. Nothing was changed: roll back there "
                f"first, or apply the required configuration."
            )
        return True

    def undo(self, context: StepContext) -> None:
        if not context.load_for_rollback("begun"):
            context.log(f"Nothing of {self.identifier} was changed, so there is nothing to restore")
            return
        if before := context.load_for_rollback("before"):
            self._apply(context, before)
        else:
            self._destroy(context)
        context.provisions.forget(self.identifier, after=before or "")

    def _apply(self, context: StepContext, before: str) -> None:
        earlier = context.provisions.find(before)
        if earlier is None:
            raise ActionFailed(
                "NOT_KNOWN",
                f"What was applied as {self.identifier} before is no longer stored: apply it manually.",
            )
        context.log(f"Applying what {earlier.by} had applied as {self.identifier}")
        self._done(self.run(context, "apply", build_repeated_parameters(earlier.used)), "apply", context)

    def _destroy(self, context: StepContext) -> None:
        if context.load_for_rollback("held resources") is not False:
            raise ActionFailed(
                "NOT_MADE_HERE",
                f"Slipway knows of no earlier apply of {self.identifier}, and its state held resources "
                "before, or may have. They are not destroyed: restore them manually, or destroy them with a "
                "separate step.",
            )
        context.log(f"Destroying {self.identifier}: it did not exist before")
        self._done(
            self.run(context, "destroy", build_repeated_parameters(context.load_for_rollback("used"))),
            "destroy",
            context,
        )

    def _done(self, end: TerraformRunResult, command: str, context: StepContext) -> None:
        self.refuse_failure(end, command)
        context.log(f"Restored {self.identifier}: {format_changes(end)}")

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        if saved.load_for_rollback("before"):
            return (f"Apply what was applied as {self.identifier} before",)
        return (f"Destroy {self.identifier}",)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        if not context.load_for_rollback("begun"):
            return []
        wanted = context.load_for_rollback("before") or ""
        latest = context.provisions.latest(self.identifier)
        found = f"what {latest.by} applied" if latest else "destroyed"
        ok = (latest.id if latest else "") == wanted
        return [
            ChecklistEntry(
                self.identifier, "the previously applied configuration" if wanted else "destroyed", found, ok
            )
        ]


def set_terraform_outputs(context: StepContext, outputs: Mapping[str, Mapping[str, Any]]) -> None:
    """Hand on the outputs of a run; what is no text keeps its type, unless it is a secret."""
    typed: dict[str, Any] = {}
    for name, one in outputs.items():
        value, is_secret = one.get("value"), bool(one.get("is_secret"))
        if is_secret or isinstance(value, str):
            text = value if isinstance(value, str) else json.dumps(value)
            context.set_output(name, text, is_secret=is_secret)
        else:
            typed[name] = value
    context.set_outputs(**typed)


@action
@dataclass(frozen=True)
class DestroyTerraform(TerraformAction):
    """Destroy by a configuration, by a plan to destroy, or by what was applied last. It has no undo."""

    @property
    def title(self) -> str:
        return f"Destroy with {self.name}"

    def start(self, context: StepContext) -> None:
        plan = (
            get_stored_plan(context, self.identifier, destroys=True)
            if self.configuration == FROM_PLAN
            else None
        )
        used = context.save_for_rollback("used", dict(plan.used) if plan else self._used(context))
        context.log(f"Destroying {self.identifier} with {self.name}")
        end = self.run(
            context, "destroy", build_repeated_parameters(used), **({"plan_id": plan.id} if plan else {})
        )
        self.refuse_failure(end, "destroy")
        context.provisions.forget(self.identifier)
        context.set_outputs(destroyed=int(end.counts.get("destroy", 0)))
        if plan:
            context.provisions.free_plan(plan.id)
        context.log(f"Destroyed {self.identifier}: {format_changes(end)}")

    def _used(self, context: StepContext) -> dict[str, Any]:
        if self.configuration != FROM_APPLY:
            return self.own(context)
        latest = context.provisions.latest(self.identifier)
        if latest is None:
            raise ActionFailed(
                "NOTHING_APPLIED",
                f"Nothing is applied as {self.identifier} in this scope. Check provisionerIdentifier, or "
                f"provide the configuration.",
            )
        return dict(latest.used)
