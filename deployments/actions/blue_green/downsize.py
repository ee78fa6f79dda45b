"""The actions that let the old version's tasks go, at once or later, and bring them back (R244)."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from deployments.actions.adoption import adopt_service_write
from deployments.actions.base import Action, CallRecord, Check, Earlier, NotOurs, Rollout, Verdict, action
from deployments.actions.blue_green.restored import service_checks, settled
from deployments.actions.blue_green.traffic import groups_of, healthy_count, other_rule_to, refuse_production
from deployments.actions.known_service import GONE, is_ours


@action
@dataclass(frozen=True)
class WaitBeforeDownsizing(Action):
    """Keep the old version ready for a while: an abort with rollback is instant as long as it runs."""

    seconds: int

    @property
    def title(self) -> str:
        return f"Keep the old service for {self.seconds} seconds"

    def start(self, rollout: Rollout) -> None:
        if not rollout.recall("pair")["blue"]:
            return
        until = rollout.now() + timedelta(seconds=self.seconds)
        rollout.remember("downsize at", until.isoformat())
        rollout.log(
            f"Service {rollout.recall('pair')['blue']} is scaled down in {self.seconds} seconds; "
            "abort with rollback until then, and it takes over again at once"
        )

    def is_done(self, rollout: Rollout) -> bool:
        until = rollout.recall("downsize at")
        return until is None or rollout.now() >= datetime.fromisoformat(until)


@action
@dataclass(frozen=True)
class DownsizeOldService(Action):
    """Scale the service that was live to 0; it stays, ready for the next deployment or a rollback (R244)."""

    has_undo = True
    moves_traffic = True

    @property
    def title(self) -> str:
        return "Scale the old service down"

    def start(self, rollout: Rollout) -> None:
        name = rollout.recall("pair")["blue"]
        if not name:
            return
        live = rollout.ecs.describe_service(rollout.cluster, name)
        if live is None or not live.is_active or live.desired == 0:
            rollout.log(f"Service {name} has no tasks to scale down")
            return
        if rule := other_rule_to(rollout, live):
            rollout.log(
                f"The {rule} still leads to Service {name}, so it is not scaled down. Let that rule "
                "forward to the target group of the prod rule, and scale it down in AWS.",
                "warning",
            )
            return
        refuse_production(rollout, live, "to scale it down")
        rollout.remember("count before", live.desired)
        rollout.remember("healthy targets", {g: healthy_count(rollout, g) for g in groups_of(live.raw)})
        rollout.remember("deployments before downsizing", [one.id for one in live.deployments])
        rollout.log(f"Updating Service {name} with desired count 0")
        rollout.ecs.update_service(rollout.cluster, name, {"desiredCount": 0})

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        before = rollout.recall("blue before")
        return adopt_service_write(
            rollout,
            call,
            task_definition=before["task_definition"],
            before="deployments before downsizing",
        )

    def is_done(self, rollout: Rollout) -> bool:
        if rollout.recall("count before") is None:
            return True
        name = rollout.recall("pair")["blue"]
        service = rollout.see_service(name).service
        running = service.running if service is not None else 0
        if rollout.progress.get("running") != running:
            rollout.progress["running"] = running
            rollout.log(f"Waiting for Service {name} to scale down. {running} running ...")
        if running:
            rollout.rest()
            return False
        rollout.log(f"Service {name} is scaled down to 0 and stays for a rollback")
        return True

    def may_undo(self, rollout: Rollout) -> bool:
        before = rollout.recall("blue before")
        seen = rollout.see_service(before["name"])
        service = seen.service
        if service is None or service.status in GONE or service.primary is None:
            raise NotOurs(f"Service {before['name']} is no longer there: somebody has deleted it.")
        return is_ours(rollout, seen, service.primary, {before["primary"]})

    def undo_words(self, known: Earlier) -> tuple[str, ...]:
        name, count = (known.recall("pair") or {}).get("blue"), known.recall("count before")
        return (f"Service {name}: count 0 back to {count}",) if count is not None else ()

    def undo(self, rollout: Rollout) -> None:
        name, count = rollout.recall("pair")["blue"], rollout.recall("count before")
        live = rollout.ecs.describe_service(rollout.cluster, name)
        rollout.remember("deployments before undo", [one.id for one in live.deployments] if live else [])
        if live is not None and live.desired == count:
            rollout.log(f"Service {name} wants {count} tasks already")
            return
        rollout.log(f"Updating Service {name} with desired count {count}, before traffic goes back to it")
        rollout.ecs.update_service(rollout.cluster, name, {"desiredCount": count})

    def adopt_undo(self, rollout: Rollout, call: CallRecord) -> Verdict:
        before = rollout.recall("blue before")
        return adopt_service_write(
            rollout, call, task_definition=before["task_definition"], before="deployments before undo"
        )

    def is_undone(self, rollout: Rollout) -> bool:
        """Running is not enough: the targets must be as healthy as they were."""
        before = {**rollout.recall("blue before"), "desired": rollout.recall("count before")}
        service = rollout.see_service(before["name"]).service
        if service is not None:
            rollout.show_counts(running=service.running, desired=service.desired, pending=service.pending)
        if not settled(rollout, before, service):
            return False
        healthy = rollout.recall("healthy targets")
        return all(healthy_count(rollout, group) >= count for group, count in healthy.items())

    def checklist(self, rollout: Rollout) -> list[Check]:
        before = {**rollout.recall("blue before"), "desired": rollout.recall("count before")}
        return service_checks(rollout, before)
