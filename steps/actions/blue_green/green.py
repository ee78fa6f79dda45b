"""The action that removes the ECS service of the version before the last one, so that its name is free."""

from dataclasses import dataclass

from steps.actions.adoption import adopt_service_write
from steps.actions.base import Action, CallRecord, Check, Earlier, Happened, Rollout, Verdict, action
from steps.actions.blue_green.pair import is_inactive
from steps.actions.blue_green.restored import service_checks, settled
from steps.actions.blue_green.scaling import put_back_scaling, state_of
from steps.actions.blue_green.tags import adopt_tags, put_back_tags
from steps.actions.blue_green.traffic import refuse_production
from steps.actions.known_service import create_again, delete_service, existed_before
from steps.actions.scaling.adopt import adopt_scaling_write
from steps.actions.scaling.state import ScalingState
from steps.actions.timing import may_be_stale, wrote_lately


@action
@dataclass(frozen=True)
class RemoveGreenService(Action):
    """Delete green if it exists, and wait until it is gone (R240, T20); undone by creating it again."""

    has_undo = True

    @property
    def title(self) -> str:
        return "Delete the old stage service, if there is one"

    def start(self, rollout: Rollout) -> None:
        if not existed_before(rollout):
            return
        name = rollout.know("serviceName")
        live = rollout.ecs.describe_service(rollout.cluster, name)
        if live is not None and live.is_active:
            refuse_production(rollout, live, "to delete it")
            rollout.remember("scaling of green", state_of(rollout, name).to_memory())
        delete_service(rollout, name, live)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_service_write(rollout, call, task_definition="", before="")

    def is_done(self, rollout: Rollout) -> bool:
        return not existed_before(rollout) or is_inactive(rollout, rollout.know("serviceName"))

    def may_undo(self, rollout: Rollout) -> bool:
        """What was deleted must have gone before its name can be given again."""
        service = rollout.see_service(rollout.know("serviceName")).service
        if service is not None and service.is_active and wrote_lately(rollout):
            return False
        return service is None or service.status != "DRAINING"

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        before = known.recall("service before") or {}
        count = before.get("desired")
        return (f"Create Service {known.know('serviceName')} again as it was before, with count {count}",)

    def undo(self, rollout: Rollout) -> None:
        before = rollout.recall("service before")
        live = rollout.ecs.describe_service(rollout.cluster, before["name"])
        if live is not None and live.is_active and not may_be_stale(rollout):
            rollout.log(f"Service {before['name']} is there already")
            return
        rollout.log(
            f"Creating Service {before['name']} again with task definition {before['task_definition']} "
            f"and desired count {before['desired']}"
        )
        service = create_again(rollout, before, before["task_definition"])
        put_back_tags(rollout, service.arn, before["name"], now={})
        scaling = ScalingState.from_memory(rollout.recall("scaling of green"))
        put_back_scaling(rollout, before["name"], scaling)

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        if call.operation in ("TagResource", "UntagResource"):
            return adopt_tags(rollout, call)
        if call.service == "application-autoscaling":
            return adopt_scaling_write(rollout, call)
        before = rollout.recall("service before")
        found = adopt_service_write(
            rollout, call, task_definition=before["task_definition"], before="deployments before undo"
        )
        return Happened({"service": found.answer["service"]}) if isinstance(found, Happened) else found

    def is_undone(self, rollout: Rollout) -> bool:
        before = rollout.recall("service before")
        return settled(rollout, before, rollout.see_service(before["name"]).service)

    def checklist(self, rollout: Rollout) -> list[Check]:
        return service_checks(rollout, rollout.recall("service before"))
