"""The actions that read what a run-task step is to run, and register it."""

from dataclasses import dataclass

from aws.errors import NotFound
from aws.problems import place_of
from aws.rules import together
from guards.limits import TASKS_RUN
from steps.actions.base import Action, ActionFailed, Rollout, action
from steps.actions.manifests import TASK_DEFINITION
from steps.actions.supplies import Loaded
from steps.actions.task_definition import RegisterTaskDefinition

RUN_TASK_REQUEST = "EcsRunTaskRequestDefinition"


@action
@dataclass(frozen=True)
class FetchRunTask(Action):
    """Fetch and check the request and the task definition; `definition_arn` names a registered one."""

    repeats = True
    definition_arn: str = ""

    @property
    def title(self) -> str:
        return "Fetch and check what is to run"

    def start(self, rollout: Rollout) -> None:
        if not self.definition_arn:
            definition = _fetch(rollout, TASK_DEFINITION)
            rollout.remember("task definition", definition.value)
        request = _fetch(rollout, RUN_TASK_REQUEST)
        if self.definition_arn:
            self._take_registered(rollout, request)
        count = request.value.get("count", 1)
        if count > TASKS_RUN:
            raise ActionFailed(
                "TOO_MANY_TASKS", f"The request asks for {count} tasks; one step runs {TASKS_RUN} at most."
            )
        rollout.remember("request", request.value)

    def _take_registered(self, rollout: Rollout, request: Loaded) -> None:
        """A task definition that is registered already, which only AWS can show."""
        try:
            found = rollout.ecs.describe_task_definition(self.definition_arn)
        except NotFound as gone:
            raise ActionFailed(
                "TASK_DEFINITION_MISSING",
                f"There is no task definition {self.definition_arn} in this region.",
            ) from gone
        if not found.is_active:
            raise ActionFailed(
                "TASK_DEFINITION_INACTIVE",
                f"Task definition {found.arn} was deregistered; name one that is ACTIVE.",
            )
        misfits = [one for one in together.problems(request.value, found.raw) if not one.is_warning]
        if misfits:
            lines = [f"{request.paths[0]}: {place_of(one.path)}: {one.message}" for one in misfits]
            raise ActionFailed("BAD_MANIFEST", "\n".join(lines))
        rollout.log(f"Using Task Definition {found.arn}")
        rollout.remember("task definition", found.raw)
        rollout.learn(taskDefinitionArn=found.arn)


@action
@dataclass(frozen=True)
class RegisterTaskToRun(RegisterTaskDefinition):
    """Register the revision that the step's tasks run; after a failure the step deregisters it itself."""

    repeats = True


def _fetch(rollout: Rollout, kind: str) -> Loaded:
    source = rollout.supplies.sources(kind)[0]
    rollout.log(f"Fetching {kind} from {source.store}")
    loaded = rollout.supplies.load(kind)
    for path in loaded.paths:
        rollout.log(f"- {path}")
    for warning in loaded.warnings:
        rollout.log(warning, "warning")
    return loaded
