"""Launch of ECS tasks: fetch and register their definition, start them, record each attempt."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from aws.apis.ecs_types import TaskFailure
from aws.errors import AwsError, NotFound
from aws.validation.problems import format_path
from aws.validation.rules import compatibility
from guards.limits import RUN_TASK_COUNT
from steps.actions.base import Action, ActionFailed, action
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import LoadedManifest, StepContext
from steps.actions.manifests import TASK_DEFINITION
from steps.actions.task_definitions import RegisterTaskDefinition

RUN_TASK_REQUEST = "EcsRunTaskRequestDefinition"


@action
@dataclass(frozen=True)
class FetchRunTask(Action):
    """Fetch and check the request and the task definition; `definition_arn` names a registered one."""

    repeats = True
    definition_arn: str = ""

    @property
    def title(self) -> str:
        return "Fetch and validate the request and task definition"

    def start(self, context: StepContext) -> None:
        if not self.definition_arn:
            definition = _load_manifest(context, TASK_DEFINITION)
            context.save_for_rollback("task definition", definition.value)
        request = _load_manifest(context, RUN_TASK_REQUEST)
        if self.definition_arn:
            self._take_registered(context, request)
        count = request.value.get("count", 1)
        if count > RUN_TASK_COUNT:
            raise ActionFailed(
                "TOO_MANY_TASKS",
                f"The request asks for {count} tasks; one step runs {RUN_TASK_COUNT} at most.",
            )
        context.save_for_rollback("request", request.value)

    def _take_registered(self, context: StepContext, request: LoadedManifest) -> None:
        """A task definition that is registered already, which only AWS can show."""
        try:
            found = context.ecs.describe_task_definition(self.definition_arn)
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
        misfits = [
            one
            for one in compatibility.validate_compatibility(request.value, found.raw)
            if not one.is_warning
        ]
        if misfits:
            lines = [f"{request.paths[0]}: {format_path(one.path)}: {one.message}" for one in misfits]
            raise ActionFailed("BAD_MANIFEST", "\n".join(lines))
        context.log(f"Using Task Definition {found.arn}")
        context.save_for_rollback("task definition", found.raw)
        context.set_outputs(taskDefinitionArn=found.arn)


@action
@dataclass(frozen=True)
class RegisterTaskToRun(RegisterTaskDefinition):
    """Register the revision that the step's tasks run; after a failure the step deregisters it itself."""

    repeats = True


def _load_manifest(context: StepContext, kind: str) -> LoadedManifest:
    source = context.step_inputs.list_sources(kind)[0]
    context.log(f"Fetching {kind} from {source.store}")
    loaded = context.step_inputs.load_manifest(kind)
    for path in loaded.paths:
        context.log(f"- {path}")
    for warning in loaded.warnings:
        context.log(warning, "warning")
    return loaded


TASKS_PER_CALL = 10
LISTED_STATUSES = ("RUNNING", "STOPPED")


@dataclass(frozen=True)
class RunAttempt:
    """One try of running the tasks; `key` tells it from others of the same step."""

    key: str
    context: StepContext

    def save_existing_tasks(self) -> None:
        """Note which tasks this execution started earlier, so that they are never taken for ours."""
        self.context.save_for_rollback(f"{self.key} before", list_started_tasks(self.context))

    def begin(self, number: int, count: int) -> None:
        """Say that a call for so many tasks is about to be made."""
        self.context.save_for_rollback(f"{self.key} batch {number}", count)

    def end(self, number: int, arns: Sequence[str]) -> None:
        """Say what a call has started."""
        self.context.save_for_rollback(f"{self.key} tasks {number}", list(arns))

    def answered(self) -> list[str]:
        """Return the tasks of every call that was answered."""
        return [arn for number in self._batches() for arn in self._load(f"tasks {number}") or []]

    def open_batches(self) -> list[int]:
        """Return the calls that were about to be made, and whose answer nobody has noted."""
        return [number for number in self._batches() if self._load(f"tasks {number}") is None]

    def not_yet_known(self) -> list[str]:
        """Return the tasks that AWS shows as started by this execution and that no answer accounts for."""
        accounted = {*(self._load("before") or []), *self.answered()}
        return [arn for arn in list_started_tasks(self.context) if arn not in accounted]

    def _batches(self) -> list[int]:
        numbers: list[int] = []
        while self._load(f"batch {len(numbers)}") is not None:
            numbers.append(len(numbers))
        return numbers

    def _load(self, name: str) -> Any:
        return self.context.load_for_rollback(f"{self.key} {name}")


def list_started_tasks(context: StepContext) -> list[str]:
    """Return every task that this execution has started, running or stopped within the last hour."""
    return [
        arn
        for status in LISTED_STATUSES
        for arn in context.ecs.list_tasks_started_by(context.cluster, context.execution_id, status)
    ]


def start_attempt(context: StepContext) -> RunAttempt:
    """Return the try that begins now; other actions of the step find it as the current one."""
    number = 0
    while (known := context.load_for_rollback(f"try {number}")) not in (None, context.intent):
        number += 1
    context.save_for_rollback(f"try {number}", context.intent)
    return RunAttempt(known or context.intent, context)


def get_current_attempt(context: StepContext) -> RunAttempt | None:
    """Return the newest try of this step; None if none has begun."""
    key, number = "", 0
    while known := context.load_for_rollback(f"try {number}"):
        key, number = known, number + 1
    return RunAttempt(key, context) if key else None


_REFUSAL_TEXTS = (
    ("RESOURCE:CPU", "No container instance has enough free CPU units: add instances, or lower the request."),
    ("RESOURCE:MEMORY", "No container instance has enough free memory: add instances, or lower the request."),
    ("RESOURCE:PORTS", "No container instance has the required host ports free."),
    ("RESOURCE:ENI", "No container instance has a free network interface for the task."),
    ("RESOURCE:GPU", "No container instance has enough free GPUs."),
    ("RESOURCE:FARGATE", "Fargate has no capacity for this task now: run again, or use other subnets."),
    ("CAPACITY", "AWS has no capacity for this task now: run again, or use other subnets."),
    ("AGENT", "The agent of the container instance is disconnected, so it accepts no tasks."),
    ("ATTRIBUTE", "No container instance has the attributes that the task definition needs."),
    ("LOCATION", "No container instance meets the placement constraints."),
    ("MEMBEROF", "No container instance meets the placement constraints."),
    ("INACTIVE", "The capacity provider of the task is being removed."),
    ("MISSING", "What the request refers to does not exist in this cluster."),
)


def format_refusals(failures: Iterable[TaskFailure]) -> list[str]:
    """One sentence for each task that was not started, with AWS's own word for it."""
    return [_format_refusal(one) for one in failures]


def _format_refusal(failure: TaskFailure) -> str:
    asked = failure.reason.upper().replace(" ", "")
    words = next((text for word, text in _REFUSAL_TEXTS if word in asked), "AWS did not place the task.")
    where = f" at {failure.arn}" if failure.arn else ""
    detail = f" {failure.detail}" if failure.detail else ""
    return f"{words} ({failure.reason or 'no reason given'}{where}){detail}"


@action
@dataclass(frozen=True)
class RunTasks(Action):
    """Run the tasks in the name of this execution; `hands_over` means that nobody waits for their end."""

    repeats = True
    hands_over: bool = False

    @property
    def title(self) -> str:
        return "Run the tasks"

    def start(self, context: StepContext) -> None:
        request = context.load_for_rollback("request")
        left = request.get("count", 1)
        this = start_attempt(context)
        this.save_existing_tasks()
        context.log(f"Running {left} ECS task{'s' if left != 1 else ''} in cluster {context.cluster}")
        number = 0
        while left:
            count = min(left, TASKS_PER_CALL)
            self._run(context, this, number, count)
            left, number = left - count, number + 1
        if self.hands_over:
            context.save_for_rollback(f"{this.key} went well", True)
            context.log("Skipped Steady State Check")

    def _run(self, context: StepContext, this: RunAttempt, number: int, count: int) -> None:
        request = {
            **context.load_for_rollback("request"),
            "taskDefinition": context.get_output("taskDefinitionArn"),
            "count": count,
            "startedBy": context.execution_id,
        }
        this.begin(number, count)
        try:
            answer = context.ecs.run_task(request, context.cluster, f"{context.intent}-{number}")
        except AwsError:
            this.end(number, [])
            raise
        this.end(number, [task.arn for task in answer.tasks])
        context.set_outputs(taskArns=this.answered())
        for task in answer.tasks:
            context.log(f"Started ECS task {task.id} with Arn {task.arn}")
        if answer.failures or len(answer.tasks) < count:
            raise _build_refusal(context, count, len(answer.tasks), format_refusals(answer.failures))

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        late = is_past_read_lag(context, call)
        this = get_current_attempt(context)
        arns = this.not_yet_known() if this else []
        if len(arns) >= call.params["count"]:
            tasks = context.ecs.describe_tasks(context.cluster, arns)
            return Applied({"tasks": [task.raw for task in tasks], "failures": []})
        # Sent again with its token, it gives the tasks of the first time, with what was refused then.
        return NotApplied() if late else Unconfirmed()


def _build_refusal(context: StepContext, wanted: int, started: int, reasons: list[str]) -> ActionFailed:
    for reason in reasons:
        context.log(f"AWS did not start a task: {reason}", "error")
    why = " ".join(dict.fromkeys(reasons)) or "AWS gave no reason."
    return ActionFailed("TASK_NOT_STARTED", f"AWS started {started} of {wanted} ECS tasks. {why}")
