"""Step that waits until the delegate that its stage deploys has connected."""

from dataclasses import dataclass, field

from guards.limits import NAME_CHARACTERS
from guards.text import find_name_problem
from steps.actions.delegate_connections import WaitForDelegate
from steps.expressions import has_expression
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit


@dataclass(frozen=True)
class DelegateConnectSpec:
    """The delegate whose new instance must connect."""

    delegate: str = field(
        metadata=describe_field(
            "The name of the delegate; it belongs to the project of the pipeline or above."
        )
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for what cannot be the name of a delegate."""
        if not has_expression(self.delegate) and (
            problem := find_name_problem(self.delegate, NAME_CHARACTERS)
        ):
            raise BadStepError(f"DelegateConnect: delegate: {problem.reason}; {problem.remedy}")


@step(
    "DelegateConnect",
    title="Wait for Delegate",
    spec=DelegateConnectSpec,
    outputs={
        "deploymentId": "The id of the deployment whose tasks are watched.",
        "waitsSince": "When the wait began.",
        "connectedTask": "The ARN of the ECS task that connected.",
    },
    needs_cluster=True,
    deploys=False,
    timeout_minutes=10,
    starter={"delegate": "my-delegate"},
)
def delegate_connect(spec: DelegateConnectSpec) -> Plan:
    """Wait until a task of the stage's rolling deployment connects as the delegate; fail at the timeout."""
    yield unit("Wait for delegate", WaitForDelegate(spec.delegate))
