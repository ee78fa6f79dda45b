"""The step that runs a script at a delegate (R259-R262)."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from deployments.actions.naming import SECRET, TEXT, secrets_named_in, variable_problem
from deployments.actions.script import RunScript
from deployments.steps.base import BadStepError, Plan, about, step, unit
from deployments.steps.columns import Column
from guards.limits import SHELL_SCRIPT_BYTES

SHELLS = {"Bash": "bash", "Sh": "sh"}
# R260, with what put-metric-alarm cannot do without.
ATTACH_ALARM = """\
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


def variable_columns(*types: str) -> tuple[Column, ...]:
    """The columns of a list of variables of these types, as forms show it."""
    return (
        Column("name", is_needed=True),
        Column("type", "choice", choices=types, default=TEXT),
        Column("value"),
    )


@dataclass(frozen=True)
class ShellScriptSpec:
    """The script, what it sees as its environment, and which of its variables are outputs of the step.

    The script stands in `script`, or under `source.spec.script` with `source.type: Inline`.
    """

    shell: str = field(default="Bash", metadata=about("", *SHELLS))
    script: str = field(
        default="",
        metadata=about(
            "Runs at a delegate. An expression becomes a variable: write it within double quotes, for what "
            "it comes to is never read as a part of the script."
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
            columns=variable_columns(TEXT, "Number", SECRET),
        ),
    )
    outputVariables: list[dict[str, Any]] = field(
        default_factory=list,
        metadata=about(
            "The value is the name of the script's variable. Later steps write "
            "<+steps.IDENTIFIER.output.NAME>.",
            columns=variable_columns(TEXT, SECRET),
        ),
    )
    executionTarget: dict[str, Any] = field(default_factory=dict, metadata=about("", is_rare=True))
    onDelegate: bool = field(default=True, metadata=about("", is_rare=True))

    def __post_init__(self) -> None:
        """Raises `BadStepError`."""
        if problem := next(self._problems(), ""):
            raise BadStepError(f"ShellScript: {problem}")

    def _problems(self) -> Any:
        if self.shell not in SHELLS:
            yield f"shell is one of {', '.join(SHELLS)}, not {self.shell!r}"
        if bool(self.script) == bool(self.source):
            yield "it needs either script or source under spec"
        if self.source and not inline_script(self.source).strip():
            yield "source has type: Inline, and the script under spec.script"
        if len(self.text.encode()) > SHELL_SCRIPT_BYTES:
            yield f"the script is larger than {SHELL_SCRIPT_BYTES}"
        if self.executionTarget or not self.onDelegate:
            yield "scripts run at a delegate: remove executionTarget and onDelegate"
        if found := variable_problem(
            self.environmentVariables, "environment variable", (TEXT, "Number", SECRET)
        ):
            yield found
        if found := variable_problem(self.outputVariables, "output variable", (TEXT, SECRET)):
            yield found

    @property
    def text(self) -> str:
        return self.script or inline_script(self.source)

    @property
    def secret_references(self) -> tuple[str, ...]:
        """The secrets that the script gets."""
        own = [str(one.get("value", "")) for one in self.environmentVariables if one.get("type") == SECRET]
        values = [str(one.get("value", "")) for one in self.environmentVariables]
        return tuple(dict.fromkeys([*own, *secrets_named_in(self.text, *values)]))


def inline_script(source: Mapping[str, Any]) -> str:
    """The script of a `source`, or nothing."""
    spec = source.get("spec")
    script = spec.get("script") if isinstance(spec, Mapping) and source.get("type") == "Inline" else ""
    return script if isinstance(script, str) else ""


@step(
    "ShellScript",
    title="Shell Script",
    spec=ShellScriptSpec,
    timeout_minutes=10,
    scripts=("script", "source", "environmentVariables", "outputVariables"),
    goes_to_delegates=True,
    starter={"shell": "Bash", "script": ATTACH_ALARM},
)
def shell_script(spec: ShellScriptSpec) -> Plan:
    """Run the script in a folder of its own, with its expressions as variables, never as text."""
    yield unit(
        "Script",
        RunScript(
            spec.text,
            SHELLS[spec.shell],
            [
                [str(one["name"]), str(one.get("type", TEXT)), value_text(one.get("value", ""))]
                for one in spec.environmentVariables
            ],
            [
                [str(one["name"]), str(one.get("value") or one["name"]), str(one.get("type", TEXT))]
                for one in spec.outputVariables
            ],
        ),
    )


def value_text(value: Any) -> str:
    """The value of a variable as scripts see it."""
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
