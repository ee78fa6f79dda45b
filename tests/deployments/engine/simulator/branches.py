"""A pipeline whose deployment has steps beside it, which write as well, and may fail or be skipped."""

import random
from collections.abc import Mapping
from dataclasses import dataclass

import pytest

from deployments.models import Execution, ServiceLockClaim, StepExecution
from steps.actions import base as actions
from steps.actions.base import Action, ActionFailed, ChecklistEntry
from steps.actions.confirmations import (
    Applied,
    CallRecord,
    Confirmation,
    NotApplied,
    Unconfirmed,
    is_past_read_lag,
)
from steps.actions.context import EarlierStep, StepContext
from steps.kinds import registry as steps
from steps.kinds.registry import Plan, StepKind, unit
from steps.states import TERMINAL_STATUSES, Status
from tests.deployments.engine.conftest import DEPLOY, pipeline_text, stage_text

TYPE, UNDO = "SimulatedStamp", "SimulatedUnstamp"
BACK = "- step: {identifier: back_app, type: EcsRollingRollback}\n"
UNSTAMP = f"- step: {{identifier: unstamp, type: {UNDO}}}\n"


@dataclass(frozen=True)
class Stamp(Action):
    """Writes two tags of its own and waits a while; ends badly where it is told to.

    The stamps of the group have one slot, each other one of its own: branches queue for different services.
    """

    has_undo = True

    name: str
    seconds: int
    fails: bool = False
    service: str = "stamped"

    @property
    def title(self) -> str:
        return f"Stamp {self.name}"

    def start(self, context: StepContext) -> None:
        context.acquire_service_lock(self.service, is_main=False)
        for arn in self._tags:
            if arn not in context.ecs.list_tags(arn):
                context.ecs.add_tags(arn, {arn: context.execution_id})
        # Once in each attempt: the verdict counts these lines.
        context.log(f"Created Task Definition stamp {context.intent}")

    def confirm(self, context: StepContext, call: CallRecord) -> Confirmation:
        is_late, arn = is_past_read_lag(context, call), call.params["resourceArn"]
        return (
            Applied({}) if arn in context.ecs.list_tags(arn) else NotApplied() if is_late else Unconfirmed()
        )

    @property
    def _tags(self) -> list[str]:
        return [f"{self.name}/{number}" for number in (1, 2)]

    def describe_undo(self, saved_step: EarlierStep) -> tuple[str, ...]:
        return (f"Stamp {self.name}: gone",)

    def undo(self, context: StepContext) -> None:
        for arn in self._tags:
            if arn in context.ecs.list_tags(arn):
                context.ecs.remove_tags(arn, [arn])

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        is_late, arn = is_past_read_lag(context, call), call.params["resourceArn"]
        return (
            Applied({})
            if arn not in context.ecs.list_tags(arn)
            else NotApplied()
            if is_late
            else Unconfirmed()
        )

    def is_undone(self, context: StepContext) -> bool:
        return not any(arn in context.ecs.list_tags(arn) for arn in self._tags)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        remaining = [arn for arn in self._tags if arn in context.ecs.list_tags(arn)]
        return [ChecklistEntry(f"Stamp {self.name}", "none", ", ".join(remaining) or "none", not remaining)]

    def is_done(self, context: StepContext) -> bool:
        started_at = context.progress.setdefault("began", context.now().timestamp())
        is_over = context.now().timestamp() - started_at >= self.seconds
        if is_over and self.fails:
            raise ActionFailed("STAMP_FAILED", f"The stamp {self.name} was told to fail.")
        return is_over


@dataclass(frozen=True)
class StampSpec:
    """What a stamp is told."""

    seconds: int
    fails: bool = False
    name: str = ""
    service: str = "stamped"


@dataclass(frozen=True)
class UnstampSpec:
    """The rollback of stamps has nothing to choose."""


def _build_plan(spec: StampSpec) -> Plan:
    yield unit("Stamp", Stamp(spec.name, spec.seconds, spec.fails, spec.service))


def register_stamps(patch: pytest.MonkeyPatch) -> None:
    """Let pipelines have stamps while this test runs."""
    kind = StepKind(TYPE, "Stamp", StampSpec, _build_plan, UNDO, (), 5, ("steps",))
    undo_kind = StepKind(
        UNDO, "Unstamp", UnstampSpec, lambda spec: iter(()), "", (TYPE,), 10, ("rollbackSteps",)
    )
    patch.setitem(steps._KINDS, TYPE, kind)
    patch.setitem(steps._KINDS, UNDO, undo_kind)
    patch.setitem(actions._ACTIONS, "Stamp", Stamp)


def build_random_yaml(rng: random.Random) -> str:
    """Return a random pipeline with branches."""
    reaction = rng.choice(("StageRollback", "StageRollback", "Ignore", "MarkAsFailure", "Abort"))
    action = f"{{type: {reaction}}}"
    if rng.random() < 0.3:
        retry_spec = f"retryCount: 1, retryIntervals: [3s], onRetryFailure: {{action: {action}}}"
        action = f"{{type: Retry, spec: {{{retry_spec}}}}}"

    def build_stamp(name: str, step_fields: str = "") -> str:
        fails = "true" if rng.random() < 0.15 else "false"
        service = "stamp-group" if name in "ab" else f"stamp-{name}"
        fields = f"name: {name}, service: {service}, seconds: {rng.choice((1, 5, 20))}, fails: {fails}"
        spec = f"{{{fields}}}"
        strategy = f"failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {action}}}}}]"
        return f"- step: {{identifier: {name}, type: {TYPE}, spec: {spec}, {strategy}{step_fields}}}\n"

    group = "    - stepGroup:\n        identifier: g\n        steps:\n"
    group_steps = [build_stamp("a"), build_stamp("b", ", when: {condition: '<+pipeline.variables.go>'}")]
    branches = [DEPLOY, build_stamp("c")]
    rng.shuffle(branches)
    text = "- parallel:\n" + "".join(f"    {branch}" for branch in branches)
    text += group + "".join(f"          {step}" for step in group_steps)
    text += build_stamp("last") + build_stamp("told", ", when: {stageStatus: Failure}")
    condition = rng.choice(("true", "false"))
    return pipeline_text(_add_undo(stage_text(text), rng), variables=f"{{go: {condition}}}")


def _add_undo(stage: str, rng: random.Random) -> str:
    """Add a rollback of the stamps before that of the deployment, or beside it."""
    conditions = ("", "", ", when: {condition: '<+pipeline.variables.go>'}", ", when: {stageStatus: Success}")
    undo_step = UNSTAMP.replace("}", f"{rng.choice(conditions)}}}")
    return _insert_undo(stage, undo_step, is_beside=rng.random() < 0.7)


def _insert_undo(stage: str, undo_step: str, *, is_beside: bool) -> str:
    assert BACK in stage
    group = "- parallel:\n" + "".join(f"{' ' * 14}{step}" for step in (undo_step, BACK))
    return stage.replace(BACK, group if is_beside else f"{undo_step}{' ' * 10}{BACK}")


def build_two_branches() -> str:
    """Return a pipeline with a deployment, a parallel step, and a step after both."""
    first, last_step = (
        f"- step: {{identifier: {name}, type: {TYPE}, spec: {{name: {name}, service: {name}, seconds: 1}}}}\n"
        for name in ("c", "last")
    )
    failure_step = last_step.replace("last", "told").replace("}}\n", "}, when: {stageStatus: Failure}}\n")
    text = f"- parallel:\n    {DEPLOY}    {first}{last_step}{failure_step}"
    return pipeline_text(_insert_undo(stage_text(text), UNSTAMP, is_beside=True))


def list_violations(execution: Execution, tags: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the broken promises of branches."""
    rows = StepExecution.objects.filter(stage__execution=execution)
    execution_steps = list(rows.filter(section="EXECUTION").order_by("position"))
    problems = [
        f"{step.identifier} is still {step.status}"
        for step in execution_steps
        if step.status not in TERMINAL_STATUSES
    ]
    by_name = {step.identifier: step for step in execution_steps}
    last_step, failure_step = by_name["last"], by_name["told"]
    group_steps = [by_name[name] for name in ("deploy", "a", "b", "c") if name in by_name]
    if last_step.started_at and any(
        step.ended_at and step.ended_at > last_step.started_at for step in group_steps
    ):
        problems.append("last began before all beside each other had ended")
    if failure_step.started_at and not any(
        step.status == Status.FAILED for step in execution_steps if step is not failure_step
    ):
        problems.append("what runs after a failure ran without one")
    if execution.status == Status.SUCCESS and any(
        step.status not in (Status.SUCCESS, Status.SKIPPED) for step in execution_steps
    ):
        problems.append("SUCCESS although a step did not end well")
    remaining = [arn for arn, resources in tags.items() if arn in resources]
    if execution.outcome == "ROLLED_BACK" and remaining:
        problems.append(f"ROLLED_BACK although {remaining} are still there")
    claims = ServiceLockClaim.objects.filter(stage__execution=execution)
    if any(step.started_at for step in execution_steps) and claims.filter(granted_at=None).exists():
        problems.append("a step still waits for its slot")
    return problems
