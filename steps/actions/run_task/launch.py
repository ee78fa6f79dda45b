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
    CallRecord,
    Confirmation,
    Repeatable,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import EarlierStep, LoadedManifest, StepContext
from steps.actions.manifests import TASK_DEFINITION
from steps.actions.task_definitions import RegisterTaskDefinition

RUN_TASK_STEP_TYPE = "EcsRunTask"
RUN_TASK_REQUEST = "EcsRunTaskRequestDefinition"


@action
@dataclass(frozen=True)
class FetchRunTask(Action):
    """Fetch and validate the request and the task definition; `definition_arn` is a registered one."""

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
            self._save_registered(context, request)
        count = request.value.get("count", 1)
        if count > RUN_TASK_COUNT:
            raise ActionFailed(
                "TOO_MANY_TASKS",
                f"The request asks for {count} tasks; one step runs {RUN_TASK_COUNT} at most.",
            )
        context.save_for_rollback("request", request.value)

    def _save_registered(self, context: StepContext, request: LoadedManifest) -> None:
        """Save a registered task definition, which only AWS can describe."""
        try:
            definition = context.ecs.describe_task_definition(self.definition_arn)
        except NotFound as missing:
            raise ActionFailed(
                "TASK_DEFINITION_MISSING",
                f"There is no task definition {self.definition_arn} in this region.",
            ) from missing
        if not definition.is_active:
            raise ActionFailed(
                "TASK_DEFINITION_INACTIVE",
                f"Task definition {definition.arn} was deregistered; name one that is ACTIVE.",
            )
        problems = [
            problem
            for problem in compatibility.validate_compatibility(request.value, definition.raw)
            if not problem.is_warning
        ]
        if problems:
            lines = [
                f"{request.paths[0]}: {format_path(problem.path)}: {problem.message}" for problem in problems
            ]
            raise ActionFailed("BAD_MANIFEST", "\n".join(lines))
        context.log(f"Using Task Definition {definition.arn}")
        context.save_for_rollback("task definition", definition.raw)
        context.set_outputs(taskDefinitionArn=definition.arn)


@action
@dataclass(frozen=True)
class RegisterTaskToRun(RegisterTaskDefinition):
    """Register the revision of the step's tasks; the step itself deregisters it after a failure."""

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
class SavedAttempt:
    """Calls and tasks that one attempt of a step has recorded; `key` distinguishes it from other attempts."""

    key: str
    context: StepContext | EarlierStep

    def list_answered_tasks(self) -> list[str]:
        """Return the tasks of every answered call."""
        return [arn for number in self._list_batches() for arn in self._load(f"tasks {number}") or []]

    def list_open_batches(self) -> list[int]:
        """Return the numbers of calls without a recorded answer."""
        return [number for number in self._list_batches() if self._load(f"tasks {number}") is None]

    def _list_batches(self) -> list[int]:
        numbers: list[int] = []
        while self._load(f"batch {len(numbers)}") is not None:
            numbers.append(len(numbers))
        return numbers

    def _load(self, name: str) -> Any:
        return self.context.load_for_rollback(f"{self.key} {name}")


@dataclass(frozen=True)
class RunAttempt(SavedAttempt):
    """One attempt of this step to run the tasks."""

    context: StepContext

    def save_existing_tasks(self) -> None:
        """Save the earlier tasks of this execution, which are not tasks of this attempt."""
        self.context.save_for_rollback(f"{self.key} before", list_started_tasks(self.context))

    def record_call(self, number: int, count: int) -> None:
        """Record that a call for `count` tasks is about to be sent."""
        self.context.save_for_rollback(f"{self.key} batch {number}", count)

    def record_answer(self, number: int, arns: Sequence[str]) -> None:
        """Record the tasks that a call started."""
        self.context.save_for_rollback(f"{self.key} tasks {number}", list(arns))

    def record_refusal(self, number: int) -> None:
        """Record that the repetition of a call with a lost answer was refused: its tasks stay unknown."""
        self.context.save_for_rollback(f"{self.key} refused {number}", True)

    @property
    def is_open(self) -> bool:
        """Return whether a call without an answer is repeated if the step is retried."""
        return any(not self._load(f"refused {number}") for number in self.list_open_batches())

    def has_similar_open_calls(self) -> bool:
        """Return whether another step waits for the answer of a call that runs the same task definition."""
        definition = self.context.get_output("taskDefinitionArn")
        return any(
            attempt.list_open_batches()
            for step in self.context.list_other_steps(RUN_TASK_STEP_TYPE)
            if not step.has_ended and step.get_output("taskDefinitionArn") == definition
            for attempt in _list_attempts(step)
        )

    def list_unrecorded_tasks(self) -> list[str]:
        """Return the tasks in AWS that only a lost answer of this attempt can contain.

        Other steps of the execution run tasks too.
        """
        recorded = {*(self._load("before") or []), *self.list_answered_tasks()}
        for step in self.context.list_other_steps(RUN_TASK_STEP_TYPE):
            recorded.update(arn for attempt in _list_attempts(step) for arn in attempt.list_answered_tasks())
        arns = [arn for arn in list_started_tasks(self.context) if arn not in recorded]
        definition = self.context.get_output("taskDefinitionArn")
        tasks = self.context.ecs.describe_tasks(self.context.cluster, arns) if arns else []
        return [task.arn for task in tasks if task.task_definition == definition]


def list_started_tasks(context: StepContext) -> list[str]:
    """Return every task that this execution has started, running or stopped within the last hour."""
    return [
        arn
        for status in LISTED_STATUSES
        for arn in context.ecs.list_tasks_started_by(context.cluster, context.execution_id, status)
    ]


def start_attempt(context: StepContext) -> RunAttempt:
    """Return the attempt that starts now; it is the current one for other actions of the step."""
    number = 0
    while (key := context.load_for_rollback(f"try {number}")) not in (None, context.intent):
        number += 1
    context.save_for_rollback(f"try {number}", context.intent)
    return RunAttempt(key or context.intent, context)


def get_current_attempt(context: StepContext) -> RunAttempt | None:
    """Return the newest attempt of this step; None if there is none."""
    keys = _list_attempt_keys(context)
    return RunAttempt(keys[-1], context) if keys else None


def _list_attempts(step: EarlierStep) -> list[SavedAttempt]:
    return [SavedAttempt(key, step) for key in _list_attempt_keys(step)]


def _list_attempt_keys(saved: StepContext | EarlierStep) -> list[str]:
    keys: list[str] = []
    while key := saved.load_for_rollback(f"try {len(keys)}"):
        keys.append(key)
    return keys


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
    """Return one sentence per task that was not started, with AWS's reason."""
    return [_format_refusal(failure) for failure in failures]


def _format_refusal(failure: TaskFailure) -> str:
    reason = failure.reason.upper().replace(" ", "")
    sentence = next((text for word, text in _REFUSAL_TEXTS if word in reason), "AWS did not place the task.")
    location = f" at {failure.arn}" if failure.arn else ""
    detail = f" {failure.detail}" if failure.detail else ""
    return f"{sentence} ({failure.reason or 'no reason given'}{location}){detail}"


@action
@dataclass(frozen=True)
class RunTasks(Action):
    """Run the tasks as this execution; with `hands_over` the step does not wait for their end."""

    repeats = True
    hands_over: bool = False

    @property
    def title(self) -> str:
        return "Run the tasks"

    def start(self, context: StepContext) -> None:
        request = context.load_for_rollback("request")
        remaining = request.get("count", 1)
        attempt = start_attempt(context)
        attempt.save_existing_tasks()
        context.log(
            f"Running {remaining} ECS task{'s' if remaining != 1 else ''} in cluster {context.cluster}"
        )
        number = 0
        while remaining:
            count = min(remaining, TASKS_PER_CALL)
            self._run_batch(context, attempt, number, count)
            remaining, number = remaining - count, number + 1
        if self.hands_over:
            context.save_for_rollback(f"{attempt.key} went well", True)
            context.log("Skipped Steady State Check")

    def _run_batch(self, context: StepContext, attempt: RunAttempt, number: int, count: int) -> None:
        request = {
            **context.load_for_rollback("request"),
            "taskDefinition": context.get_output("taskDefinitionArn"),
            "count": count,
            "startedBy": context.execution_id,
        }
        attempt.record_call(number, count)
        try:
            answer = context.ecs.run_task(request, context.cluster, f"{context.intent}-{number}")
        except AwsError as error:
            if error.may_have_happened:
                attempt.record_refusal(number)
            else:
                attempt.record_answer(number, [])
            raise
        attempt.record_answer(number, [task.arn for task in answer.tasks])
        context.set_outputs(taskArns=attempt.list_answered_tasks())
        for task in answer.tasks:
            context.log(f"Started ECS task {task.id} with Arn {task.arn}")
        if answer.failures or len(answer.tasks) < count:
            raise _build_refusal(context, count, len(answer.tasks), format_refusals(answer.failures))

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        # No read tells tasks of this call from those of a parallel step. A repetition with the same token
        # returns the tasks and refusals of the first call, once AWS no longer works on it.
        return Repeatable() if is_past_read_lag(context, call) else Unconfirmed()


def _build_refusal(context: StepContext, requested: int, started: int, reasons: list[str]) -> ActionFailed:
    for reason in reasons:
        context.log(f"AWS did not start a task: {reason}", "error")
    reason_text = " ".join(dict.fromkeys(reasons)) or "AWS gave no reason."
    return ActionFailed("TASK_NOT_STARTED", f"AWS started {started} of {requested} ECS tasks. {reason_text}")
