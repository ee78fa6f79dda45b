"""Provisioning script step: creates infrastructure with a script of the user (R186)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steps.actions.scripts import RunProvisionerScript
from steps.expressions import is_path
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit
from steps.kinds.script import SECRET_FIELDS, SHELLS, VARIABLE_TYPES, ScriptSpec, build_variable_columns

# R189, with the output names for region and cluster.
CLUSTER_SCRIPT_EXAMPLE = """\
# An example: a cluster of its own. The delegate needs the AWS CLI.
# Write what the infrastructure needs as JSON: cluster_name is known as provisioner.cluster_name then.
region="us-east-1"
cluster="my-cluster"
aws ecs create-cluster --cluster-name "$cluster" --region "$region"
printf '{"region_name": "%s", "cluster_name": "%s"}' "$region" "$cluster" > "$PROVISIONER_OUTPUT_PATH"
"""


@dataclass(frozen=True)
class ShellScriptProvisionSpec(ScriptSpec):
    """Settings of a provisioning script: its environment, and the names of its secret outputs.

    The script stands in `script`, or under `source.spec.script` with `source.type: Inline`.
    """

    shell: str = field(default="Bash", metadata=describe_field("", *SHELLS))
    """The shell that runs the script."""
    script: str = field(
        default="",
        metadata=describe_field(
            "Runs at a delegate and writes a JSON object to the file $PROVISIONER_OUTPUT_PATH: its keys are "
            "outputs, <+provisioner.NAME>. Run again, it should find what it has made. An expression becomes "
            "a variable: write it within double quotes.",
            is_multiline=True,
        ),
    )
    source: dict[str, Any] = field(
        default_factory=dict,
        metadata=describe_field("Instead of script: type: Inline, spec: {script: …}.", is_rare=True),
    )
    environmentVariables: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "What the script finds in its environment. For the type Secret, enter its identifier, such as "
            "account.token.",
            columns=build_variable_columns(*VARIABLE_TYPES),
        ),
    )
    secretOutputs: list[str] = field(
        default_factory=list,
        metadata=describe_field("The outputs that are secrets: nobody sees what they come to.", is_rare=True),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"ShellScriptProvision: {problem}")

    def _list_problems(self) -> Iterator[str]:
        yield from self.list_script_problems()
        for name in self.secretOutputs:
            if not isinstance(name, str) or not is_path(name) or "." in name:
                yield f"secretOutputs: {name!r} is no name of an output"


@step(
    "ShellScriptProvision",
    title="Shell Script Provision",
    spec=ShellScriptProvisionSpec,
    timeout_minutes=30,
    scripts=("script", "source", "environmentVariables"),
    secrets=SECRET_FIELDS,
    runs_on_delegates=True,
    starter={"shell": "Bash", "script": CLUSTER_SCRIPT_EXAMPLE},
    provisions=True,
)
def shell_script_provision(spec: ShellScriptProvisionSpec) -> Plan:
    """Run the script in its own folder; the values in $PROVISIONER_OUTPUT_PATH become outputs."""
    yield unit(
        "Provision",
        RunProvisionerScript(spec.text, spec.interpreter, spec.variables, list(spec.secretOutputs)),
    )
