"""Terraform and Terragrunt: parameters of a run, and the actions plan, apply and destroy."""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from connectors.secret_expressions import parse_secret_reference
from steps.actions.base import Action, ActionFailed, ChangedByOthers, ChecklistEntry, action
from steps.actions.confirmations import Applied, CallRecord, Confirmation
from steps.actions.context import AppliedRun, EarlierStep, PlannedRun, StepContext
from steps.actions.non_aws_calls import WORKER_LOST, TerraformRunResult
from steps.expressions import format_value
from steps.variables import SECRET_TYPE, ScriptEnvironment

TERRAFORM_CONFIGURATION = "TerraformConfiguration"
TERRAFORM, TERRAGRUNT = "terraform", "terragrunt"
TITLES = {TERRAFORM: "Terraform", TERRAGRUNT: "Terragrunt"}
# File name of an inline configuration.
_MAIN_FILES = {TERRAFORM: "main.tf", TERRAGRUNT: "terragrunt.hcl"}
_FILE_SUFFIXES = {
    TERRAFORM: (".tf", ".tf.json", ".tofu"),
    TERRAGRUNT: ("terragrunt.hcl", "terragrunt.hcl.json"),
}
_EXPRESSION_PATTERN = re.compile(r"<\+((?:[^<>\"]|\"[^\"]*\")*)>")
_HCL_ESCAPES = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}


@dataclass(frozen=True)
class TerraformSettings:
    """Settings of a run. `variables` and `environment` are lists of [name, type, value]."""

    folder: str = ""
    workspace: str = ""
    variables: list[list[str]] = field(default_factory=list)
    environment: list[list[str]] = field(default_factory=list)
    variable_files: list[str] = field(default_factory=list)
    variable_text: str = ""
    backend: str = ""
    targets: list[str] = field(default_factory=list)


def build_run_parameters(program: str, settings: TerraformSettings, context: StepContext) -> dict[str, Any]:
    """Return the parameters of a run, with resolved expressions and secrets as references.

    Raises `ActionFailed` for an ambiguous folder or an unknown expression.
    """
    files = {
        path or _MAIN_FILES[program]: text
        for path, text in context.step_inputs.load_program_files(TERRAFORM_CONFIGURATION).items()
    }
    environment = ScriptEnvironment(context.resolve_expression)
    for variables, prefix in ((settings.variables, "TF_VAR_"), (settings.environment, "")):
        for name, kind, value in variables:
            if kind == SECRET_TYPE:
                environment.secrets[prefix + name] = value
            else:
                environment.add(prefix + name, value)
    return {
        "program": program,
        "files": files,
        "folder": settings.folder.strip("/") or find_folder(program, files),
        "workspace": settings.workspace,
        "environment": environment.values,
        "secrets": {f"environment.{name}": ref for name, ref in environment.secrets.items()},
        "inputs": {
            "backend": render_hcl(settings.backend, context),
            "variables": render_hcl(settings.variable_text, context),
        },
        "variable_files": list(settings.variable_files),
        "targets": list(settings.targets),
    }


def get_state_key(used: Mapping[str, Any]) -> str:
    """Return a hash of the backend and workspace of a run, which tell its state from others."""
    lines = [line.strip() for line in used.get("inputs", {}).get("backend", "").splitlines()]
    state = [used.get("workspace") or "default", *filter(None, lines)]
    return hashlib.sha256(json.dumps(state).encode()).hexdigest()


def find_folder(program: str, files: Mapping[str, str]) -> str:
    """Return the folder to run in: the topmost one with files of the program. Raises `ActionFailed`."""
    suffixes = _FILE_SUFFIXES[program]
    folders = {str(PurePosixPath(path).parent) for path in files if path.endswith(suffixes)}
    if not folders:
        raise ActionFailed(
            "CONFIGURATION_MISSING",
            f"None of the {len(files)} files is one of {TITLES[program]} ({', '.join(suffixes)}). "
            "Set configFiles to the folder that contains them.",
        )
    depths = {folder: len(PurePosixPath(folder).parts) for folder in folders}
    topmost = sorted(folder for folder, depth in depths.items() if depth == min(depths.values()))
    if len(topmost) > 1:
        raise ActionFailed(
            "FOLDER_UNCLEAR",
            f"Several folders hold a configuration: {', '.join(topmost[:10])}. Name one as folderPath.",
        )
    return topmost[0]


def render_hcl(text: str, context: StepContext) -> str:
    """Return HCL text with resolved expressions, escaped for double quotes.

    Raises `ActionFailed` for a secret, which would be written to a file.
    """

    def resolve(match: "re.Match[str]") -> str:
        if parse_secret_reference(match[0]):
            raise ActionFailed(
                "SECRET_IN_FILE",
                f"{match[0]} would be written into a file. Give the secret as a variable, or as an "
                "environment variable, of type Secret.",
            )
        return escape_hcl(format_value(context.resolve_expression(match[1].strip())))

    return _EXPRESSION_PATTERN.sub(resolve, text)


def escape_hcl(text: str) -> str:
    """Return text escaped for double quotes in HCL, without templates."""
    escaped = "".join(_HCL_ESCAPES.get(character, character) for character in text)
    return escaped.replace("${", "$${").replace("%{", "%%{")


def normalize_variables(variables: Sequence[Mapping[str, Any]], default: str) -> list[list[str]]:
    """Return variables as lists of [name, type, value]."""
    return [
        [
            str(variable["name"]),
            str(variable.get("type", default)),
            format_value(variable.get("value", "")),
        ]
        for variable in variables
    ]


INLINE, FROM_PLAN, FROM_APPLY = "Inline", "InheritFromPlan", "InheritFromApply"
_WORKER_LOST_MESSAGE = "The worker that asked for it was lost before it recorded the task."


@dataclass(frozen=True)
class TerraformAction(Action):
    """One run of Terraform or Terragrunt; `identifier` names its infrastructure across executions."""

    repeats = True

    identifier: str
    program: str = TERRAFORM
    configuration: str = INLINE
    settings: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return TITLES[self.program]

    def build_parameters(self, context: StepContext) -> dict[str, Any]:
        """Return the parameters of a run from the step's own settings."""
        return build_run_parameters(self.program, TerraformSettings(**self.settings), context)

    def run(
        self, context: StepContext, command: str, used: Mapping[str, Any], **extra: Any
    ) -> TerraformRunResult:
        """Run the command at a delegate and return its result, successful or not."""
        return context.work.run_terraform({**used, "command": command, **extra})

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        """Return that the run was lost: it may have changed something."""
        return Applied({"ended": WORKER_LOST, "reason": _WORKER_LOST_MESSAGE, "begun": True})

    def refuse_failure(self, result: TerraformRunResult, command: str) -> None:
        """Raise `ActionFailed` unless the run succeeded, with the cause and the next action."""
        if result.is_good:
            return
        if result.ended == WORKER_LOST:
            raise ActionFailed(
                "DELEGATE_LOST",
                f"{result.reason or 'The delegate was lost.'} It is unknown how far {self.program} {command} "
                "got; it is not retried automatically. The log above ends at the last received line. "
                "Its state may still be locked: the next run names the lock, and where no other run is under "
                f"way, {self.program} force-unlock with its ID opens it.",
            )
        subject = f"{self.program} {result.command or command}"
        ending = {"STOPPED": "was stopped", "TIMED_OUT": "did not end in time and was stopped"}.get(
            result.ended, f"ended with exit code {result.exit_code}"
        )
        code = {"STOPPED": "TASK_ABORTED", "TIMED_OUT": "TIMED_OUT"}.get(result.ended, "TERRAFORM_FAILED")
        reason = f": {result.errors[0]}" if result.errors else ". See its output above."
        unlock = (
            f"\nWhere no other run is under way, unlock the state: {self.program} force-unlock "
            f"{result.lock_id}"
            if result.lock_id
            else ""
        )
        raise ActionFailed(code, f"{subject} {ending}{reason}{unlock}", exit_code=result.exit_code or None)


def format_changes(result: TerraformRunResult) -> str:
    """Return the number of changed resources in words."""
    verbs = {"add": "added", "change": "changed", "destroy": "destroyed"}
    return ", ".join(f"{result.counts.get(name, 0)} {verb}" for name, verb in verbs.items())


_LOCK_FILE = ".terraform.lock.hcl"


def get_stored_plan(context: StepContext, identifier: str, *, destroys: bool) -> PlannedRun:
    """Return the stored plan of this execution. Raises `ActionFailed` for none, or one of another kind."""
    plan = context.provisions.plan(identifier)
    if plan is None:
        raise ActionFailed(
            "PLAN_MISSING",
            f"No earlier step has planned {identifier} for this environment and infrastructure, or its plan "
            "was applied already. Plan it here with the same provisionerIdentifier before.",
        )
    if plan.destroys not in (None, destroys):
        raise ActionFailed(
            "PLAN_OF_ANOTHER_SORT",
            f"The plan of {identifier} is to {'destroy' if plan.destroys else 'apply'}. "
            "Change command of the step that plans.",
        )
    return plan


def build_repeated_parameters(used: Mapping[str, Any]) -> dict[str, Any]:
    """Return the parameters of an earlier run for a repetition with the same provider versions."""
    parameters = {name: value for name, value in used.items() if name != "lock"}
    if not used.get("lock"):
        return parameters
    path = str(PurePosixPath(str(used["folder"])) / _LOCK_FILE)
    return {**parameters, "files": {**used["files"], path: used["lock"]}}


@action
@dataclass(frozen=True)
class PlanTerraform(TerraformAction):
    """Plan, set the counts and the readable plan as outputs, and store the plan file."""

    destroys: bool = False

    @property
    def title(self) -> str:
        return f"Plan with {self.name}"

    def start(self, context: StepContext) -> None:
        used = self.build_parameters(context)
        context.log(f"Planning {'the end of ' * self.destroys}{self.identifier} with {self.name}")
        result = self.run(context, "plan", used, destroys=self.destroys)
        self.refuse_failure(result, "plan")
        lock = {"lock": result.lock} if result.lock else {}
        context.provisions.keep_plan(self.identifier, {**used, **lock}, result.plan, destroys=self.destroys)
        counts = {name: int(result.counts.get(name, 0)) for name in ("add", "change", "destroy", "import")}
        context.set_outputs(**counts, hasChanges=any(counts.values()))
        context.set_output("humanReadablePlan", result.words)
        context.log(
            f"Planned: {counts['add']} to add, {counts['change']} to change, {counts['destroy']} to destroy"
        )


# Output that is set by a successful undo.
_RESTORED_OUTPUT = "configurationRestored"
# Rollback data: what the first attempt that may have changed something found.
_BEGUN_KEY = "found by the attempt that began"


@action
@dataclass(frozen=True)
class ApplyTerraform(TerraformAction):
    """Apply a configuration or a plan; the undo applies the earlier configuration, or destroys."""

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
        used = context.save_for_rollback("used", dict(plan.used) if plan else self.build_parameters(context))
        before = context.provisions.latest(self.identifier, used)
        before_id = self._save_before(context, before)
        context.log(
            f"Applying {f'the plan of {self.identifier}' if plan else self.identifier} with {self.name}"
        )
        if not before and (unplaced := context.provisions.find_unplaced(self.identifier)):
            context.log(
                f"{unplaced.by} applied {self.identifier} in an environment that was not recorded. If it was "
                "this one, a rollback cannot return to it.",
                "warning",
            )
        plan_parameters = {"plan_id": plan.id} if plan else {}
        result = self.run(
            context,
            "apply",
            build_repeated_parameters(used),
            asks_what_is_there=not before_id,
            **plan_parameters,
        )
        if result.begun:
            context.save_for_rollback("begun", True)
            context.save_for_rollback(
                _BEGUN_KEY, {"before": before_id, "held_resources": result.holds_resources}
            )
        self.refuse_failure(result, "apply")
        context.save_for_rollback("kept", context.provisions.keep(self.identifier, used))
        if plan:
            context.provisions.free_plan(plan.id)
        set_terraform_outputs(context, result.outputs)
        context.log(f"Applied {self.identifier}: {format_changes(result)}")

    def _save_before(self, context: StepContext, latest: AppliedRun | None) -> str:
        """Return the id of what a rollback returns to: the latest apply before the first attempt that began.

        Raises `ActionFailed` if somebody else has applied since.
        """
        latest_id: str = context.save_for_rollback(
            f"latest apply before {context.intent}", latest.id if latest else ""
        )
        begun = _load_begun(context)
        if begun is None:
            # Attempts before changed nothing, and others may have applied since.
            return latest_id
        before_id: str = begun["before"]
        if latest_id not in (before_id, context.load_for_rollback("kept")):
            change = f"applied by {latest.by}" if latest else "destroyed"
            raise ActionFailed(
                "SUPERSEDED",
                f"{self.identifier} was {change} after an earlier attempt of this step had begun. "
                "Nothing was applied now; run the pipeline again.",
                outcome="SUPERSEDED",
            )
        return before_id

    def may_undo(self, context: StepContext) -> bool:
        """Return True; raise `ChangedByOthers` after a later apply by another run or user."""
        begun = _load_begun(context)
        if begun is None:
            return True
        latest = context.provisions.latest(self.identifier, context.load_for_rollback("used"))
        if latest is not None and latest.id not in (context.load_for_rollback("kept"), begun["before"]):
            raise ChangedByOthers(
                f"{self.identifier} was applied by {latest.by} since. Nothing was changed: roll back there "
                f"first, or apply the required configuration."
            )
        return True

    def undo(self, context: StepContext) -> None:
        begun = _load_begun(context)
        if begun is None:
            context.log(f"Nothing of {self.identifier} was changed, so there is nothing to restore")
            return
        if before := begun["before"]:
            self._apply_earlier(context, before)
        else:
            self._destroy(context, held_resources=begun["held_resources"])
        context.provisions.forget(self.identifier, context.load_for_rollback("used"), after=before)
        context.set_outputs(**{_RESTORED_OUTPUT: True})

    def _apply_earlier(self, context: StepContext, before: str) -> None:
        earlier = context.provisions.find(before)
        if earlier is None:
            raise ActionFailed(
                "NOT_KNOWN",
                f"What was applied as {self.identifier} before is no longer stored: apply it manually.",
            )
        # Possible if an earlier release began this step.
        if get_state_key(earlier.used) != get_state_key(context.load_for_rollback("used")):
            raise ActionFailed(
                "ANOTHER_STATE",
                f"What {earlier.by} applied as {self.identifier} before has another backend or workspace: "
                "restore this one manually.",
            )
        context.log(f"Applying what {earlier.by} had applied as {self.identifier}")
        self._finish_undo(
            self.run(context, "apply", build_repeated_parameters(earlier.used)), "apply", context
        )

    def _destroy(self, context: StepContext, *, held_resources: bool | None) -> None:
        if held_resources is not False:
            raise ActionFailed(
                "NOT_MADE_HERE",
                f"Slipway knows of no earlier apply of {self.identifier} in this environment and "
                "infrastructure with this backend and workspace, and its state held resources before, or may "
                "have. They are not destroyed: restore them manually, or destroy them with a "
                "separate step.",
            )
        context.log(f"Destroying {self.identifier}: it did not exist before")
        self._finish_undo(
            self.run(context, "destroy", build_repeated_parameters(context.load_for_rollback("used"))),
            "destroy",
            context,
        )

    def _finish_undo(self, result: TerraformRunResult, command: str, context: StepContext) -> None:
        self.refuse_failure(result, command)
        context.log(f"Restored {self.identifier}: {format_changes(result)}")

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        begun = _load_begun(saved)
        if begun is None:
            return (f"Restore {self.identifier} if its apply has begun",)
        if begun["before"]:
            return (f"Apply what was applied as {self.identifier} before",)
        return (f"Destroy {self.identifier}",)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        begun = _load_begun(context)
        if begun is None:
            return []
        expected_id = begun["before"]
        latest = context.provisions.latest(self.identifier, context.load_for_rollback("used"))
        actual = f"what {latest.by} applied" if latest else "destroyed"
        is_restored = (latest.id if latest else "") == expected_id
        if is_restored and not context.get_output(_RESTORED_OUTPUT):
            # A failed apply or undo is not recorded, so nothing tells what exists.
            actual, is_restored = "not known", False
        return [
            ChecklistEntry(
                self.identifier,
                "the previously applied configuration" if expected_id else "destroyed",
                actual,
                is_restored,
            )
        ]


def _load_begun(saved: StepContext | EarlierStep) -> Mapping[str, Any] | None:
    """Return what the first attempt that may have changed something found; None if none has begun."""
    record: Mapping[str, Any] | None = saved.load_for_rollback(_BEGUN_KEY)
    if record is not None or not saved.load_for_rollback("begun"):
        return record
    # Begun under an earlier release, which saved what the first attempt of all found.
    return {
        "before": saved.load_for_rollback("before") or "",
        "held_resources": saved.load_for_rollback("held resources"),
    }


def set_terraform_outputs(context: StepContext, outputs: Mapping[str, Mapping[str, Any]]) -> None:
    """Set the outputs of a run; values other than texts keep their type unless they are secrets."""
    typed: dict[str, Any] = {}
    for name, output in outputs.items():
        value, is_secret = output.get("value"), bool(output.get("is_secret"))
        if is_secret or isinstance(value, str):
            text = value if isinstance(value, str) else json.dumps(value)
            context.set_output(name, text, is_secret=is_secret)
        else:
            typed[name] = value
    context.set_outputs(**typed)


@action
@dataclass(frozen=True)
class DestroyTerraform(TerraformAction):
    """Destroy by a configuration, by a destroy plan, or by the latest applied run. It has no undo."""

    @property
    def title(self) -> str:
        return f"Destroy with {self.name}"

    def start(self, context: StepContext) -> None:
        plan = (
            get_stored_plan(context, self.identifier, destroys=True)
            if self.configuration == FROM_PLAN
            else None
        )
        used = context.save_for_rollback("used", dict(plan.used) if plan else self._get_parameters(context))
        context.log(f"Destroying {self.identifier} with {self.name}")
        result = self.run(
            context, "destroy", build_repeated_parameters(used), **({"plan_id": plan.id} if plan else {})
        )
        self.refuse_failure(result, "destroy")
        context.provisions.forget(self.identifier, used)
        context.set_outputs(destroyed=int(result.counts.get("destroy", 0)))
        if plan:
            context.provisions.free_plan(plan.id)
        context.log(f"Destroyed {self.identifier}: {format_changes(result)}")

    def _get_parameters(self, context: StepContext) -> dict[str, Any]:
        if self.configuration != FROM_APPLY:
            return self.build_parameters(context)
        latest = context.provisions.latest(self.identifier)
        if latest is None:
            unplaced = context.provisions.find_unplaced(self.identifier)
            raise ActionFailed(
                "NOTHING_APPLIED",
                f"Nothing is applied as {self.identifier} in this environment and infrastructure. "
                + (f"{unplaced.by} applied it in an environment that was not recorded. " if unplaced else "")
                + "Check provisionerIdentifier, or provide the configuration.",
            )
        return dict(latest.used)
