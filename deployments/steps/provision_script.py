"""The step that makes infrastructure by a script of people's own (R186)."""

from dataclasses import dataclass, field
from typing import Any

from deployments.actions.naming import SECRET, TEXT, secrets_named_in, variable_problem
from deployments.actions.provision_script import RunProvisionerScript
from deployments.expressions import is_path
from deployments.steps.base import BadStepError, Plan, about, step, unit
from deployments.steps.script import SHELLS, inline_script, value_text, variable_columns
from guards.limits import SHELL_SCRIPT_BYTES

# R189, with the names that the reference maps to region and cluster.
MAKE_CLUSTER = """\
# An example: a cluster of its own. The delegate needs the AWS CLI.
# Write what the infrastructure needs as JSON: cluster_name is known as provisioner.cluster_name then.
region="us-east-1"
cluster="my-cluster"
aws ecs create-cluster --cluster-name "$cluster" --region "$region"
printf '{"region_name": "%s", "cluster_name": "%s"}' "$region" "$cluster" > "$PROVISIONER_OUTPUT_PATH"
"""
_TYPES = (TEXT, "Number", SECRET)


@dataclass(frozen=True)
class ShellScriptProvisionSpec:
    """The script, what it sees as its environment, and which of the outputs that it writes are secrets.

    The script stands in `script`, or under `source.spec.script` with `source.type: Inline`.
    """

    shell: str = field(default="Bash", metadata=about("", *SHELLS))
    script: str = field(
        default="",
        metadata=about(
            "Runs at a delegate and writes a JSON object to the file $PROVISIONER_OUTPUT_PATH: its keys are "
            "outputs, <+provisioner.NAME>. Run again, it should find what it has made. An expression becomes "
            "a variable: write it within double quotes."
        ),
    )
    source: dict[str, Any] = field(
        default_factory=dict,
        metadata=about("Instead of script: type: Inline, spec: {script: …}.", is_rare=True),
    )
    environmentVariables: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=about(
            "What the script finds in its environment. Of a Secret the value is its identifier, such as "
            "account.token.",
            columns=variable_columns(*_TYPES),
        ),
    )
    secretOutputs: list[str] = field(
        default_factory=list,
        metadata=about("The outputs that are secrets: nobody sees what they come to.", is_rare=True),
    )

    def __post_init__(self) -> None:
        """Raises `BadStepError`."""
        if problem := next(self._problems(), ""):
            raise BadStepError(f"ShellScriptProvision: {problem}")

    def _problems(self) -> Any:
        if self.shell not in SHELLS:
            yield f"shell is one of {', '.join(SHELLS)}, not {self.shell!r}"
        if bool(self.script) == bool(self.source):
            yield "it needs either script or source under spec"
        if self.source and not inline_script(self.source).strip():
            yield "source has type: Inline, and the script under spec.script"
        if len(self.text.encode()) > SHELL_SCRIPT_BYTES:
            yield f"the script is larger than {SHELL_SCRIPT_BYTES}"
        if found := variable_problem(self.environmentVariables, "environment variable", _TYPES):
            yield found
        for one in self.secretOutputs:
            if not isinstance(one, str) or not is_path(one) or "." in one:
                yield f"secretOutputs: {one!r} is no name of an output"

    @property
    def text(self) -> str:
        return self.script or inline_script(self.source)

    @property
    def secret_references(self) -> tuple[str, ...]:
        """The secrets that the script gets."""
        own = [str(one.get("value", "")) for one in self.environmentVariables if one.get("type") == SECRET]
        values = [str(one.get("value", "")) for one in self.environmentVariables]
        return tuple(dict.fromkeys([*own, *secrets_named_in(self.text, *values)]))


@step(
    "ShellScriptProvision",
    title="Shell Script Provision",
    spec=ShellScriptProvisionSpec,
    timeout_minutes=30,
    scripts=("script", "source", "environmentVariables"),
    goes_to_delegates=True,
    starter={"shell": "Bash", "script": MAKE_CLUSTER},
    provisions=True,
)
def shell_script_provision(spec: ShellScriptProvisionSpec) -> Plan:
    """Run the script in a folder of its own and hand on what it writes to $PROVISIONER_OUTPUT_PATH."""
    yield unit(
        "Provision",
        RunProvisionerScript(
            spec.text,
            SHELLS[spec.shell],
            [
                [str(one["name"]), str(one.get("type", TEXT)), value_text(one.get("value", ""))]
                for one in spec.environmentVariables
            ],
            list(spec.secretOutputs),
        ),
    )
