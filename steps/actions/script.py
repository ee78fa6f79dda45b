"""The action that runs a script at a delegate."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from steps.actions.base import Action, ActionFailed, CallRecord, NobodyKnows, Rollout, Verdict, action
from steps.actions.work import Script, ScriptEnd
from steps.variables import SECRET, Environment

NOT_KNOWN = "The worker that asked for it was lost before it could note the task. It is not begun again."


def environment_of(rollout: Rollout, variables: Sequence[Sequence[str]]) -> Environment:
    """What a script finds in its environment, of [name, type, value]; a secret is given by its reference."""
    environment = Environment(rollout.value_of)
    for name, kind, value in variables:
        if kind == SECRET:
            environment.secrets[name] = value
        else:
            environment.add(name, value)
    return environment


def refuse_exit_code(end: ScriptEnd) -> None:
    """Raises `ActionFailed` for a script that ended with another exit code than 0."""
    if end.exit_code:
        raise ActionFailed(
            "SCRIPT_FAILED",
            f"The script ended with exit code {end.exit_code}. Its output above says why.",
            exit_code=end.exit_code,
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

    def start(self, rollout: Rollout) -> None:
        environment = environment_of(rollout, self.variables)
        text = environment.taken_out_of(self.script)
        rollout.log("Running the script")
        end = rollout.work.run_script(
            Script(
                text,
                self.interpreter,
                environment.values,
                environment.secrets,
                [variable for _, variable, _ in self.outputs],
            )
        )
        refuse_exit_code(end)
        for name, variable, kind in self.outputs:
            rollout.learn_output(name, end.outputs.get(variable, ""), is_secret=kind == SECRET)
        rollout.log("The script ended with exit code 0")

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return NobodyKnows("DELEGATE_LOST", NOT_KNOWN)
