"""What a preview hands to an action in place of the engine: everything in memory, nothing sent or stored."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aws.cloudformation import CloudFormation
from aws.cloudwatch import CloudWatch
from aws.ecs import Ecs
from aws.elb import Elb
from aws.logs import Logs
from aws.preview import PreviewCaller
from aws.scaling import Scaling
from aws.sts import Sts
from delegates.clock import database_now
from deployments.actions.base import (
    ActionFailed,
    ApprovalState,
    AskedApproval,
    Earlier,
    Loaded,
    Seen,
    Source,
    Template,
)
from deployments.actions.work import FETCH_FILES, SERVICE, Work
from deployments.engine import fetching, pinning, sources
from deployments.engine.flow import are_beside
from deployments.engine.slots import changed_beside
from deployments.expressions import BadExpressionError, value_at
from deployments.models import Execution, StageExecution, StepExecution, StepGroup
from deployments.preview.provisions import PreviewProvisions
from deployments.preview.work import PlannedWork
from deployments.program_files import texts_by_path
from deployments.regions import NO_CLUSTER, known_region
from deployments.step_manifests import frozen_sources
from guards.masks import Mask


@dataclass
class StepMemory:
    """What a step remembers, learns and says."""

    step: StepExecution
    remembered: dict[str, str] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Level and text."""
    slots: set[str] = field(default_factory=set)
    """The ECS services that it changes."""

    def recall(self, name: str) -> Any:
        text = self.remembered.get(name)
        return None if text is None else json.loads(text)

    def know(self, name: str) -> Any:
        return self.facts.get(name)


@dataclass
class StageMemory:
    """A stage as a run would begin it, and its steps as far as the preview has come."""

    execution: Execution
    stage: StageExecution
    caller: PreviewCaller
    mask: Mask
    steps: list[StepMemory] = field(default_factory=list)

    def outputs(self) -> dict[str, Any]:
        return {memory.step.identifier: {"output": memory.facts} for memory in self.steps}


def _around(step: StepExecution) -> list[StepGroup]:
    """The groups around a step that is not written down, the outermost first."""
    found: list[StepGroup] = []
    group = step.group
    while group is not None:
        found.insert(0, group)
        group = group.parent
    return found


class PreviewRollout:
    """One action of a previewed step, as the action sees it: the protocol `Rollout`."""

    def __init__(
        self, shared: StageMemory, memory: StepMemory, number: int, outputs: Mapping[str, Any]
    ) -> None:
        self._shared = shared
        self._memory = memory
        self._number = number
        self._outputs = outputs
        self._own = list(frozen_sources(memory.step.type, memory.step.spec))
        self.progress: dict[str, Any] = {}

    @property
    def cluster(self) -> str:
        if not self._shared.stage.cluster:
            raise ActionFailed("PLACE_NOT_KNOWN", NO_CLUSTER)
        return self._shared.stage.cluster

    @property
    def ecs(self) -> Ecs:
        return Ecs(self._shared.caller)

    @property
    def scaling(self) -> Scaling:
        return Scaling(self._shared.caller)

    @property
    def logs(self) -> Logs:
        return Logs(self._shared.caller)

    @property
    def cloudwatch(self) -> CloudWatch:
        return CloudWatch(self._shared.caller)

    @property
    def work(self) -> Work:
        return Work(PlannedWork(self._shared, self._memory.step))

    @property
    def provisions(self) -> PreviewProvisions:
        return PreviewProvisions(self._memory.step, 0, database_now)

    @property
    def elb(self) -> Elb:
        return Elb(self._shared.caller)

    @property
    def region(self) -> str:
        return known_region(self._shared.stage, self._memory.step)

    @property
    def cloudformation(self) -> CloudFormation:
        return CloudFormation(self._shared.caller)

    @property
    def execution_id(self) -> str:
        return self._shared.caller.placeholder("execution id")

    @property
    def intent(self) -> str:
        return self._shared.caller.placeholder(f"intent {self._number} of {self._memory.step.identifier}")

    def sources(self, kind: str) -> tuple[Source, ...]:
        return sources.listed(self._shared.stage, kind, self._own)

    def load(self, kind: str) -> Loaded:
        self._bring_in(kind)
        return sources.load(self._shared.execution, self._shared.stage, kind, self._known(), self._own)

    def load_all(self, kind: str) -> tuple[Loaded, ...]:
        self._bring_in(kind)
        return sources.load_all(self._shared.execution, self._shared.stage, kind, self._known())

    def program_files(self, kind: str) -> dict[str, str]:
        self._bring_in(kind)
        return texts_by_path(self._own, kind)

    def load_template(self, kind: str) -> Template:
        self._bring_in(kind)
        return sources.load_template(
            self._shared.execution, self._shared.stage, kind, self._known(), self._own
        )

    def _bring_in(self, kind: str) -> None:
        """Fetch the manifests that lie elsewhere, as they are now; a run pins them when it comes there."""
        execution = self._shared.execution
        if pinning.is_wanting(execution.artifact):
            execution.artifact = pinning.pinned(execution.artifact, self._errand)
        rows = self._own if sources.brings(self._own, kind) else self._shared.stage.sources
        groups = fetching.groups_of(rows, kind)
        known = (
            {**sources.known_values(self._shared.execution, self._shared.stage), **self._known()}
            if groups
            else {}
        )
        for number, row in fetching.brought_in(rows, groups, known, self._fetch):
            rows[number] = row

    def _fetch(self, params: dict[str, Any]) -> dict[str, Any]:
        return self._errand(FETCH_FILES, params)

    def _errand(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        # No call of the run's connector, so none that the preview shows.
        return self._shared.caller.caller.call(SERVICE, operation, params)

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

    def now(self) -> datetime:
        return database_now()

    def see_service(self, name: str) -> Seen:
        begun = self.now()
        return Seen(name, self.ecs.describe_service(self.cluster, name), begun)

    def await_service(self, name: str) -> None:
        """Planned services are settled at once."""

    def rest(self, until: datetime | None = None) -> None:
        """There is no next look."""

    def ask_approval(self, asked: AskedApproval) -> None:
        """Nobody is bothered by a preview."""
        people = "one member" if asked.minimum == 1 else f"{asked.minimum} members"
        self.log(f"Waits for approval by {people} of {', '.join(asked.groups)}")

    def approval_state(self) -> ApprovalState:
        return ApprovalState("APPROVED")

    def show_counts(self, *, running: int, desired: int, pending: int) -> None:
        """Nobody watches a preview."""
