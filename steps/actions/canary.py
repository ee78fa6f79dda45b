"""The actions of a canary: one task of the new version in an ECS service of its own, and its deletion."""

from dataclasses import dataclass

from aws.types import EcsService
from steps.actions.adoption import adopt_service_write
from steps.actions.base import Action, ActionFailed, CallRecord, Earlier, Rollout, Verdict, action
from steps.actions.known_service import CANARY, GONE, delete_service, existed_before, snapshot_of
from steps.actions.service import CreateOrUpdateService

DEFINITION = "canary definition"


@action
@dataclass(frozen=True)
class PlanCanary(Action):
    """Derive the canary's definition: the service's, under a name of its own, with one task (R220)."""

    @property
    def title(self) -> str:
        return "Plan the canary"

    def start(self, rollout: Rollout) -> None:
        definition = rollout.recall("service definition")
        name = f"{definition['serviceName']}{CANARY}"
        rollout.remember(DEFINITION, {**definition, "serviceName": name, "desiredCount": 1})
        rollout.learn(serviceName=name)


@action
@dataclass(frozen=True)
class CreateCanary(CreateOrUpdateService):
    """Create the canary, or update one that was left behind; undone as its deletion reads (R221, R223)."""

    @property
    def title(self) -> str:
        return "Create the canary"

    def start(self, rollout: Rollout) -> None:
        if existed_before(rollout):
            name = rollout.know("serviceName")
            rollout.log(
                f"Service {name} was left behind by an earlier deployment. It becomes the canary of this one",
                "warning",
            )
        super().start(rollout)

    def undo(self, rollout: Rollout) -> None:
        super().undo(rollout)
        if not existed_before(rollout):
            _announce_wait(rollout, rollout.know("serviceName"))

    def is_undone(self, rollout: Rollout) -> bool:
        is_undone = super().is_undone(rollout)
        if is_undone and not existed_before(rollout):
            _tell_gone(rollout, rollout.know("serviceName"))
        return is_undone


@action
@dataclass(frozen=True)
class DeleteCanary(Action):
    """Delete the ECS service that the canary step of this stage deployed (R223)."""

    settles = ("EcsCanaryDeploy",)

    @property
    def title(self) -> str:
        return "Delete the canary"

    def start(self, rollout: Rollout) -> None:
        canary = rollout.earlier("EcsCanaryDeploy")
        if canary is None or not canary.know("serviceArn"):
            rollout.log(
                "This stage has deployed no canary before this step: there is nothing to delete", "warning"
            )
            return
        name = canary.know("serviceName")
        rollout.learn(serviceName=name)
        live = rollout.ecs.describe_service(rollout.cluster, name)
        rollout.remember("service before", None if live is None else snapshot_of(live))
        _refuse_what_others_deployed(live, canary)
        delete_service(rollout, name, live)
        _announce_wait(rollout, name)
        rollout.await_service(name)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_service_write(rollout, call, task_definition="", before="")

    def is_done(self, rollout: Rollout) -> bool:
        name = rollout.know("serviceName")
        if not name:
            return True
        rollout.rest()
        service = rollout.see_service(name).service
        if service is not None:
            rollout.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if service is not None and service.status != "INACTIVE":
            return False
        _tell_gone(rollout, name)
        return True


def _refuse_what_others_deployed(live: EcsService | None, canary: Earlier) -> None:
    if live is None or live.status in GONE or live.primary is None:
        return
    before = canary.recall("service before") or {}
    if live.primary.id not in (canary.know("deploymentId"), before.get("primary")):
        raise ActionFailed(
            "SUPERSEDED",
            f"Somebody else deployed Service {live.name} meanwhile (deployment {live.primary.id}). It is not "
            "deleted: see what it is for, delete it in AWS if it may go, and run the pipeline again.",
            outcome="SUPERSEDED",
        )


def _announce_wait(rollout: Rollout, name: str) -> None:
    rollout.log(f"Waiting for existing Service {name} to reach inactive state")


def _tell_gone(rollout: Rollout, name: str) -> None:
    rollout.log(f"Existing Service {name} reached inactive state")
    rollout.log(f"Canary service {name} deleted")
