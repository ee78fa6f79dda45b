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
        late, arn = is_past_read_lag(context, call), call.params["resourceArn"]
        return Applied({}) if arn in context.ecs.list_tags(arn) else NotApplied() if late else Unconfirmed()

    @property
    def _tags(self) -> list[str]:
        return [f"{self.name}/{number}" for number in (1, 2)]

    def describe_undo(self, saved: EarlierStep) -> tuple[str, ...]:
        return (f"Stamp {self.name}: gone",)

    def undo(self, context: StepContext) -> None:
        for arn in self._tags:
            if arn in context.ecs.list_tags(arn):
                context.ecs.remove_tags(arn, [arn])

    def confirm_undo(self, context: StepContext, call: CallRecord) -> Confirmation:
        late, arn = is_past_read_lag(context, call), call.params["resourceArn"]
        return (
            Applied({}) if arn not in context.ecs.list_tags(arn) else NotApplied() if late else Unconfirmed()
        )

    def is_undone(self, context: StepContext) -> bool:
        return not any(arn in context.ecs.list_tags(arn) for arn in self._tags)

    def checklist(self, context: StepContext) -> list[ChecklistEntry]:
        remaining = [arn for arn in self._tags if arn in context.ecs.list_tags(arn)]
        return [ChecklistEntry(f"Stamp {self.name}", "none", ", ".join(remaining) or "none", not remaining)]

    def is_done(self, context: StepContext) -> bool:
        began = context.progress.setdefault("began", context.now().timestamp())
        is_over = context.now().timestamp() - began >= self.seconds
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


def _plan(spec: StampSpec) -> Plan:
    yield unit("Stamp", Stamp(spec.name, spec.seconds, spec.fails, spec.service))


def register(patch: pytest.MonkeyPatch) -> None:
    """Let pipelines have stamps while this test runs."""
    kind = StepKind(TYPE, "Stamp", StampSpec, _plan, UNDO, (), 5, ("steps",))
    undo = StepKind(UNDO, "Unstamp", UnstampSpec, lambda spec: iter(()), "", (TYPE,), 10, ("rollbackSteps",))
    patch.setitem(steps._KINDS, TYPE, kind)
    patch.setitem(steps._KINDS, UNDO, undo)
    patch.setitem(actions._ACTIONS, "Stamp", Stamp)


def yaml_of(dice: random.Random) -> str:
    """Return a random pipeline with branches."""
    reaction = dice.choice(("StageRollback", "StageRollback", "Ignore", "MarkAsFailure", "Abort"))
    action = f"{{type: {reaction}}}"
    if dice.random() < 0.3:
        retry_spec = f"retryCount: 1, retryIntervals: [3s], onRetryFailure: {{action: {action}}}"
        action = f"{{type: Retry, spec: {{{retry_spec}}}}}"

    def stamp(name: str, more: str = "") -> str:
        fails = "true" if dice.random() < 0.15 else "false"
        service = "stamp-group" if name in "ab" else f"stamp-{name}"
        fields = f"name: {name}, service: {service}, seconds: {dice.choice((1, 5, 20))}, fails: {fails}"
        spec = f"{{{fields}}}"
        on = f"failureStrategies: [{{onFailure: {{errors: [AllErrors], action: {action}}}}}]"
        return f"- step: {{identifier: {name}, type: {TYPE}, spec: {spec}, {on}{more}}}\n"

    group = "    - stepGroup:\n        identifier: g\n        steps:\n"
    inside = [stamp("a"), stamp("b", ", when: {condition: '<+pipeline.variables.go>'}")]
    branches = [DEPLOY, stamp("c")]
    dice.shuffle(branches)
    text = "- parallel:\n" + "".join(f"    {branch}" for branch in branches)
    text += group + "".join(f"          {step}" for step in inside)
    text += stamp("last") + stamp("told", ", when: {stageStatus: Failure}")
    go = dice.choice(("true", "false"))
    return pipeline_text(_with_undos(stage_text(text), dice), variables=f"{{go: {go}}}")


def _with_undos(stage: str, dice: random.Random) -> str:
    """The stage with a rollback of the stamps before that of the deployment, or beside it."""
    conditions = ("", "", ", when: {condition: '<+pipeline.variables.go>'}", ", when: {stageStatus: Success}")
    undo = UNSTAMP.replace("}", f"{dice.choice(conditions)}}}")
    return _with_back(stage, undo, is_beside=dice.random() < 0.7)


def _with_back(stage: str, undo: str, *, is_beside: bool) -> str:
    assert BACK in stage
    beside = "- parallel:\n" + "".join(f"{' ' * 14}{step}" for step in (undo, BACK))
    return stage.replace(BACK, beside if is_beside else f"{undo}{' ' * 10}{BACK}")


def two_branches() -> str:
    """Return a pipeline with a deployment, a parallel step, and a step after both."""
    first, last = (
        f"- step: {{identifier: {name}, type: {TYPE}, spec: {{name: {name}, service: {name}, seconds: 1}}}}\n"
        for name in ("c", "last")
    )
    failure_step = last.replace("last", "told").replace("}}\n", "}, when: {stageStatus: Failure}}\n")
    text = f"- parallel:\n    {DEPLOY}    {first}{last}{failure_step}"
    return pipeline_text(_with_back(stage_text(text), UNSTAMP, is_beside=True))


def broken_promises(execution: Execution, tags: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the broken promises of branches."""
    rows = StepExecution.objects.filter(stage__execution=execution)
    forward = list(rows.filter(section="EXECUTION").order_by("position"))
    problems = [
        f"{step.identifier} is still {step.status}"
        for step in forward
        if step.status not in TERMINAL_STATUSES
    ]
    by_name = {step.identifier: step for step in forward}
    last, failure_step = by_name["last"], by_name["told"]
    beside = [by_name[name] for name in ("deploy", "a", "b", "c") if name in by_name]
    if last.started_at and any(step.ended_at and step.ended_at > last.started_at for step in beside):
        problems.append("last began before all beside each other had ended")
    if failure_step.started_at and not any(
        step.status == Status.FAILED for step in forward if step is not failure_step
    ):
        problems.append("what runs after a failure ran without one")
    if execution.status == Status.SUCCESS and any(
        step.status not in (Status.SUCCESS, Status.SKIPPED) for step in forward
    ):
        problems.append("SUCCESS although a step did not end well")
    remaining = [arn for arn, stamped in tags.items() if arn in stamped]
    if execution.outcome == "ROLLED_BACK" and remaining:
        problems.append(f"ROLLED_BACK although {remaining} are still there")
    claims = ServiceLockClaim.objects.filter(stage__execution=execution)
    if any(step.started_at for step in forward) and claims.filter(granted_at=None).exists():
        problems.append("a step still waits for its slot")
    return problems
