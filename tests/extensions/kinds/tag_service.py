"""Tag step: sets one tag of an ECS service; with its action and its rollback step."""

from dataclasses import dataclass, field

from steps.actions.base import Action, ActionFailed, action
from steps.actions.blue_green.tags import confirm_tag_write
from steps.actions.confirmations import CallRecord, Confirmation
from steps.actions.context import EarlierStep, StepContext
from steps.kinds.registry import BadStepError, Plan, describe_field, step, unit


@action
@dataclass(frozen=True)
class SetServiceTag(Action):
    """Set a tag of an ECS service, and save its value before for rollback."""

    has_undo = True

    service: str
    name: str
    value: str

    @property
    def title(self) -> str:
        return f"Tag Service {self.service}"

    def start(self, context: StepContext) -> None:
        live = context.ecs.describe_service(context.cluster, self.service)
        if live is None:
            raise ActionFailed("NO_SERVICE", f"There is no ECS service {self.service}.")
        context.save_for_rollback("earlier", context.ecs.list_tags(live.arn).get(self.name, ""))
        context.ecs.add_tags(live.arn, {self.name: self.value})
        context.set_outputs(taggedService=live.name, serviceArn=live.arn)
        context.log(f"Tag of Service {live.name}: {self.name} is {self.value}")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        return confirm_tag_write(context, call)

    def undo(self, context: StepContext) -> None:
        arn, earlier = str(context.get_output("serviceArn")), str(context.load_for_rollback("earlier"))
        if earlier:
            context.ecs.add_tags(arn, {self.name: earlier})
        else:
            context.ecs.remove_tags(arn, [self.name])
        context.log(f"Tag of Service {self.service}: {self.name} is as before")

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        value = saved.load_for_rollback("earlier") or "none"
        return (f"Tag {self.name} of Service {self.service}: back to {value}",)


@dataclass(frozen=True)
class TagServiceSpec:
    """Which ECS service gets which tag."""

    service: str = field(metadata=describe_field("The name of the ECS service."))
    value: str = field(metadata=describe_field("The value of the tag.", is_multiline=True))
    tag: str = field(default="team", metadata=describe_field("The name of the tag.", "team", "owner"))

    def __post_init__(self) -> None:
        """Raises `BadStepError`."""
        if len(self.value) > 256:
            raise BadStepError("EcsTagService: value has 256 characters at most")


@dataclass(frozen=True)
class TagServiceRollbackSpec:
    """A rollback of a tag has nothing to choose."""


@step(
    "EcsTagService",
    title="ECS Tag Service",
    spec=TagServiceSpec,
    undone_by="EcsTagServiceRollback",
    timeout_minutes=5,
    starter={"service": "<+service.name>", "value": "checkout"},
    outputs={"taggedService": "The ECS service that has the tag.", "serviceArn": "Its ARN."},
    needs_cluster=True,
)
def tag_service(spec: TagServiceSpec) -> Plan:
    """Set one tag of an ECS service."""
    yield unit("Tag", SetServiceTag(spec.service, spec.tag, spec.value))


@step(
    "EcsTagServiceRollback",
    title="ECS Tag Service Rollback",
    spec=TagServiceRollbackSpec,
    undoes=("EcsTagService",),
    timeout_minutes=5,
    needs_cluster=True,
)
def tag_service_rollback(spec: TagServiceRollbackSpec) -> Plan:
    """The place where tags are put back; it has no actions of its own."""
    yield from ()
