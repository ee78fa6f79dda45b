"""The step that runs a script at a delegate (R259-R262)."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from steps.actions.script import RunScript
from steps.kinds.base import BadStepError, Plan, about, step, unit
from steps.kinds.scripted import SECRETS, SHELLS, VARIABLE_TYPES, Scripted, variable_columns
from steps.variables import SECRET, TEXT, variable_problem

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


@dataclass(frozen=True)
class ShellScriptSpec(Scripted):
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
            columns=variable_columns(*VARIABLE_TYPES),
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

    def _problems(self) -> Iterator[str]:
        yield from self.script_problems()
        if self.executionTarget or not self.onDelegate:
            yield "scripts run at a delegate: remove executionTarget and onDelegate"
        if found := variable_problem(self.outputVariables, "output variable", (TEXT, SECRET)):
            yield found


@step(
    "ShellScript",
    title="Shell Script",
    spec=ShellScriptSpec,
    timeout_minutes=10,
    scripts=("script", "source", "environmentVariables", "outputVariables"),
    secrets=SECRETS,
    goes_to_delegates=True,
    starter={"shell": "Bash", "script": ATTACH_ALARM},
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
                [str(one["name"]), str(one.get("value") or one["name"]), str(one.get("type", TEXT))]
                for one in spec.outputVariables
            ],
        ),
    )
