"""Actions that run a shell script or a provisioning script on a delegate."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from guards.input_problems import InputRejected
from guards.json_parser import parse_json
from guards.limits import PROVISIONER_OUTPUTS
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import CallRecord, Confirmation, Indeterminate
from steps.actions.context import StepContext
from steps.actions.non_aws_calls import Script, ScriptRunResult
from steps.expressions import is_path
from steps.variables import SECRET_TYPE, ScriptEnvironment

WORKER_LOST_MESSAGE = (
    "The worker that asked for it was lost before it recorded the task. The task is not started again."
)


def build_script_environment(context: StepContext, variables: Sequence[Sequence[str]]) -> ScriptEnvironment:
    """Return the environment of a script from [name, type, value]; secrets are references."""
    environment = ScriptEnvironment(context.resolve_expression)
    for name, kind, value in variables:
        if kind == SECRET_TYPE:
            environment.secrets[name] = value
        else:
            environment.add(name, value)
    return environment


def refuse_exit_code(result: ScriptRunResult) -> None:
    """Raise `ActionFailed` unless the script ended with exit code 0."""
    if result.exit_code:
        raise ActionFailed(
            "SCRIPT_FAILED",
            f"The script ended with exit code {result.exit_code}. See its output above.",
            exit_code=result.exit_code,
        )


@action
@dataclass(frozen=True)
class RunScript(Action):
    """Run a script with its expressions as variables; `outputs` are [name, variable, type]."""

    repeats = True

    script: str
    interpreter: str = "bash"
    variables: list[list[str]] = field(default_factory=list)
    """[name, type, value]; the value of a secret is its reference."""
    outputs: list[list[str]] = field(default_factory=list)

    @property
    def title(self) -> str:
        return "Run script"

    def start(self, context: StepContext) -> None:
        environment = build_script_environment(context, self.variables)
        text = environment.replace_expressions(self.script)
        context.log("Running the script")
        result = context.work.run_script(
            Script(
                text,
                self.interpreter,
                environment.values,
                environment.secrets,
                [variable for _, variable, _ in self.outputs],
            )
        )
        refuse_exit_code(result)
        for name, variable, kind in self.outputs:
            context.set_output(name, result.outputs.get(variable, ""), is_secret=kind == SECRET_TYPE)
        context.log("The script ended with exit code 0")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return Indeterminate("DELEGATE_LOST", WORKER_LOST_MESSAGE)


OUTPUT_PATH_VARIABLE = "PROVISIONER_OUTPUT_PATH"
_BAD_OUTPUTS = "BAD_OUTPUTS"


@action
@dataclass(frozen=True)
class RunProvisionerScript(Action):
    """Run a script that writes a JSON object of outputs to the file $PROVISIONER_OUTPUT_PATH.

    `secret_outputs` are the names of the secret ones.
    """

    repeats = True

    script: str
    interpreter: str = "bash"
    variables: list[list[str]] = field(default_factory=list)
    """[name, type, value]; the value of a secret is its reference."""
    secret_outputs: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        return "Run provisioning script"

    def start(self, context: StepContext) -> None:
        environment = build_script_environment(context, self.variables)
        text = environment.replace_expressions(self.script)
        context.log("Running the provisioning script")
        result = context.work.run_script(
            Script(
                text,
                self.interpreter,
                environment.values,
                environment.secrets,
                output_file=OUTPUT_PATH_VARIABLE,
            )
        )
        refuse_exit_code(result)
        self._set_outputs(context, parse_provisioner_outputs(result.written))

    def _set_outputs(self, context: StepContext, outputs: Mapping[str, Any]) -> None:
        missing = [name for name in self.secret_outputs if name not in outputs]
        if missing:
            raise ActionFailed(_BAD_OUTPUTS, f"The script did not write output {', '.join(missing)}.")
        other_outputs = {name: value for name, value in outputs.items() if not isinstance(value, str)}
        if typed_secrets := [name for name in self.secret_outputs if name in other_outputs]:
            raise ActionFailed(_BAD_OUTPUTS, f"The secret output {typed_secrets[0]} must be a text.")
        context.set_outputs(**other_outputs)
        for name, value in outputs.items():
            if isinstance(value, str):
                context.set_output(name, value, is_secret=name in self.secret_outputs)
        names = ", ".join(sorted(outputs)) or "none"
        context.log(f"The script ended with exit code 0. Outputs: {names}")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return Indeterminate("DELEGATE_LOST", WORKER_LOST_MESSAGE)


def parse_provisioner_outputs(output_text: str | None) -> dict[str, Any]:
    """Return the outputs that a script wrote. Raises `ActionFailed` unless they are a JSON object."""
    if output_text is None:
        raise ActionFailed(
            _BAD_OUTPUTS,
            f"The script wrote no file ${OUTPUT_PATH_VARIABLE}: write a JSON object of outputs to it, "
            "such as "
            '{"cluster_name": "orders"}. Upgrade the delegate if it does not set this variable.',
        )
    try:
        outputs = parse_json(output_text)
    except InputRejected as refused:
        raise ActionFailed(
            _BAD_OUTPUTS, f"What the script wrote to ${OUTPUT_PATH_VARIABLE} is not valid JSON: {refused}"
        ) from refused
    if not isinstance(outputs, dict):
        raise ActionFailed(
            _BAD_OUTPUTS, f"What the script wrote to ${OUTPUT_PATH_VARIABLE} is not a JSON object."
        )
    if len(outputs) > PROVISIONER_OUTPUTS:
        raise ActionFailed(_BAD_OUTPUTS, f"A provisioner may have {PROVISIONER_OUTPUTS} at most.")
    if invalid := next((name for name in outputs if not is_path(name) or "." in name), None):
        raise ActionFailed(
            _BAD_OUTPUTS,
            f"{invalid[:100]!r} is no name of an output: it has letters, digits, _, $ and -, and begins with "
            "no digit.",
        )
    return outputs
