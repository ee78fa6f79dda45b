"""Step context of a rehearsal: real calls to a private sandbox, everything else in memory."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from aws.caller import Caller
from aws.preview import PlannedCall, PreviewCaller
from delegates.access.site_calls import SITE_SERVICE
from deployments.engine.execution_rows import EarlierStepData
from deployments.engine.steps.inputs import build_expression_values, resolve_value
from deployments.models import StepExecution
from deployments.preview.delegate_reads import open_in_process
from deployments.preview.step_context import PreviewedStageData, PreviewedStepData, PreviewStepContext
from deployments.rehearsal.clocks import RehearsalClock
from deployments.rehearsal.sandbox_access import SandboxCaller
from steps.actions.context import OtherStep
from steps.actions.non_aws_calls import FETCH_FILES, FIND_DIGEST, LIST_TAGS, NonAwsCalls

# Reads without effects, which a step needs before it knows what to deploy.
_FILE_READS = (FETCH_FILES, LIST_TAGS, FIND_DIGEST)


class NotRehearsed(Exception):
    """Signal raised for a call outside AWS, which a rehearsal does not make; the text is the reason."""


@dataclass
class ManifestReads:
    """Reads of manifests and tags for a step from their real stores, and of nothing else."""

    step: StepExecution | None = None

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer. Raises `NotRehearsed` for any other call."""
        if self.step is None or service != SITE_SERVICE or operation not in _FILE_READS:
            raise NotRehearsed(f"A rehearsal does not call {service} {operation}.")
        return open_in_process(self.step).call(service, operation, params)


class RehearsalCaller(PreviewCaller):
    """Caller of a rehearsed stage: AWS calls go to the sandbox, and `calls` has them in order."""

    def __init__(self, sandbox: SandboxCaller, manifests: ManifestReads) -> None:
        super().__init__(manifests)
        self.manifests = manifests
        self._sandbox = sandbox

    @property
    def live_caller(self) -> Caller:
        return self._sandbox

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Return the answer of the sandbox. Raises `AwsError`, `SandboxLost`."""
        self.calls.append(PlannedCall(service, operation, dict(params)))
        return self._sandbox.call(service, operation, params)


class RefusedWork:
    """Replacement for delegates, scripts and requests."""

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """Raise `NotRehearsed`."""
        raise NotRehearsed(OUTSIDE_AWS)


OUTSIDE_AWS = "It does something outside AWS, which a rehearsal does not do."


@dataclass
class RehearsedStepData(PreviewedStepData):
    """Rollback data, outputs and log of a rehearsed step; `times` are the rehearsed seconds of the lines."""

    times: list[int] = field(default_factory=list)


class RehearsalStepContext(PreviewStepContext):
    """Step context of one action in a rehearsal; `number` counts the actions of all steps."""

    def __init__(
        self,
        stage_data: PreviewedStageData,
        step_data: RehearsedStepData,
        number: int,
        outputs: Mapping[str, Any],
        clock: RehearsalClock,
    ) -> None:
        super().__init__(stage_data, step_data, number, outputs)
        self._clock = clock
        self._times = step_data.times
        self.is_write_requested = False
        self.wakes_at: datetime | None = None

    @property
    def work(self) -> NonAwsCalls:
        return NonAwsCalls(RefusedWork())

    @property
    def execution_id(self) -> str:
        return str(self._stage_data.execution.pk)

    @property
    def intent(self) -> str:
        return f"{self._stage_data.execution.pk.hex[:20]}-{self._number}-1"

    def resolve_expression(self, path: str) -> Any:
        values = build_expression_values(self._stage_data.execution, self._stage_data.stage)
        return resolve_value(path, {**values, **self._get_values()})

    def log(self, text: str, level: str = "info") -> None:
        super().log(text, level)
        self._times.append(self._clock.seconds)

    def now(self) -> datetime:
        return self._clock.now

    def wait_for_change(self, until: datetime | None = None) -> None:
        self.wakes_at = until

    def sleep(self, until: datetime) -> None:
        self.wakes_at = until

    def request_write(self) -> None:
        self.is_write_requested = True

    def pass_time(self) -> None:
        """Skip to the next check. Raises `RehearsalTooLong`, `SandboxLost`."""
        wakes_at, self.wakes_at = self.wakes_at, None
        self._clock.pass_time(wakes_at)


class UndoContext(RehearsalStepContext):
    """Step context of one undo in the rehearsal of a rollback."""

    _prefix = ""

    def list_other_steps(self, step_type: str = "") -> list[OtherStep]:
        # Of the real run: steps without an undo are not rehearsed.
        steps = StepExecution.objects.filter(stage__execution=self._stage_data.execution)
        others = steps.exclude(pk=self._step_data.step.pk)
        return [EarlierStepData(step) for step in others if step_type in ("", step.type)]

    @contextmanager
    def use_undo_data(self) -> Iterator[None]:
        """Keep the rollback data of the block apart from that of the step, as the engine does."""
        self._prefix = "undo rehearsed/"
        try:
            yield
        finally:
            self._prefix = ""

    def save_for_rollback(self, name: str, value: Any) -> Any:
        return super().save_for_rollback(f"{self._prefix}{name}", value)

    def load_for_rollback(self, name: str) -> Any:
        value = super().load_for_rollback(f"{self._prefix}{name}")
        return super().load_for_rollback(name) if value is None else value
