"""Step context handed to an action: AWS clients, inputs, outputs, rollback data, approvals, log."""

from collections.abc import Mapping
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
    """What people are asked to approve; `groups` are named as a pipeline of the scope names them."""

    message: str
    groups: tuple[str, ...]
    minimum: int
    without_executor: bool
    inputs: tuple[Mapping[str, Any], ...]
    with_history: bool


@dataclass(frozen=True)
class ApprovalState:
    """What has become of it: WAITING, APPROVED, REJECTED or EXPIRED."""

    verdict: str
    approvers: tuple[str, ...] = ()
    """The names of those whose approval counts."""
    inputs: Mapping[str, str] = field(default_factory=dict)
    by: str = ""
    """Who rejected it."""
    comment: str = ""


@dataclass(frozen=True)
class LoadedManifest:
    """A manifest, fetched, with its expressions resolved, checked against AWS's own model.

    `overrides` says what was laid over it, the weakest first (R178).
    """

    value: dict[str, Any]
    paths: tuple[str, ...]
    warnings: tuple[str, ...]
    overrides: tuple[str, ...] = ()


@dataclass(frozen=True)
class LoadedTemplate:
    """A text that a step hands to AWS as it is, with its expressions filled in, and where it came from."""

    name: str
    text: str


@dataclass(frozen=True)
class ManifestSource:
    """Where a manifest lies."""

    identifier: str
    store: str
    paths: tuple[str, ...]


class StepInputs(Protocol):
    """The manifests of the stage, or those that the step brings itself: fetched once, then pinned."""

    def list_sources(self, kind: str) -> tuple[ManifestSource, ...]:
        """Where the manifests of a kind lie; none where there are none."""
        ...

    def load_manifest(self, kind: str) -> LoadedManifest:
        """Fetch, resolve and check the manifest of `kind`; raises `ActionFailed` naming file and line.

        Expressions may name outputs of this step, such as `<+targetGroupArn>`.
        """
        ...

    def load_manifests(self, kind: str) -> tuple[LoadedManifest, ...]:
        """As `load`, every manifest of a kind of which a service may have several."""
        ...

    def load_template(self, kind: str) -> LoadedTemplate:
        """Fetch the template that the step brings. Raises `ActionFailed` naming the file."""
        ...

    def load_program_files(self, kind: str) -> Mapping[str, str]:
        """The texts of the files of a program that the step brings itself, by path; fetched where needed."""
        ...


@dataclass(frozen=True)
class AppliedRun:
    """A configuration that was applied with success: `used` are the parameters of that run, without secrets.

    `by` says which execution it was.
    """

    id: str
    used: Mapping[str, Any] = field(repr=False)
    by: str = ""


@dataclass(frozen=True)
class PlannedRun:
    """A plan that is kept for the step that is to apply it; None where only a run can know of what sort."""

    id: str
    used: Mapping[str, Any] = field(repr=False)
    destroys: bool | None = False


class Provisions(Protocol):
    """What this scope has applied, by the provisioner's identifier; changes are kept with the action."""

    def latest(self, identifier: str) -> AppliedRun | None:
        """What is applied now, as far as Slipway knows."""
        ...

    def find(self, applied_id: str) -> AppliedRun | None:
        """One of those that were applied, also where it was destroyed since."""
        ...

    def keep(self, identifier: str, used: Mapping[str, Any]) -> str:
        """Note what this step has applied; gives back the id of the note, the same each time."""
        ...

    def forget(self, identifier: str, *, after: str = "") -> None:
        """Note that nothing is left of what was applied, or nothing of what came after one of them."""
        ...

    def keep_plan(self, identifier: str, used: Mapping[str, Any], content: str, *, destroys: bool) -> None:
        """Keep a plan, base64, until it is applied, or too old."""
        ...

    def plan(self, identifier: str) -> PlannedRun | None:
        """Return the newest plan that a step of this execution has made and nobody has applied."""
        ...

    def free_plan(self, plan_id: str) -> None:
        """Drop what a plan holds: it was used."""
        ...


@dataclass(frozen=True)
class ServiceObservation:
    """Observed state of an ECS service; `begun` is the start of the read."""

    name: str
    service: EcsService | None
    begun: datetime


class EarlierStep(Protocol):
    """An earlier step of the same stage: its rollback data and its outputs."""

    def load_for_rollback(self, name: str) -> Any: ...
    def get_output(self, name: str) -> Any: ...


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
        """The region that the step names, else that of the stage; empty while nothing has settled it."""
        ...

    @property
    def cloudformation(self) -> CloudFormationClient: ...

    @property
    def execution_id(self) -> str:
        """Return the id of the execution, 36 characters, by which AWS can tell who started an ECS task."""
        ...

    @property
    def force_new_deployment(self) -> bool | None:
        """What the request of the run says of replacing tasks where nothing differs; None: nothing."""
        ...

    @property
    def is_undo_retry_requested(self) -> bool:
        """Whether a person has asked for this undo again after it had been given up, and why was told."""
        ...

    @property
    def written_at(self) -> datetime | None:
        """Return when the start of this action last sent a write that AWS did not refuse."""
        ...

    @property
    def intent(self) -> str:
        """Return a text that names this action of this execution in this attempt, at most 36 characters."""
        ...

    @property
    def progress(self) -> dict[str, Any]:
        """Notes of earlier checks of this action; changes are saved with the check."""
        ...

    def get_earlier_step(self, step_type: str) -> EarlierStep | None:
        """Return the last step of this type before this one in the stage; None if there is none."""
        ...

    def get_account(self) -> str:
        """Return the AWS account behind the connector."""
        ...

    def acquire_service_lock(self, ecs_service: str, *, is_main: bool = True) -> None:
        """Hold the right to change this ECS service until the stage or its rollback ends (rule 13).

        `is_main` unless it may be another ECS service than the one that the stage deploys.
        """
        ...

    def save_for_rollback(self, name: str, value: Any) -> Any:
        """Save a value for the undo. The first value of a name stays; it is returned."""
        ...

    def load_for_rollback(self, name: str) -> Any: ...
    def set_output(self, name: str, value: str, *, is_secret: bool = False) -> None:
        """Set an output that a person named; a secret one is masked for everybody."""
        ...

    def resolve_expression(self, path: str) -> Any:
        """What an expression comes to now; raises `ActionFailed` naming the nearest one that is known."""
        ...

    def set_outputs(self, **outputs: Any) -> None:
        """Set outputs for later actions, expressions and the outputs tab."""
        ...

    def get_output(self, name: str) -> Any: ...
    def log(self, text: str, level: str = "info") -> None: ...
    def add_note(self, text: str) -> None:
        """Log a warning, and keep it beside the outcome: somebody interfered, or the result needs a word."""
        ...

    def now(self) -> datetime: ...
    def observe_service(self, name: str) -> ServiceObservation:
        """Return the ECS service in a snapshot begun after this step's last write was answered (rule 10)."""
        ...

    def wait_for_service(self, name: str) -> None:
        """Let this action wait for an ECS service; the first check comes with its batch."""
        ...

    def wait_for_change(self, until: datetime | None = None) -> None:
        """Skip further checks while the state of the ECS service does not change.

        At `until` the action is checked all the same.
        """
        ...

    def sleep(self, until: datetime) -> None:
        """Check again at that moment and not before, whatever the state of the ECS service."""
        ...

    def request_approval(self, request: ApprovalRequest) -> None:
        """Ask people to approve what the steps after this one would do; asking again changes nothing.

        Raises `ActionFailed` where a group does not exist.
        """
        ...

    def get_approval_state(self) -> ApprovalState:
        """What has become of the approval that this action asked for."""
        ...

    def show_counts(self, *, running: int, desired: int, pending: int) -> None: ...


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
