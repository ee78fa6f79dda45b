"""Step context of a preview: all state in memory, no write is sent or stored."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aws.apis.iam import StsClient
from aws.preview import PlannedCall, PreviewCaller, PreviewLimitReached
from catalog.manifests import fetching
from deployments.approvals.plan import PlannedSource
from deployments.engine.service_locks import build_parallel_conflict
from deployments.engine.steps import inputs as step_inputs
from deployments.engine.steps.manifest_policies import check_manifest_policies
from deployments.engine.steps.scheduler import are_parallel
from deployments.execution.planning.stored_inputs import load_texts_by_path
from deployments.journal.non_aws_calls import InProcessWork, open_work_access
from deployments.journal.provisions import EngineProvisions
from deployments.models import Execution, StageExecution, StepExecution, StepGroup
from deployments.regions import NO_CLUSTER, find_call_region
from guards.masks import SecretMask
from pipelines.definition.step_manifests import list_frozen_sources
from steps.actions.base import ActionFailed
from steps.actions.context import (
    ApprovalRequest,
    ApprovalState,
    AwsClients,
    EarlierStep,
    LoadedManifest,
    LoadedTemplate,
    ManifestSource,
    OtherStep,
    PlannedRun,
    ServiceObservation,
)
from steps.actions.non_aws_calls import DELEGATE_SERVICE, FETCH_FILES, NonAwsCalls
from steps.expressions import BadExpressionError, get_path_value
from web.clock import get_database_time


class PreviewProvisions(EngineProvisions):
    """Provisioner records of a preview: reads the stored ones, stores nothing."""

    def plan(self, identifier: str) -> PlannedRun | None:
        """Return an empty plan: only a run creates one, so the preview assumes that it exists."""
        return PlannedRun("", {}, destroys=None)

    def keep(self, identifier: str, used: Any) -> str:
        return ""

    def flush(self) -> None:
        """Write nothing."""


@dataclass
class PreviewedStepData:
    """Rollback data, outputs and log lines of a previewed step."""

    step: StepExecution
    saved_values: dict[str, str] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    lines: list[tuple[str, str]] = field(default_factory=list)
    """Level and text."""
    locked_services: set[str] = field(default_factory=set)
    """ECS services that it changes."""
    is_skipped: bool = False

    def load_for_rollback(self, name: str) -> Any:
        text = self.saved_values.get(name)
        return None if text is None else json.loads(text)

    def get_output(self, name: str) -> Any:
        return self.outputs.get(name)

    @property
    def has_ended(self) -> bool:
        # One step is previewed after the other.
        return True


@dataclass
class PreviewedStageData:
    """Stage as a run would start it, with the steps previewed so far."""

    execution: Execution
    stage: StageExecution
    caller: PreviewCaller
    mask: SecretMask
    started_at: datetime = field(default_factory=get_database_time)
    """Time of all steps: a repeated preview makes the same calls, so that recorded answers belong to them."""
    steps: list[PreviewedStepData] = field(default_factory=list)
    fetched_sources: list[PlannedSource] = field(default_factory=list)
    """Manifests that were read, at locations that no step of the run determines."""

    def get_step_outputs(self) -> dict[str, Any]:
        return {step_data.step.identifier: {"output": step_data.outputs} for step_data in self.steps}


class PreviewStepInputs:
    """Inputs of a previewed step; `get_values` returns the values of expressions."""

    def __init__(
        self,
        stage_data: PreviewedStageData,
        step: StepExecution,
        get_values: Callable[[], Mapping[str, Any]],
    ) -> None:
        self._stage_data = stage_data
        self._step = step
        self._own = list(list_frozen_sources(step.type, step.spec))
        self._get_values = get_values

    def list_sources(self, kind: str) -> tuple[ManifestSource, ...]:
        return step_inputs.list_sources(self._stage_data.stage, kind, self._own)

    def load_manifest(self, kind: str) -> LoadedManifest:
        return self.load_manifests(kind)[0]

    def load_manifests(self, kind: str) -> tuple[LoadedManifest, ...]:
        self._fetch_sources(kind)
        stage_data = self._stage_data
        manifests = step_inputs.load_manifests(
            stage_data.execution, stage_data.stage, kind, self._get_values(), self._own
        )
        check_manifest_policies(stage_data.execution, stage_data.stage, kind, manifests)
        return manifests

    def load_template(self, kind: str) -> LoadedTemplate:
        self._fetch_sources(kind)
        stage_data = self._stage_data
        return step_inputs.load_template(
            stage_data.execution, stage_data.stage, kind, self._get_values(), self._own
        )

    def load_program_files(self, kind: str) -> dict[str, str]:
        self._fetch_sources(kind)
        return load_texts_by_path(self._own, kind)

    def _fetch_sources(self, kind: str) -> None:
        """Fetch remote manifests in their current state; only a run pins them."""
        execution, stage = self._stage_data.execution, self._stage_data.stage
        if step_inputs.needs_digest(execution.artifact):
            execution.artifact = step_inputs.resolve_image(execution.artifact, self._call_site)
        is_own = step_inputs.has_own_manifest(self._own, kind)
        rows = self._own if is_own else stage.sources
        if not is_own:
            for number, row in fetching.read_local_files(rows, kind, execution.scope):
                self._keep(rows, number, row, is_own=is_own)
        if not (groups := fetching.group_by_location(rows, kind)):
            return
        values = {**step_inputs.build_expression_values(execution, stage), **self._get_values()}
        for number, row in fetching.fetch_groups(
            rows, groups, values, lambda params: self._call_site(FETCH_FILES, params)
        ):
            self._keep(rows, number, row, is_own=is_own)

    def _keep(self, rows: list[dict[str, Any]], number: int, row: dict[str, Any], *, is_own: bool) -> None:
        """Use a manifest with its files from now on."""
        if not fetching.depends_on_steps(rows[number]):
            step = self._step if is_own else None
            self._stage_data.fetched_sources.append(PlannedSource(self._stage_data.stage, step, number, row))
        rows[number] = row

    def _call_site(self, operation: str, params: dict[str, Any]) -> dict[str, Any]:
        # Not a call of the run's connector, so the preview does not show it.
        return self._stage_data.caller.caller.call(DELEGATE_SERVICE, operation, params)


class WorkPlanned(Exception):
    """End of an action in a preview: only a run knows the result of its work."""


class PlannedWork:
    """Replacement for the delegates in a preview."""

    def __init__(self, stage_data: "PreviewedStageData", step: StepExecution) -> None:
        self._stage_data = stage_data
        self._step = step

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Fetch files from this process, or plan the call. Raises `WorkPlanned`, `PreviewLimitReached`,
        `AwsError`.
        """
        if operation != FETCH_FILES:
            self._stage_data.caller.calls.append(PlannedCall(service, operation, dict(params)))
            raise WorkPlanned
        access = open_work_access(self._step, operation, params)
        if isinstance(access, InProcessWork):
            return access.call(service, operation, params)
        raise PreviewLimitReached("The files are fetched by a delegate, which a preview does not ask.")


def _list_groups(step: StepExecution) -> list[StepGroup]:
    """Return the groups of an unsaved step, outermost first."""
    groups: list[StepGroup] = []
    group = step.group
    while group is not None:
        groups.insert(0, group)
        group = group.parent
    return groups


class PreviewStepContext(AwsClients):
    """Step context of one action in a preview."""

    def __init__(
        self,
        stage_data: PreviewedStageData,
        step_data: PreviewedStepData,
        number: int,
        outputs: Mapping[str, Any],
    ) -> None:
        self._stage_data = stage_data
        self._step_data = step_data
        self._number = number
        self._outputs = outputs
        self.step_inputs = PreviewStepInputs(stage_data, step_data.step, self._get_values)
        self.progress: dict[str, Any] = {}

    @property
    def cluster(self) -> str:
        if not self._stage_data.stage.cluster:
            raise ActionFailed("PLACE_NOT_KNOWN", NO_CLUSTER)
        return self._stage_data.stage.cluster

    @property
    def caller(self) -> PreviewCaller:
        return self._stage_data.caller

    @property
    def work(self) -> NonAwsCalls:
        return NonAwsCalls(PlannedWork(self._stage_data, self._step_data.step))

    @property
    def provisions(self) -> PreviewProvisions:
        return PreviewProvisions(self._step_data.step, 0, get_database_time)

    @property
    def region(self) -> str:
        return find_call_region(self._stage_data.stage, self._step_data.step)

    @property
    def execution_id(self) -> str:
        return self._stage_data.caller.create_placeholder("execution id")

    @property
    def force_new_deployment(self) -> bool | None:
        return self._stage_data.execution.force_new_deployment

    @property
    def is_undo_retry_requested(self) -> bool:
        return False

    @property
    def written_at(self) -> None:
        return None

    @property
    def intent(self) -> str:
        return self._stage_data.caller.create_placeholder(
            f"intent {self._number} of {self._step_data.step.identifier}"
        )

    def _get_values(self) -> dict[str, Any]:
        """Return the values of previewed steps, which have no rows, for expressions."""
        steps = {**self._outputs, **self._stage_data.get_step_outputs()}
        return {**self._step_data.outputs, "execution": {"steps": steps, "id": self.execution_id}}

    def get_earlier_step(self, step_type: str) -> EarlierStep | None:
        before = self._list_steps_before(step_type)
        return next((step_data for step_data in before if not step_data.is_skipped), None)

    def list_earlier_steps(self, step_type: str) -> list[EarlierStep]:
        return list(self._list_steps_before(step_type))

    def _list_steps_before(self, step_type: str) -> Iterator[PreviewedStepData]:
        before = self._stage_data.steps[: self._stage_data.steps.index(self._step_data)]
        return (step_data for step_data in reversed(before) if step_data.step.type == step_type)

    def list_other_steps(self, step_type: str = "") -> list[OtherStep]:
        steps = (step_data for step_data in self._stage_data.steps if step_data is not self._step_data)
        return [step_data for step_data in steps if step_type in ("", step_data.step.type)]

    def get_account(self) -> str:
        return StsClient(self._stage_data.caller).get_account_id()

    def acquire_service_lock(self, ecs_service: str, *, is_main: bool = True) -> None:
        """Refuse what a run would refuse; a preview never waits for the lock."""
        own_data = self._step_data
        for other_data in self._stage_data.steps:
            if other_data is own_data or ecs_service not in other_data.locked_services:
                continue
            if are_parallel(_list_groups(own_data.step), _list_groups(other_data.step)):
                raise build_parallel_conflict(own_data.step, other_data.step, ecs_service)
        own_data.locked_services.add(ecs_service)

    def save_for_rollback(self, name: str, value: Any) -> Any:
        self._step_data.saved_values.setdefault(name, json.dumps(value))
        return self._step_data.load_for_rollback(name)

    def load_for_rollback(self, name: str) -> Any:
        return self._step_data.load_for_rollback(name)

    def set_outputs(self, **outputs: Any) -> None:
        self._step_data.outputs.update(outputs)

    def set_output(self, name: str, value: str, *, is_secret: bool = False) -> None:
        self._step_data.outputs[name] = value

    def resolve_expression(self, path: str) -> Any:
        values = {
            **step_inputs.build_expression_values(self._stage_data.execution, self._stage_data.stage),
            **self._get_values(),
        }
        try:
            return get_path_value(path, values)
        except BadExpressionError:
            # Only a run knows the value.
            return self._stage_data.caller.create_placeholder(path)

    def get_output(self, name: str) -> Any:
        return self._step_data.get_output(name)

    def log(self, text: str, level: str = "info") -> None:
        self._step_data.lines.append((level, self._stage_data.mask.mask_text(text)))

    def redact(self, texts: Sequence[str]) -> list[str]:
        return self._stage_data.mask.mask_lines(texts)

    def add_note(self, text: str) -> None:
        self.log(text, "warning")

    def now(self) -> datetime:
        return self._stage_data.started_at

    def observe_service(self, name: str) -> ServiceObservation:
        read_started_at = self.now()
        return ServiceObservation(name, self.ecs.describe_service(self.cluster, name), read_started_at)

    def wait_for_service(self, name: str) -> None:
        """Do nothing: planned services are stable."""

    def wait_for_change(self, until: datetime | None = None) -> None:
        """Do nothing: a preview has no next check."""

    def sleep(self, until: datetime) -> None:
        """Do nothing: a preview has no next check."""

    def request_approval(self, request: ApprovalRequest) -> None:
        """Log the approval; a preview requests none."""
        people = "one member" if request.minimum == 1 else f"{request.minimum} members"
        self.log(f"Waits for approval by {people} of {', '.join(request.groups)}")

    def get_approval_state(self, key: str = "") -> ApprovalState:
        return ApprovalState("APPROVED")

    def withdraw_approval(self, key: str) -> None:
        """Do nothing: a preview requests no approval."""

    def request_write(self) -> None:
        """Do nothing: a preview makes no checks."""

    def show_counts(self, *, running: int, desired: int, pending: int, ended: int = 0) -> None:
        """Do nothing: a preview has no viewers."""
