"""Step context handed to an action: AWS clients, inputs, outputs, rollback data, approvals, log."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from aws.apis.cloudformation import CloudFormationClient
from aws.apis.cloudwatch import CloudWatchClient
from aws.apis.ecs import EcsClient
from aws.apis.ecs_types import EcsService
from aws.apis.elb import ElbClient
from aws.apis.logs import LogsClient
from aws.apis.scaling import ScalingClient
from aws.caller import Caller
from steps.actions.non_aws_calls import NonAwsCalls


@dataclass(frozen=True)
class ApprovalRequest:
    """Request for an approval; `groups` are the references of user groups as the pipeline writes them."""

    message: str
    groups: tuple[str, ...]
    minimum: int
    without_executor: bool
    inputs: tuple[Mapping[str, Any], ...]
    with_history: bool = False
    key: str = ""
    """Name of this request among those of its action."""
    expires_at: datetime | None = None
    """Deadline before that of the step."""


@dataclass(frozen=True)
class ApprovalState:
    """State of a requested approval; `verdict` is WAITING, APPROVED, REJECTED or EXPIRED."""

    verdict: str
    approvers: tuple[str, ...] = ()
    """Names of the approvers."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    """Name of the person who rejected it."""
    comment: str = ""


@dataclass(frozen=True)
class LoadedManifest:
    """A fetched manifest with resolved expressions, validated against AWS's own model.

    `overrides` are the overrides merged into it, the weakest first (R178).
    """

    value: dict[str, Any]
    paths: tuple[str, ...]
    warnings: tuple[str, ...]
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadedTemplate:
    """A text sent to AWS unchanged except for its resolved expressions, with the name of its source."""

    name: str
    text: str


@dataclass(frozen=True)
class ManifestSource:
    """Location of a manifest in its store."""

    identifier: str
    store: str
    paths: tuple[str, ...]


class StepInputs(Protocol):
    """Manifests of the stage, or of the step itself: fetched once, then pinned."""

    def list_sources(self, kind: str) -> tuple[ManifestSource, ...]:
        """Return the locations of the manifests of a kind; empty if there are none."""
        ...

    def load_manifest(self, kind: str) -> LoadedManifest:
        """Fetch, resolve and validate the manifest of `kind`; raises `ActionFailed` naming file and line.

        Expressions may name outputs of this step, such as `<+targetGroupArn>`.
        """
        ...

    def load_manifests(self, kind: str) -> tuple[LoadedManifest, ...]:
        """Return the same as `load_manifest` for all manifests of a kind."""
        ...

    def load_template(self, kind: str) -> LoadedTemplate:
        """Fetch the template of the step. Raises `ActionFailed` naming the file."""
        ...

    def load_program_files(self, kind: str) -> Mapping[str, str]:
        """Return the texts of the step's own program files by path, fetched if needed."""
        ...


@dataclass(frozen=True)
class AppliedRun:
    """A successfully applied configuration; `used` are the parameters of the run, without secrets.

    `by` names the execution.
    """

    id: str
    used: Mapping[str, Any] = field(repr=False)
    by: str = ""


@dataclass(frozen=True)
class PlannedRun:
    """A stored plan for the step that applies it; `destroys` is None if only the run can decide it."""

    id: str
    used: Mapping[str, Any] = field(repr=False)
    destroys: bool | None = False


class Provisions(Protocol):
    """Runs applied in the stage's environment and infrastructure, by provisioner identifier.

    `used` are the parameters of a run: only runs with its backend and workspace count; without it, all do.
    Changes are saved with the action.
    """

    def latest(self, identifier: str, used: Mapping[str, Any] | None = None) -> AppliedRun | None:
        """Return the run that is applied now, according to Slipway's records."""
        ...

    def find_unplaced(self, identifier: str) -> AppliedRun | None:
        """Return the newest run of an unknown environment, which may be this one or another."""
        ...

    def find(self, applied_id: str) -> AppliedRun | None:
        """Return an applied run, even if it was destroyed since."""
        ...

    def keep(self, identifier: str, used: Mapping[str, Any]) -> str:
        """Record the run that this step applied; returns the same id at each repetition."""
        ...

    def forget(self, identifier: str, used: Mapping[str, Any], *, after: str = "") -> None:
        """Delete the record of the applied run, or only of the runs that came after one of them."""
        ...

    def keep_plan(self, identifier: str, used: Mapping[str, Any], content: str, *, destroys: bool) -> None:
        """Store a plan, base64, until it is applied or expires."""
        ...

    def plan(self, identifier: str) -> PlannedRun | None:
        """Return the newest plan that this execution made for this environment and none applied."""
        ...

    def free_plan(self, plan_id: str) -> None:
        """Delete the content of a used plan."""
        ...


@dataclass(frozen=True)
class ServiceObservation:
    """Observed state of an ECS service; `read_started_at` is the start of the read."""

    name: str
    service: EcsService | None
    read_started_at: datetime


class EarlierStep(Protocol):
    """An earlier step of the same stage: its rollback data and its outputs."""

    def load_for_rollback(self, name: str) -> Any: ...
    def get_output(self, name: str) -> Any: ...


class OtherStep(EarlierStep, Protocol):
    """Another step of the same execution, before, beside or after this one."""

    @property
    def has_ended(self) -> bool: ...


class StepContext(Protocol):
    """Execution of an action: AWS clients, rollback data, outputs and log."""

    @property
    def cluster(self) -> str: ...
    @property
    def ecs(self) -> EcsClient: ...
    @property
    def scaling(self) -> ScalingClient: ...
    @property
    def logs(self) -> LogsClient: ...
    @property
    def elb(self) -> ElbClient: ...
    @property
    def cloudwatch(self) -> CloudWatchClient: ...
    @property
    def work(self) -> NonAwsCalls: ...
    @property
    def provisions(self) -> Provisions: ...
    @property
    def step_inputs(self) -> StepInputs: ...
    @property
    def region(self) -> str:
        """Return the region of the step, else of the stage; empty until it is known."""
        ...

    @property
    def cloudformation(self) -> CloudFormationClient: ...

    @property
    def execution_id(self) -> str:
        """Return the id of the execution, 36 characters, which AWS stores as the starter of an ECS task."""
        ...

    @property
    def force_new_deployment(self) -> bool | None:
        """Return the run request's choice of replacing unchanged tasks; None if it has none."""
        ...

    @property
    def is_undo_retry_requested(self) -> bool:
        """Return whether a person requested this undo again after it had failed for good."""
        ...

    @property
    def written_at(self) -> datetime | None:
        """Return the time at which `start` last sent a write that AWS did not refuse."""
        ...

    @property
    def intent(self) -> str:
        """Return an identifier of this action, execution and attempt, at most 36 characters."""
        ...

    @property
    def progress(self) -> dict[str, Any]:
        """Return the notes of earlier checks of this action; changes are saved with the check."""
        ...

    def get_earlier_step(self, step_type: str) -> EarlierStep | None:
        """Return the last step of this type that ran before this one in the stage; None if none did."""
        ...

    def list_earlier_steps(self, step_type: str) -> list[EarlierStep]:
        """Return the steps of this type before this one in the stage, newest first, also skipped ones."""
        ...

    def list_other_steps(self, step_type: str = "") -> list[OtherStep]:
        """Return all other steps of this type, or of any, in the execution."""
        ...

    def get_account(self) -> str:
        """Return the AWS account of the connector."""
        ...

    def acquire_service_lock(self, ecs_service: str, *, is_main: bool = True) -> None:
        """Lock this ECS service until the stage or its rollback ends (rule 13).

        `is_main` unless it may be another ECS service than the one that the stage deploys.
        """
        ...

    def save_for_rollback(self, name: str, value: Any) -> Any:
        """Save a value for the undo. The first value of a name stays; it is returned."""
        ...

    def load_for_rollback(self, name: str) -> Any: ...
    def set_output(self, name: str, value: str, *, is_secret: bool = False) -> None:
        """Set an output that the pipeline declares; a secret one is masked for everybody."""
        ...

    def resolve_expression(self, path: str) -> Any:
        """Return the value of an expression; raises `ActionFailed` naming the nearest known one."""
        ...

    def set_outputs(self, **outputs: Any) -> None:
        """Set outputs for later actions, expressions and the outputs tab."""
        ...

    def get_output(self, name: str) -> Any: ...
    def log(self, text: str, level: str = "info") -> None: ...
    def redact(self, texts: Sequence[str]) -> list[str]:
        """Return the lines of a text with the secrets of the execution masked."""
        ...

    def add_note(self, text: str) -> None:
        """Log a warning and add it to the notes of the execution, which its outcome shows."""
        ...

    def now(self) -> datetime: ...
    def observe_service(self, name: str) -> ServiceObservation:
        """Return the ECS service from a read begun after this step's last write was answered (rule 10)."""
        ...

    def wait_for_service(self, name: str) -> None:
        """Let this action wait for an ECS service; the first check comes with its batch."""
        ...

    def wait_for_change(self, until: datetime | None = None) -> None:
        """Skip further checks while the observed state of the ECS service is unchanged, until `until`."""
        ...

    def sleep(self, until: datetime) -> None:
        """Make the next check at this time, even if the ECS service changes before."""
        ...

    def request_approval(self, request: ApprovalRequest) -> None:
        """Request an approval of the plan of the later steps; a repetition changes nothing.

        Raises `ActionFailed` if a group does not exist.
        """
        ...

    def get_approval_state(self, key: str = "") -> ApprovalState:
        """Return the state of an approval that this action requested in an earlier pass."""
        ...

    def withdraw_approval(self, key: str) -> None:
        """Withdraw a requested approval that is no longer needed."""
        ...

    def request_write(self) -> None:
        """Let the engine call `write` of this action before its next check; `progress` says what to write."""
        ...

    def show_counts(self, *, running: int, desired: int, pending: int, ended: int = 0) -> None: ...


class AwsClients:
    """Clients of the AWS services that an action uses; `caller` sends their calls."""

    @property
    def caller(self) -> Caller:
        raise NotImplementedError

    @property
    def ecs(self) -> EcsClient:
        return EcsClient(self.caller)

    @property
    def scaling(self) -> ScalingClient:
        return ScalingClient(self.caller)

    @property
    def logs(self) -> LogsClient:
        return LogsClient(self.caller)

    @property
    def cloudwatch(self) -> CloudWatchClient:
        return CloudWatchClient(self.caller)

    @property
    def elb(self) -> ElbClient:
        return ElbClient(self.caller)

    @property
    def cloudformation(self) -> CloudFormationClient:
        return CloudFormationClient(self.caller)
