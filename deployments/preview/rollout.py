"""What a preview hands to an action in place of the engine: everything in memory, nothing sent or stored."""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aws.preview import PreviewCaller
from aws.sts import Sts
from deployments.engine import sources
from deployments.engine.flow import are_beside
from deployments.engine.slots import changed_beside
from deployments.models import StepExecution, StepGroup
from deployments.preview.memories import StageMemory, StepMemory
from deployments.preview.provisions import PreviewProvisions
from deployments.preview.supplies import PreviewSupplies
from deployments.preview.work import PlannedWork
from deployments.regions import NO_CLUSTER, known_region
from pipelines.definition.step_manifests import frozen_sources
from steps.actions.asked import ApprovalState, AskedApproval
from steps.actions.base import ActionFailed, Earlier, Seen
from steps.actions.verbs import Verbs
from steps.actions.work import Work
from steps.expressions import BadExpressionError, value_at
from web.clock import database_now


def _around(step: StepExecution) -> list[StepGroup]:
    """The groups around a step that is not written down, the outermost first."""
    found: list[StepGroup] = []
    group = step.group
    while group is not None:
        found.insert(0, group)
        group = group.parent
    return found


class PreviewRollout(Verbs):
    """One action of a previewed step, as the action sees it: the protocol `Rollout`."""

    def __init__(
        self, shared: StageMemory, memory: StepMemory, number: int, outputs: Mapping[str, Any]
    ) -> None:
        self._shared = shared
        self._memory = memory
        self._number = number
        self._outputs = outputs
        self.supplies = PreviewSupplies(
            shared, list(frozen_sources(memory.step.type, memory.step.spec)), self._known
        )
        self.progress: dict[str, Any] = {}

    @property
    def cluster(self) -> str:
        if not self._shared.stage.cluster:
            raise ActionFailed("PLACE_NOT_KNOWN", NO_CLUSTER)
        return self._shared.stage.cluster

    @property
    def caller(self) -> PreviewCaller:
        return self._shared.caller

    @property
    def work(self) -> Work:
        return Work(PlannedWork(self._shared, self._memory.step))

    @property
    def provisions(self) -> PreviewProvisions:
        return PreviewProvisions(self._memory.step, 0, database_now)

    @property
    def region(self) -> str:
        return known_region(self._shared.stage, self._memory.step)

    @property
    def execution_id(self) -> str:
        return self._shared.caller.placeholder("execution id")

    @property
    def force_new_deployment(self) -> bool | None:
        return None

    @property
    def was_asked(self) -> bool:
        return False

    @property
    def written_at(self) -> None:
        return None

    @property
    def intent(self) -> str:
        return self._shared.caller.placeholder(f"intent {self._number} of {self._memory.step.identifier}")

    def _known(self) -> dict[str, Any]:
        """What expressions may name beside the stage's values: no row knows what was only previewed."""
        steps = {**self._outputs, **self._shared.outputs()}
        return {**self._memory.facts, "execution": {"steps": steps, "id": self.execution_id}}

    def earlier(self, step_type: str) -> Earlier | None:
        before = self._shared.steps[: self._shared.steps.index(self._memory)]
        return next((one for one in reversed(before) if one.step.type == step_type), None)

    def account(self) -> str:
        return Sts(self._shared.caller).caller_identity()

    def take_slot(self, ecs_service: str, *, is_main: bool = True) -> None:
        """A preview changes nothing, so it waits for nobody; what a run would refuse it refuses too."""
        mine = self._memory
        for other in self._shared.steps:
            if other is mine or ecs_service not in other.slots:
                continue
            if are_beside(_around(mine.step), _around(other.step)):
                raise changed_beside(mine.step, other.step, ecs_service)
        mine.slots.add(ecs_service)

    def remember(self, name: str, value: Any) -> Any:
        self._memory.remembered.setdefault(name, json.dumps(value))
        return self._memory.recall(name)

    def recall(self, name: str) -> Any:
        return self._memory.recall(name)

    def learn(self, **facts: Any) -> None:
        self._memory.facts.update(facts)

    def learn_output(self, name: str, value: str, *, is_secret: bool = False) -> None:
        self._memory.facts[name] = value

    def value_of(self, path: str) -> Any:
        known = {**sources.known_values(self._shared.execution, self._shared.stage), **self._known()}
        try:
            return value_at(path, known)
        except BadExpressionError:
            # Only a run can know it.
            return self._shared.caller.placeholder(path)

    def know(self, name: str) -> Any:
        return self._memory.know(name)

    def log(self, text: str, level: str = "info") -> None:
        self._memory.lines.append((level, self._shared.mask.text(text)))

    def note(self, text: str) -> None:
        self.log(text, "warning")

    def now(self) -> datetime:
        return database_now()

    def see_service(self, name: str) -> Seen:
        begun = self.now()
        return Seen(name, self.ecs.describe_service(self.cluster, name), begun)

    def await_service(self, name: str) -> None:
        """Planned services are settled at once."""

    def rest(self, until: datetime | None = None) -> None:
        """There is no next look."""

    def sleep(self, until: datetime) -> None:
        """There is no next look."""

    def ask_approval(self, asked: AskedApproval) -> None:
        """Nobody is bothered by a preview."""
        people = "one member" if asked.minimum == 1 else f"{asked.minimum} members"
        self.log(f"Waits for approval by {people} of {', '.join(asked.groups)}")

    def approval_state(self) -> ApprovalState:
        return ApprovalState("APPROVED")

    def show_counts(self, *, running: int, desired: int, pending: int) -> None:
        """Nobody watches a preview."""
