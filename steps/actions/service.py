"""The actions that remember an ECS service as it was and then create or update it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aws.errors import Invalid
from aws.types import EcsService
from steps.actions.adoption import adopt_service_write
from steps.actions.after_blue_green import remember_pair
from steps.actions.base import (
    Action,
    ActionFailed,
    AskFirst,
    CallRecord,
    Check,
    Earlier,
    Rollout,
    Verdict,
    action,
)
from steps.actions.counts import (
    count_before,
    count_to_ask,
    count_to_create,
    is_count_as_before,
    is_count_of_others,
)
from steps.actions.known_service import (
    GONE,
    create_again,
    delete_service,
    existed_before,
    is_deleted,
    is_ours,
    pair_names,
    refuse_foreign_controller,
    refuse_others_deployment,
    remember_deployment,
    restoring_words,
    service_words,
    snapshot_of,
    trusted,
)
from steps.actions.manifests import TASK_DEFINITION_ARN
from steps.actions.service_fields import (
    changed_fields,
    ignored_by_update,
    needs_new_deployment,
    update_to_restore,
)
from steps.actions.task_definition import adopt_registration, register_again
from steps.actions.timing import forget, wrote_lately

# The output that names the task definition that stands in for an inactive one.
RESTORED = "restoredTaskDefinitionArn"


@action
@dataclass(frozen=True)
class RememberService(Action):
    """Collect what a rollback will need, before anything is changed (R193).

    `definition` names the remembered service definition to go by; the slot is always that of the one deployed
    in the end.
    """

    definition: str = "service definition"

    @property
    def title(self) -> str:
        return "Remember the ECS service as it is"

    def start(self, rollout: Rollout) -> None:
        rollout.take_slot(rollout.recall("service definition")["serviceName"])
        definition = rollout.recall(self.definition)
        name = definition["serviceName"]
        pair = pair_names(rollout.recall("service definition")["serviceName"])
        found = {one.name: one for one in rollout.ecs.describe_services(rollout.cluster, [name, *pair])}
        service = found.pop(name, None)
        before = rollout.remember("service before", None if service is None else snapshot_of(service))
        remember_pair(rollout, definition, service, list(found.values()))
        if before is None or before["status"] in GONE:
            rollout.log(f"Service {name} does not exist yet, it will be created")
            rollout.log("A rollback deletes it again")
            return
        refuse_foreign_controller(before)
        rollout.log(
            f"Service {name} runs {before['running']}/{before['desired']} tasks of "
            f"{before['task_definition']} (deployment {before['primary']})"
        )
        rollout.log("A rollback brings back this task definition and this count")

    def is_done(self, rollout: Rollout) -> bool:
        """A service of this name that still drains would make CreateService fail (T20)."""
        before = rollout.recall("service before")
        if before is None or before["status"] != "DRAINING":
            return True
        name = before["name"]
        if not rollout.progress.get("announced"):
            rollout.log(f"Waiting for existing Service {name} to reach inactive state")
            rollout.progress["announced"] = True
        service = rollout.see_service(name).service
        if service is not None and service.status == "DRAINING":
            rollout.rest()
            return False
        rollout.log(f"Existing Service {name} reached inactive state")
        return True


@action
@dataclass(frozen=True)
class CreateOrUpdateService(Action):
    """Point the ECS service at the new task definition, or create it (R198, R211).

    Where nothing is said of `force`, a task definition by ARN is deployed with a new deployment (R162).
    """

    has_undo = True

    force: bool | None = None
    keep_count: bool = False
    definition: str = "service definition"

    @property
    def title(self) -> str:
        return "Create or update the ECS service"

    def start(self, rollout: Rollout) -> None:
        definition = rollout.recall(self.definition)
        arn = rollout.know("taskDefinitionArn")
        live = rollout.ecs.describe_service(rollout.cluster, definition["serviceName"])
        if existed_before(rollout) or rollout.know("deploymentId"):
            service = self._update(rollout, definition, arn, live)
        else:
            service = self._create(rollout, definition, arn, live)
        rollout.learn(
            serviceArn=service.arn,
            deploymentId=service.primary.id if service.primary else "",
            desiredCount=service.desired,
        )
        remember_deployment(rollout, service)

    def _create(
        self, rollout: Rollout, definition: Mapping[str, Any], arn: str, live: EcsService | None
    ) -> EcsService:
        name = definition["serviceName"]
        if live is not None and live.status == "ACTIVE":
            raise ActionFailed(
                "SUPERSEDED",
                f"Service {name} did not exist when this deployment began, but somebody created it since. "
                "Run the pipeline again to deploy onto it.",
                outcome="SUPERSEDED",
            )
        count = count_to_create(rollout, definition, as_running=self.keep_count)
        wanted = {**definition, "taskDefinition": arn, "desiredCount": count}
        rollout.log(
            f"Creating Service {name} with task definition {arn} and desired count {wanted['desiredCount']}"
        )
        return rollout.ecs.create_service(wanted, cluster=rollout.cluster, client_token=rollout.intent)

    def _update(
        self, rollout: Rollout, definition: Mapping[str, Any], arn: str, live: EcsService | None
    ) -> EcsService:
        name = definition["serviceName"]
        # A retry finds what its earlier attempt deployed, and deploys the same once more.
        earlier = rollout.know("deploymentId")
        known = {earlier, (rollout.recall("service before") or {}).get("primary")}
        if live is None or live.primary is None or live.primary.id not in known:
            raise ActionFailed(
                "SUPERSEDED",
                f"Somebody else changed Service {name} since this one looked at it. Nothing is changed; "
                "run the pipeline again.",
                outcome="SUPERSEDED",
            )
        for warning in ignored_by_update(definition, live):
            rollout.log(warning, "warning")
        changes = {**changed_fields(definition), "taskDefinition": arn}
        count = count_to_ask(rollout, definition, live, as_running=self.keep_count)
        if count is not None:
            changes["desiredCount"] = count
        if earlier or self._is_forced(rollout) or needs_new_deployment(definition, live):
            changes["forceNewDeployment"] = True
        rollout.remember(_memory_of_deployments(rollout), [one.id for one in live.deployments])
        shown = live.desired if count is None else count
        rollout.log(f"Updating Service {name} with task definition {arn} and desired count {shown}")
        return rollout.ecs.update_service(rollout.cluster, name, changes)

    def _is_forced(self, rollout: Rollout) -> bool:
        if rollout.force_new_deployment is not None:
            return rollout.force_new_deployment
        by_arn = rollout.recall(TASK_DEFINITION_ARN) is not None
        return by_arn if self.force is None else self.force

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_service_write(
            rollout,
            call,
            task_definition=rollout.know("taskDefinitionArn"),
            before=_memory_of_deployments(rollout),
        )

    def may_undo(self, rollout: Rollout) -> bool:
        name = rollout.know("serviceName")
        seen = rollout.see_service(name)
        service = seen.service
        if service is None or service.status in GONE or service.primary is None:
            forget(rollout, "foreign primary")
            # A name is free once what had it has drained.
            return service is None or service.status != "DRAINING" or not existed_before(rollout)
        return is_ours(rollout, seen, service.primary, _known(rollout))

    def undo(self, rollout: Rollout) -> None:
        name = rollout.know("serviceName")
        live = rollout.ecs.describe_service(rollout.cluster, name)
        refuse_others_deployment(live, _known(rollout))
        if not existed_before(rollout):
            delete_service(rollout, name, live)
        elif live is None or live.status in GONE:
            _create_again(rollout, name)
        else:
            _restore(rollout, rollout.recall(self.definition), live)

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        if call.operation == "RegisterTaskDefinition":
            return adopt_registration(rollout, call)
        asked = call.params.get("taskDefinition", "")
        return adopt_service_write(rollout, call, task_definition=asked, before="deployments before undo")

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        return restoring_words(known)

    def is_undone(self, rollout: Rollout) -> bool:
        rollout.rest()
        service = rollout.see_service(rollout.know("serviceName")).service
        if not existed_before(rollout):
            is_gone = is_deleted(rollout, service)
            if is_gone:
                rollout.show_counts(running=0, desired=0, pending=0)
            return is_gone
        if service is None or service.primary is None:
            return False
        rollout.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if service.primary.task_definition != _restored(rollout) or len(service.deployments) > 1:
            return False
        if wrote_lately(rollout):
            return False
        settled = service.primary.rollout_state in ("COMPLETED", "", None)
        return settled and service.running >= service.desired

    def checklist(self, rollout: Rollout) -> list[Check]:
        name = rollout.know("serviceName")
        service = rollout.ecs.describe_service(rollout.cluster, name)
        before = rollout.recall("service before")
        if not existed_before(rollout):
            gone = service is None or service.status in GONE
            return [
                Check(
                    f"Service {name}",
                    "does not exist",
                    "does not exist" if gone else service_words(service),
                    gone,
                )
            ]
        if service is None or service.primary is None:
            return [Check(f"Service {name}", "ACTIVE", "does not exist", ok=False)]
        pairs = (
            ("Task definition", _restored(rollout), service.primary.task_definition),
            ("Running tasks", service.desired, service.running),
            ("Deployments under way", 1, len(service.deployments)),
        )
        is_kept = is_count_as_before(rollout, before, service.desired)
        note = ""
        if service.desired != before["desired"]:
            by_others = is_count_of_others(rollout, before, service.desired)
            note = "somebody else set it, so it stays" if by_others else "auto scaling has moved it"
        count = str(before["desired"])
        return [
            Check(f"Desired count of Service {name}", count, str(service.desired), is_kept, note),
            *(
                Check(f"{what} of Service {name}", str(expected), str(found), expected == found)
                for what, expected, found in pairs
            ),
        ]


def _restore(rollout: Rollout, definition: Mapping[str, Any], live: EcsService) -> None:
    before, name = rollout.recall("service before"), live.name
    count: int | None = count_before(rollout, before, live)
    shown = trusted(rollout, live)
    if shown is None and rollout.know("desiredCount") == before["desired"]:
        count = None
    changes = update_to_restore(definition, before, shown, count=count, task_definition=_restored(rollout))
    rollout.remember("deployments before undo", [one.id for one in live.deployments])
    if not changes:
        rollout.log(f"Service {name} is already as it was before")
        return
    rollout.log(
        f"Updating Service {name} with task definition {_restored(rollout)} "
        f"and desired count {changes.get('desiredCount', live.desired)}"
    )
    try:
        service = rollout.ecs.update_service(rollout.cluster, name, changes)
    except Invalid as refused:
        if "inactive" not in refused.message.lower() or "taskDefinition" not in changes:
            raise
        changes["taskDefinition"] = register_again(rollout, before["task_definition"])
        rollout.learn(**{RESTORED: changes["taskDefinition"]})
        service = rollout.ecs.update_service(rollout.cluster, name, changes)
    rollout.learn(rollbackDeploymentId=service.primary.id if service.primary else "")


def _known(rollout: Rollout) -> set[Any]:
    """The deployments that an undo may meet: the one from before, ours, and that of an earlier try."""
    before = rollout.recall("service before") or {}
    return {rollout.know("deploymentId"), before.get("primary"), rollout.know("rollbackDeploymentId")}


def _create_again(rollout: Rollout, name: str) -> None:
    """Create a service that somebody deleted meanwhile, as it was before, once a person has agreed."""
    before = rollout.recall("service before")
    as_before = f"task definition {_restored(rollout)} and desired count {before['desired']}"
    if not rollout.was_asked:
        raise AskFirst(
            "SERVICE_DELETED",
            f"Somebody has deleted Service {name} during the deployment. Try again, and Slipway creates it "
            f"as it was before, with {as_before}; ignore it, and it stays deleted.",
        )
    rollout.note(f"Service {name} was deleted by somebody; the rollback created it again with {as_before}")
    service = create_again(rollout, before, _restored(rollout))
    rollout.learn(rollbackDeploymentId=service.primary.id if service.primary else "")


def _restored(rollout: Rollout) -> str:
    """The task definition that a rollback brings back: the one from before, or what was registered for it."""
    return str(rollout.know(RESTORED) or rollout.recall("service before")["task_definition"])


def _memory_of_deployments(rollout: Rollout) -> str:
    """What is remembered of the deployments right before a write; each attempt finds others."""
    earlier = rollout.know("deploymentId")
    return f"deployments after {earlier}" if earlier else "deployments before update"
