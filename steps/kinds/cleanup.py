"""Steps that delete an ECS service: one that an earlier deployment left behind (P05), or one of your own."""

from collections.abc import Iterator
from dataclasses import dataclass, field

from guards.limits import NAME_CHARACTERS
from guards.text import find_name_problem
from steps.actions.ecs_service.deletion import DeleteEcsService, SaveServiceToDelete, StopServiceTasks
from steps.actions.leftover_services import DeleteLeftover
from steps.expressions import has_expression
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit

_MOST_EXPECTED = 100


@dataclass(frozen=True)
class EcsCleanUpSpec:
    """Settings of a clean-up: the ECS service, and the stage listener and rule."""

    service: str
    """The ECS service to delete."""
    stageListener: str = ""
    """The stage listener, whose traffic does not protect the ECS service from deletion."""
    stageListenerRuleArn: str = ""
    """The rule of the stage listener; empty for its default rule."""


@step(
    "EcsCleanUp",
    title="ECS Clean Up",
    spec=EcsCleanUpSpec,
    timeout_minutes=30,
    outputs={"serviceName": "The ECS service that was deleted."},
    needs_cluster=True,
)
def ecs_clean_up(spec: EcsCleanUpSpec) -> Plan:
    """Delete one leftover ECS service, unless a check finds that it receives production traffic."""
    yield unit("Clean up", DeleteLeftover(spec.service, spec.stageListener, spec.stageListenerRuleArn))


@dataclass(frozen=True)
class EcsDeleteServiceSpec:
    """The ECS service to delete, with what it must run."""

    service: str = field(metadata=describe_field("The name of the ECS service; its tasks are ended first."))
    expected: list[str] = field(
        default_factory=list,
        metadata=describe_field(
            "Ids of deployments and ARNs of task definitions: with any other one, somebody else has deployed "
            "the service, and it stays. Without any, it is deleted as it is.",
        ),
    )
    delegate: str = field(
        default="",
        metadata=describe_field(
            "The delegate that runs in the service, if any: the calls of the stage go to another one.",
            is_rare=True,
        ),
    )

    def __post_init__(self) -> None:
        """Raise `BadStepError` for an invalid spec."""
        if problem := next(self._list_problems(), ""):
            raise BadStepError(f"EcsDeleteService: {problem}")

    def _list_problems(self) -> Iterator[str]:
        if not self.service.strip():
            yield "service is the name of an ECS service"
        if len(self.expected) > _MOST_EXPECTED or not all(isinstance(entry, str) for entry in self.expected):
            yield f"expected is a list of {_MOST_EXPECTED} texts at most"
        if self.delegate and not has_expression(self.delegate):
            problem = find_name_problem(self.delegate, NAME_CHARACTERS)
            if problem:
                yield f"delegate: {problem.reason}; {problem.remedy}"


@step(
    "EcsDeleteService",
    title="ECS Delete Service",
    spec=EcsDeleteServiceSpec,
    timeout_minutes=30,
    outputs={
        "serviceName": "The name of the ECS service.",
        "serviceArn": "The ARN of the ECS service; empty if it was deleted before.",
    },
    needs_cluster=True,
    starter={"service": "my-service"},
)
def ecs_delete_service(spec: EcsDeleteServiceSpec) -> Plan:
    """End the tasks of an ECS service and delete it; a missing one is a success, and nothing is undone."""
    arguments = spec.service, list(spec.expected)
    yield unit(
        "Delete service",
        SaveServiceToDelete(*arguments),
        StopServiceTasks(*arguments),
        DeleteEcsService(*arguments),
    )
