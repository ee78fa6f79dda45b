"""Action that waits until a task of the stage's rolling deployment connects as a delegate."""

from dataclasses import dataclass
from datetime import datetime, timedelta

from steps.actions.base import Action, ActionFailed, action
from steps.actions.context import StepContext
from steps.actions.non_aws_calls import DelegateConnections

CHECK_INTERVAL = timedelta(seconds=5)
DEPLOYING_STEP = "EcsRollingDeploy"


@action
@dataclass(frozen=True)
class WaitForDelegate(Action):
    """Check until a task of the deployment is connected as an instance of a delegate."""

    repeats = True

    delegate: str

    @property
    def title(self) -> str:
        return f"Wait until delegate {self.delegate} connects"

    def start(self, context: StepContext) -> None:
        deployment = context.get_earlier_step(DEPLOYING_STEP)
        if deployment is None or not deployment.get_output("deploymentId"):
            raise ActionFailed(
                "NO_DEPLOYMENT",
                f"No step {DEPLOYING_STEP} of this stage has deployed before this one, so that there are no "
                "tasks to wait for.",
            )
        context.set_outputs(
            deploymentId=deployment.get_output("deploymentId"), waitsSince=context.now().isoformat()
        )
        context.log(f"Waiting until a task of this deployment connects as delegate {self.delegate}")

    def is_done(self, context: StepContext) -> bool:
        connections = self._find_connections(context)
        if connections.connected:
            task = connections.connected[0]
            context.set_outputs(connectedTask=task)
            context.log(f"Delegate {self.delegate} is connected: {task}", "success")
            return True
        for refusal in connections.refusals[:1]:
            if context.progress.get("refusal") != refusal:
                context.progress["refusal"] = refusal
                context.log(f"The registration was refused. {refusal}", "warning")
        context.sleep(context.now() + CHECK_INTERVAL)
        return False

    def check_at_timeout(self, context: StepContext) -> ActionFailed | bool:
        connections = self._find_connections(context)
        if connections.connected:
            return self.is_done(context)
        sentence = f"No task of this deployment connected as delegate {self.delegate}."
        if connections.refusals:
            reason = f"It reaches Slipway, but its registration was refused. {connections.refusals[0]}"
        else:
            reason = (
                "No registration of it arrived: check that its subnets, security groups and proxy let it "
                "reach the address of Slipway, and read its log."
            )
        return ActionFailed("DELEGATE_NOT_CONNECTED", f"{sentence} {reason}")

    def _find_connections(self, context: StepContext) -> DelegateConnections:
        tasks = context.ecs.list_tasks_started_by(context.cluster, str(context.get_output("deploymentId")))
        since = datetime.fromisoformat(str(context.get_output("waitsSince")))
        connections = context.work.find_delegate_connections(self.delegate, tasks, since)
        if connections is None:
            raise ActionFailed(
                "DELEGATE_MISSING",
                f"There is no delegate {self.delegate} in the project of this run or above it. Correct the "
                "name in the step, or create the delegate first.",
            )
        return connections
