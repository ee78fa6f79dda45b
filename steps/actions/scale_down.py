"""Scaling ECS services down to 0 whose traffic another one has taken over, and up again in a rollback."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws.errors import Denied
from aws.types import EcsService
from steps.actions.adoption import adopt_service_write
from steps.actions.base import Action, CallRecord, Check, Earlier, NotOurs, Rollout, Verdict
from steps.actions.blue_green.registered import registered_in
from steps.actions.blue_green.restored import service_checks, settled
from steps.actions.blue_green.traffic import groups_of, healthy_count
from steps.actions.known_service import GONE, is_ours, refuse_others_deployment
from steps.actions.timing import may_be_stale

_SCALED = "scaled down"
_BEFORE, _BEFORE_UNDO = "deployments before scaling down", "deployments before scaling up"


@dataclass(frozen=True)
class ScaleDown(Action):
    """Scale the ECS services that `snapshots` gives to 0; they stay, ready for a rollback."""

    has_undo = True
    moves_traffic = True

    def snapshots(self, known: Rollout | Earlier) -> Sequence[Mapping[str, Any]]:
        """The services as they were when the step began."""
        raise NotImplementedError

    def may_go(self, rollout: Rollout, live: EcsService) -> bool:
        """Whether nobody needs the tasks of a service any more; says why where somebody does."""
        raise NotImplementedError

    def start(self, rollout: Rollout) -> None:
        for before in self.snapshots(rollout):
            self._scale_down(rollout, before["name"])

    def _scale_down(self, rollout: Rollout, name: str) -> None:
        live = rollout.ecs.describe_service(rollout.cluster, name)
        if live is None or not live.is_active or live.desired == 0:
            rollout.log(f"Service {name} has no tasks to scale down")
            return
        if not self.may_go(rollout, live):
            return
        kept = {"desired": live.desired, "healthy": _healthy(rollout, live)}
        rollout.remember(f"{_SCALED} {name}", kept)
        rollout.remember(f"{_BEFORE} {name}", [one.id for one in live.deployments])
        rollout.log(f"Updating Service {name} with desired count 0")
        rollout.ecs.update_service(rollout.cluster, name, {"desiredCount": 0})

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return self._adopt(rollout, call, _BEFORE)

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return self._adopt(rollout, call, _BEFORE_UNDO)

    def _adopt(self, rollout: Rollout, call: CallRecord, deployments: str) -> Verdict:
        name = call.params["service"]
        (before,) = (one for one in self.snapshots(rollout) if one["name"] == name)
        task_definition = before["task_definition"]
        return adopt_service_write(
            rollout, call, task_definition=task_definition, before=f"{deployments} {name}"
        )

    def _scaled(self, known: Rollout | Earlier) -> list[dict[str, Any]]:
        """The services that were scaled down, as they were right before, with `healthy` targets."""
        found = []
        for before in self.snapshots(known):
            if kept := known.recall(f"{_SCALED} {before['name']}"):
                found.append({**before, "desired": kept["desired"], "healthy": kept["healthy"]})
        return found

    def is_done(self, rollout: Rollout) -> bool:
        return all(self._is_down(rollout, before["name"]) for before in self._scaled(rollout))

    def _is_down(self, rollout: Rollout, name: str) -> bool:
        service = rollout.see_service(name).service
        running = service.running if service is not None else 0
        if rollout.progress.get(f"running {name}") == running == 0:
            return True
        if rollout.progress.get(f"running {name}") != running:
            rollout.progress[f"running {name}"] = running
            rollout.log(f"Waiting for Service {name} to scale down. {running} running ...")
        if running:
            rollout.rest()
            return False
        rollout.log(f"Service {name} is scaled down to 0 and stays for a rollback")
        return True

    def may_undo(self, rollout: Rollout) -> bool:
        return all(self._may_undo(rollout, before) for before in self._scaled(rollout))

    def _may_undo(self, rollout: Rollout, before: Mapping[str, Any]) -> bool:
        seen = rollout.see_service(before["name"])
        service = seen.service
        if service is None or service.status in GONE or service.primary is None:
            raise NotOurs(f"Service {before['name']} is no longer there: somebody has deleted it.")
        return is_ours(rollout, seen, service.primary, {before["primary"]})

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        scaled = self._scaled(known)
        return tuple(f"Service {one['name']}: count 0 back to {one['desired']}" for one in scaled)

    def undo(self, rollout: Rollout) -> None:
        for before in self._scaled(rollout):
            name, count = before["name"], before["desired"]
            live = rollout.ecs.describe_service(rollout.cluster, name)
            deployments = [one.id for one in live.deployments] if live else []
            rollout.remember(f"{_BEFORE_UNDO} {name}", deployments)
            refuse_others_deployment(live, {before["primary"]})
            if live is not None and live.desired == count and not may_be_stale(rollout):
                rollout.log(f"Service {name} wants {count} tasks already")
                continue
            rollout.log(f"Updating Service {name} with desired count {count}, before traffic goes back to it")
            rollout.ecs.update_service(rollout.cluster, name, {"desiredCount": count})

    def is_undone(self, rollout: Rollout) -> bool:
        return all(self._is_up(rollout, before) for before in self._scaled(rollout))

    def _is_up(self, rollout: Rollout, before: Mapping[str, Any]) -> bool:
        """Running is not enough: the targets must be as healthy as they were."""
        service = rollout.see_service(before["name"]).service
        if service is not None:
            rollout.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if not settled(rollout, before, service):
            return False
        if not any(before["healthy"].values()):
            return True
        name, groups = before["name"], list(before["healthy"])
        own = registered_in(rollout, groups, [name], names_others=False)
        return all(own.healthy_of(name, group) >= count for group, count in before["healthy"].items())

    def checklist(self, rollout: Rollout) -> list[Check]:
        return [check for before in self._scaled(rollout) for check in service_checks(rollout, before)]


def _healthy(rollout: Rollout, live: EcsService) -> dict[str, int]:
    """How many healthy targets there are in each of its groups; empty where that may not be read."""
    try:
        # Others may be in the group too: more than its own tasks cannot be its own targets.
        return {group: min(healthy_count(rollout, group), live.desired) for group in groups_of(live.raw)}
    except Denied as denied:
        rollout.log(
            f"{denied.sentence} A rollback goes by the running tasks of Service {live.name}.", "warning"
        )
        return {}
