"""The action that deletes one ECS service that was left behind, after looking again."""

from dataclasses import dataclass

from steps.actions.adoption import adopt_service_write
from steps.actions.base import Action, ActionFailed, CallRecord, Rollout, Verdict, action
from steps.actions.clean_up.judging import StageRoute, base_of, judge, see
from steps.actions.known_service import delete_service, snapshot_of


@action
@dataclass(frozen=True)
class DeleteLeftover(Action):
    """Delete an ECS service with its tasks, unless it receives production traffic by now; not undone."""

    service: str
    stage_listener: str = ""
    stage_rule: str = ""

    @property
    def title(self) -> str:
        return f"Delete Service {self.service}, if it is a leftover"

    def start(self, rollout: Rollout) -> None:
        base = base_of(self.service)
        rollout.take_slot(base)
        rollout.learn(serviceName=self.service)
        stage = StageRoute(self.stage_listener, self.stage_rule)
        world = see(rollout.ecs, rollout.elb, cluster=rollout.cluster, base=base, stage=stage)
        live = world.services.get(self.service)
        rollout.remember("service before", None if live is None else snapshot_of(live))
        if live is None:
            rollout.log(f"Service {self.service} is gone already")
            return
        found = next((one for one in judge(world, base) if one.name == self.service), None)
        if found is None or not found.may_go:
            why = found.why if found else "Its name is none that a strategy of Slipway gives."
            raise ActionFailed("NOT_A_LEFTOVER", f"Service {self.service} is not deleted. {why}")
        rollout.log(f"{found.why} It had {found.running}/{found.desired} tasks")
        delete_service(rollout, self.service, live)
        rollout.log(f"Waiting for existing Service {self.service} to reach inactive state")
        rollout.await_service(self.service)

    def adopt(self, rollout: Rollout, call: CallRecord) -> Verdict:
        return adopt_service_write(rollout, call, task_definition="", before="")

    def is_done(self, rollout: Rollout) -> bool:
        rollout.rest()
        service = rollout.see_service(self.service).service
        if service is not None and service.status != "INACTIVE":
            return False
        rollout.log(f"Existing Service {self.service} reached inactive state", "success")
        return True
