"""The action that starts the new version beside the live one, in the stage target group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.types import EcsService
from steps.actions.adoption import adopt_service_write
from steps.actions.base import Action, ActionFailed, CallRecord, Check, Earlier, Rollout, Verdict, action
from steps.actions.blue_green.restored import service_checks, settled
from steps.actions.blue_green.scaling import count_for_traffic
from steps.actions.blue_green.traffic import refuse_production
from steps.actions.known_service import (
    GONE,
    delete_service,
    existed_before,
    is_deleted,
    is_ours,
    refuse_others_deployment,
    remember_deployment,
    restoring_words,
    service_words,
    trusted,
)
from steps.actions.scaling.state import ScalingState
from steps.actions.service_fields import changed_fields, ignored_by_update, update_to_restore


@action
@dataclass(frozen=True)
class CreateStageService(Action):
    """Create the stage service, or update green where the step asks for that (R236, R240)."""

    has_undo = True

    update: bool = False
    keep_count: bool = False

    @property
    def title(self) -> str:
        return "Create or update the stage service"

    def start(self, rollout: Rollout) -> None:
        name = rollout.know("serviceName")
        wanted = {
            **rollout.recall("service definition"),
            "serviceName": name,
            "taskDefinition": rollout.know("taskDefinitionArn"),
        }
        wanted["desiredCount"] = self._count(rollout, wanted)
        live = rollout.ecs.describe_service(rollout.cluster, name)
        if self._updates(rollout):
            service = self._update(rollout, wanted, live)
        else:
            service = self._create(rollout, wanted, live)
        rollout.learn(
            serviceArn=service.arn,
            deploymentId=service.primary.id if service.primary else "",
            desiredCount=service.desired,
        )
        remember_deployment(rollout, service)

    def _updates(self, rollout: Rollout) -> bool:
        return self.update and existed_before(rollout)

    def _count(self, rollout: Rollout, wanted: Mapping[str, Any]) -> int:
        """As many as the live service runs, where the step or auto scaling asks for that (R208, P07)."""
        blue = rollout.recall("blue before")
        scaling = ScalingState.from_memory(rollout.recall("scaling of blue"))
        if blue is not None and (self.keep_count or scaling.target is not None):
            return count_for_traffic(rollout, blue, scaling)
        return int(wanted.get("desiredCount", 1))

    def _create(self, rollout: Rollout, wanted: Mapping[str, Any], live: EcsService | None) -> EcsService:
        if live is not None and live.is_active:
            raise _superseded(live.name, "was created since this deployment looked at it")
        _announce(rollout, "Creating", wanted)
        return rollout.ecs.create_service(wanted, cluster=rollout.cluster, client_token=rollout.intent)

    def _update(self, rollout: Rollout, wanted: Mapping[str, Any], live: EcsService | None) -> EcsService:
        name = wanted["serviceName"]
        before = rollout.recall("service before")
        if live is None or live.primary is None or live.primary.id != before["primary"]:
            raise _superseded(name, "was changed since this deployment looked at it")
        refuse_production(rollout, live, "to overwrite it")
        rollout.remember("deployments before update", [one.id for one in live.deployments])
        _announce(rollout, "Updating", wanted)
        # launchType, schedulingStrategy and role stay what they are for a service's life (R241).
        for warning in ignored_by_update(wanted, live):
            rollout.log(warning, "warning")
        changes = {**changed_fields(wanted), "forceNewDeployment": True}
        changes |= {key: wanted[key] for key in ("taskDefinition", "desiredCount")}
        return rollout.ecs.update_service(rollout.cluster, name, changes)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_service_write(
            rollout,
            call,
            task_definition=rollout.know("taskDefinitionArn"),
            before="deployments before update",
        )

    def may_undo(self, rollout: Rollout) -> bool:
        """Not while somebody else's deployment runs there, and never while production goes there."""
        name = rollout.know("serviceName")
        seen = rollout.see_service(name)
        service = seen.service
        before = rollout.recall("service before") or {}
        if service is None or service.status in GONE or service.primary is None:
            return True
        refuse_production(rollout, service, "to take it back")
        return is_ours(rollout, seen, service.primary, {rollout.know("deploymentId"), before.get("primary")})

    def undo(self, rollout: Rollout) -> None:
        name = rollout.know("serviceName")
        live = rollout.ecs.describe_service(rollout.cluster, name)
        before = rollout.recall("service before") or {}
        refuse_others_deployment(live, {rollout.know("deploymentId"), before.get("primary")})
        if not self._updates(rollout):
            delete_service(rollout, name, live)
            return
        if live is None:
            return
        changes = update_to_restore(
            rollout.recall("service definition"),
            before,
            trusted(rollout, live),
            count=before["desired"],
            task_definition=before["task_definition"],
        )
        rollout.remember("deployments before undo", [one.id for one in live.deployments])
        if not changes:
            rollout.log(f"Service {name} is already as it was before")
            return
        rollout.log(
            f"Updating Service {name} with task definition {before['task_definition']} "
            f"and desired count {before['desired']}"
        )
        rollout.ecs.update_service(rollout.cluster, name, changes)

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        before = rollout.recall("service before") or {}
        return adopt_service_write(
            rollout, call, task_definition=before.get("task_definition", ""), before="deployments before undo"
        )

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        return restoring_words(known)

    def is_undone(self, rollout: Rollout) -> bool:
        service = rollout.see_service(rollout.know("serviceName")).service
        if self._updates(rollout):
            return settled(rollout, rollout.recall("service before"), service)
        if not is_deleted(rollout, service):
            rollout.rest()
            return False
        live = rollout.recall("blue before") or {"running": 0, "desired": 0}
        rollout.show_counts(running=live["running"], desired=live["desired"], pending=0)
        return True

    def checklist(self, rollout: Rollout) -> list[Check]:
        if existed_before(rollout):
            return service_checks(rollout, rollout.recall("service before")) if self.update else []
        name = rollout.know("serviceName")
        service = rollout.ecs.describe_service(rollout.cluster, name)
        is_gone = service is None or service.status in GONE
        found = "does not exist" if is_gone else service_words(service)
        return [Check(f"Service {name}", "does not exist", found, is_gone)]


def _announce(rollout: Rollout, verb: str, wanted: Mapping[str, Any]) -> None:
    rollout.log("")
    rollout.log(
        f"{verb} Stage Service {wanted['serviceName']} with task definition {wanted['taskDefinition']} "
        f"and desired count {wanted['desiredCount']}"
    )


def _superseded(name: str, what: str) -> ActionFailed:
    return ActionFailed(
        "SUPERSEDED",
        f"Service {name} {what}, by somebody else. Nothing is changed; run the pipeline again.",
        outcome="SUPERSEDED",
    )
