"""Shell script step, and the base of specs with a script (R259-R262)."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from connectors.secret_expressions import find_secret_references
from guards.limits import SHELL_SCRIPT_BYTES
from steps.actions.scripts import RunScript
from steps.expressions import format_value
from steps.kinds.registry import BadStepError, Plan, SpecColumn, describe_field, step, unit
from steps.variables import SECRET_TYPE, TEXT_TYPE, describe_variable_problem

SHELLS = {"Bash": "bash", "Sh": "sh"}
SECRET_FIELDS = ("script", "source.spec.script", "environmentVariables.*.value")
VARIABLE_TYPES = (TEXT_TYPE, "Number", SECRET_TYPE)


def build_variable_columns(*types: str) -> tuple[SpecColumn, ...]:
    """Return the form columns of a list of variables with these types."""
    return (
        SpecColumn("name", is_needed=True),
        SpecColumn("type", "choice", choices=types, default=TEXT_TYPE),
        SpecColumn("value"),
    )


class ScriptSpec:
    """Base of a spec with a script, in `script` or as `source`; the fields are the spec's own."""

    shell: str
    script: str
    source: dict[str, Any]
    environmentVariables: list[dict[str, Any]]

    def list_script_problems(self) -> Iterator[str]:
        """Yield the problems of the script and its variables."""
        if self.shell not in SHELLS:
            yield f"shell is one of {', '.join(SHELLS)}, not {self.shell!r}"
        if bool(self.script) == bool(self.source):
            yield "it needs either script or source under spec"
        if self.source and not _get_inline_script(self.source).strip():
            yield "source has type: Inline, and the script under spec.script"
        if len(self.text.encode()) > SHELL_SCRIPT_BYTES:
            yield f"the script is larger than {SHELL_SCRIPT_BYTES}"
        if problem := describe_variable_problem(
            self.environmentVariables, "environment variable", VARIABLE_TYPES
        ):
            yield problem

    @property
    def text(self) -> str:
        """Return the script."""
        return self.script or _get_inline_script(self.source)

    @property
    def interpreter(self) -> str:
        """Return the interpreter of the script."""
        return SHELLS[self.shell]

    @property
    def variables(self) -> list[list[str]]:
        """Return the environment of the script as lists of [name, type, value]."""
        return [
            [
                str(variable["name"]),
                str(variable.get("type", TEXT_TYPE)),
                format_value(variable.get("value", "")),
            ]
            for variable in self.environmentVariables
        ]

    @property
    def secret_references(self) -> tuple[str, ...]:
        """Return the secrets that the script receives."""
        own = [
            str(variable.get("value", ""))
            for variable in self.environmentVariables
            if variable.get("type") == SECRET_TYPE
        ]
        values = [str(variable.get("value", "")) for variable in self.environmentVariables]
        return tuple(dict.fromkeys([*own, *find_secret_references(self.text, *values)]))


def _get_inline_script(source: Mapping[str, Any]) -> str:
    """Return the script of a `source`; empty if it has none."""
    spec = source.get("spec")
    script = spec.get("script") if isinstance(spec, Mapping) and source.get("type") == "Inline" else ""
    return script if isinstance(script, str) else ""


# R260, with the required parameters of put-metric-alarm.
ALARM_SCRIPT_EXAMPLE = """\
# An example: an alarm that scales the ECS service by its scaling policy. The delegate needs the AWS CLI.
# The name of the service is the output serviceName of the step that deploys it.
service="<+service.name>"
cluster="<+infra.cluster>"
region="<+infra.region>"
policy=$(aws application-autoscaling describe-scaling-policies --service-namespace ecs \\
  --resource-id "service/$cluster/$service" --region "$region" \\
  --query 'ScalingPolicies[0].PolicyARN' --output text)
aws cloudwatch put-metric-alarm --alarm-name "$service-cpu-high" --alarm-actions "$policy" \\
  --namespace AWS/ECS --metric-name CPUUtilization --statistic Average \\
  --dimensions "Name=ClusterName,Value=$cluster" "Name=ServiceName,Value=$service" \\
  --period 60 --evaluation-periods 3 --threshold 80 \\
  --comparison-operator GreaterThanThreshold --region "$region"
"""


@dataclass(frozen=True)
class ShellScriptSpec(ScriptSpec):
    """Settings of a script: its environment, and the variables that become outputs.

    The script stands in `script`, or under `source.spec.script` with `source.type: Inline`.
    """

    shell: str = field(default="Bash", metadata=describe_field("", *SHELLS))
    script: str = field(
        default="",
        metadata=describe_field(
            "Runs at a delegate. An expression becomes a variable: write it within double quotes, for what "
            "it comes to is never read as a part of the script.",
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
    outputVariables: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=describe_field(
            "The value is the name of the script's variable. Later steps write "
            "<+steps.IDENTIFIER.output.NAME>.",
            columns=build_variable_columns(TEXT_TYPE, SECRET_TYPE),
        ),
    )
    executionTarget: dict[str, Any] = field(default_factory=dict, metadata=describe_field("", is_rare=True))
    onDelegate: bool = field(default=True, metadata=describe_field("", is_rare=True))

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"ShellScript: {problem}")

    def _list_problems(self) -> Iterator[str]:
        yield from self.list_script_problems()
        if self.executionTarget or not self.onDelegate:
            yield "scripts run at a delegate: remove executionTarget and onDelegate"
        if problem := describe_variable_problem(
            self.outputVariables, "output variable", (TEXT_TYPE, SECRET_TYPE)
        ):
            yield problem


@step(
    "ShellScript",
    title="Shell Script",
    spec=ShellScriptSpec,
    timeout_minutes=10,
    scripts=("script", "source", "environmentVariables", "outputVariables"),
    secrets=SECRET_FIELDS,
    runs_on_delegates=True,
    starter={"shell": "Bash", "script": ALARM_SCRIPT_EXAMPLE},
)
def shell_script(spec: ShellScriptSpec) -> Plan:
    """Run the script in a folder of its own, with its expressions as variables, never as text."""
    yield unit(
        "Script",
        RunScript(
            spec.text,
            spec.interpreter,
            spec.variables,
            [
                [
                    str(variable["name"]),
                    str(variable.get("value") or variable["name"]),
                    str(variable.get("type", TEXT_TYPE)),
                ]
                for variable in spec.outputVariables
            ],
        ),
    )
