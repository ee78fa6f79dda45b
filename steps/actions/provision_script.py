"""The action that runs a script which makes infrastructure, and hands on what it writes (R186)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from guards.fault import Refused
from guards.json import read_json
from guards.limits import PROVISIONER_OUTPUTS
from steps.actions.base import Action, ActionFailed, CallRecord, NobodyKnows, Rollout, Verdict, action
from steps.actions.script import NOT_KNOWN, environment_of, refuse_exit_code
from steps.actions.work import Script
from steps.expressions import is_path

OUTPUT_PATH = "PROVISIONER_OUTPUT_PATH"
_CODE = "BAD_OUTPUTS"


@action
@dataclass(frozen=True)
class RunProvisionerScript(Action):
    """Run a script that writes a JSON object to the file $PROVISIONER_OUTPUT_PATH; its keys are outputs.

    `secret_outputs` names those that nobody may see.
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

    def start(self, rollout: Rollout) -> None:
        environment = environment_of(rollout, self.variables)
        text = environment.taken_out_of(self.script)
        rollout.log("Running the provisioning script")
        end = rollout.work.run_script(
            Script(text, self.interpreter, environment.values, environment.secrets, output_file=OUTPUT_PATH)
        )
        refuse_exit_code(end)
        self._hand_on(rollout, outputs_from(end.written))

    def _hand_on(self, rollout: Rollout, outputs: Mapping[str, Any]) -> None:
        missing = [name for name in self.secret_outputs if name not in outputs]
        if missing:
            raise ActionFailed(_CODE, f"The script wrote no output {', '.join(missing)}.")
        others = {name: value for name, value in outputs.items() if not isinstance(value, str)}
        if unhidden := [name for name in self.secret_outputs if name in others]:
            raise ActionFailed(_CODE, f"The secret output {unhidden[0]} must be a text.")
        rollout.learn(**others)
        for name, value in outputs.items():
            if isinstance(value, str):
                rollout.learn_output(name, value, is_secret=name in self.secret_outputs)
        names = ", ".join(sorted(outputs)) or "none"
        rollout.log(f"The script ended with exit code 0. Outputs: {names}")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return NobodyKnows("DELEGATE_LOST", NOT_KNOWN)


def outputs_from(written: str | None) -> dict[str, Any]:
    """The outputs that a script wrote. Raises `ActionFailed` for what is no JSON object of names."""
    if written is None:
        raise ActionFailed(
            _CODE,
            f"The script wrote no file ${OUTPUT_PATH}: write a JSON object of outputs to it, such as "
            '{"cluster_name": "orders"}. A delegate of an older version sets no such variable: upgrade it.',
        )
    try:
        outputs = read_json(written)
    except Refused as refused:
        raise ActionFailed(
            _CODE, f"What the script wrote to ${OUTPUT_PATH} is no JSON: {refused}"
        ) from refused
    if not isinstance(outputs, dict):
        raise ActionFailed(_CODE, f"What the script wrote to ${OUTPUT_PATH} is no JSON object of names.")
    if len(outputs) > PROVISIONER_OUTPUTS:
        raise ActionFailed(_CODE, f"A provisioner may have {PROVISIONER_OUTPUTS} at most.")
    if wrong := next((name for name in outputs if not is_path(name) or "." in name), None):
        raise ActionFailed(
            _CODE,
            f"{wrong[:100]!r} is no name of an output: it has letters, digits, _, $ and -, and begins with "
            "no digit.",
        )
    return outputs
