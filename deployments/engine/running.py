"""Runs one phase of one action and turns its end into what the engine does next."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta

from aws.errors import AwsError, Denied, Undelivered
from delegates.doors import DoorClosed
from deployments.engine import reacting, slots, sources
from deployments.engine.rollout import EngineRollout
from deployments.engine.schedule import turn_after, wait_since
from deployments.engine.shared import Shared
from deployments.engine.turns import (
    InterruptWaiting,
    Mismatch,
    NeedsAdoption,
    OutOfTime,
    Parked,
    SendingForbidden,
    SlotWanted,
    Trouble,
)
from deployments.models import ActionRun, Call, StepExecution
from steps.actions.base import (
    Action,
    ActionFailed,
    AskAgain,
    CallRecord,
    DidNot,
    Happened,
    NobodyKnows,
    Rollout,
    UnknownActionError,
    Verdict,
    load_action,
)
from steps.states import TERMINAL, CallState, Status

SOON = timedelta(seconds=2)
LONGEST_TROUBLE = 30
LONGEST_REST = timedelta(seconds=60)
CLUSTER_NOT_FOUND = "CLUSTER_NOT_FOUND"


@dataclass(frozen=True)
class Finished:
    """The phase came to its end; `value` is what it returned."""

    rollout: EngineRollout
    value: object


@dataclass(frozen=True)
class Wait:
    """The phase goes on in a later look; None means at once."""

    time: timedelta | None


@dataclass(frozen=True)
class Failed:
    """The phase cannot succeed; where AWS itself `refuses`, trying again changes nothing."""

    failure: ActionFailed
    refuses: bool = False


@dataclass(frozen=True)
class NeverHappened:
    """A replayed start came to a call that was never made."""


End = Finished | Wait | Failed | NeverHappened


def park(shared: Shared, rollout: EngineRollout, *, since: datetime, deadline: datetime | None) -> timedelta:
    """Wait for the next turn since `since`; where an ECS service is waited for, together with its group."""
    now = shared.world.now()
    shared.parking = rollout.parking(since=since, deadline=deadline)
    if rollout.sleeps_until is not None:
        return max(timedelta(0), min(rollout.sleeps_until - now, LONGEST_REST))
    if shared.parking is None and rollout.wakes_at is not None:
        return max(timedelta(0), min(rollout.wakes_at - now, LONGEST_REST))
    if shared.parking is None:
        return wait_since(now - since)
    return turn_after(now, since, shared.parking.group) - now


def load(row: ActionRun) -> Action:
    """The action of a row; raises `UnknownActionError` when this version cannot run it (rule 15)."""
    return load_action(row.name, row.version, row.parameters)


def run(
    shared: Shared,
    row: ActionRun,
    phase: str,
    body: Callable[[Action, Rollout], object],
    *,
    told_in: StepExecution | None = None,
    forbid_sending: bool = False,
    judged: str = "",
) -> End:
    """Run one phase of an action. What it had gathered when it stopped is written first, or with its failure.

    `judged` is the phase whose lost write an adoption judges: it sees what that phase remembered.
    """
    rollout = EngineRollout(shared, row, phase, told_in=told_in, forbid_sending=forbid_sending, judged=judged)
    try:
        action = load(row)
        value = body(action, rollout)
    except ActionFailed as failure:
        _hand_over(rollout)
        return Failed(failure)
    except AwsError as error:
        _hand_over(rollout)
        return _refused(shared, error)
    except DoorClosed as closed:
        return Failed(ActionFailed("CONNECTOR_NOT_USABLE", str(closed)))
    except NeedsAdoption as lost:
        return _adopt(shared, row, lost.call, phase, told_in)
    except SendingForbidden:
        return NeverHappened()
    except (UnknownActionError, Mismatch) as stuck:
        return _ask_a_person(rollout, str(stuck))
    except (InterruptWaiting, OutOfTime, Parked, SlotWanted, Trouble) as turn:
        return _turned(shared, rollout, turn)
    _recover(shared, row, told_in or row.step)
    return Finished(rollout, value)


def _turned(shared: Shared, rollout: EngineRollout, turn: Exception) -> End:
    if isinstance(turn, SlotWanted):
        return _want_slot(shared, rollout, turn)
    if isinstance(turn, Trouble):
        return _in_trouble(shared, rollout, turn)
    if isinstance(turn, Parked):
        rollout.abandon()
        _write_down(rollout)
        return Wait(max(turn.until - shared.world.now(), timedelta(0)))
    shared.rows.forget_changes()
    return Wait(timedelta(0)) if isinstance(turn, OutOfTime) else Wait(None)


def _want_slot(shared: Shared, rollout: EngineRollout, wanted: SlotWanted) -> End:
    _write_down(rollout)
    account = shared.stage.account
    if not account:
        end = run(shared, rollout.row, "account", _account)
        if not isinstance(end, Finished):
            return end
        _write_down(end.rollout)
        account = str(end.value)
    try:
        slots.want(shared, rollout.step, wanted, account)
    except ActionFailed as clash:
        return Failed(clash)
    return Wait(None)


def _account(_action: Action, rollout: Rollout) -> str:
    return rollout.account()


def _hand_over(rollout: EngineRollout) -> None:
    """Leave what was gathered to the next commit: that of a failure, whose reasons must not be lost alone."""
    rollout.finish(keep_progress=not rollout.is_replayed)


def _write_down(rollout: EngineRollout) -> None:
    _hand_over(rollout)
    rollout.save()


def _in_trouble(shared: Shared, rollout: EngineRollout, trouble: Trouble) -> Wait:
    """AWS could not be asked: back off, and tell the watcher once."""
    row = rollout.row
    rollout.abandon()
    if row.trouble == 0:
        rollout.log(f"{trouble.error.sentence} Slipway tries again.", "warning")
    shared.change(row, trouble=row.trouble + 1)
    _write_down(rollout)
    return Wait(timedelta(seconds=min(2**row.trouble, LONGEST_TROUBLE)))


def _recover(shared: Shared, row: ActionRun, step: StepExecution) -> None:
    """What was in the way is gone."""
    if row.trouble:
        shared.change(row, trouble=0)
    # Another step may be the one that waits for a person.
    is_meant = step.intervention is not None or step.status in TERMINAL
    if shared.execution.status == Status.INTERVENTION_WAITING and is_meant:
        shared.change(row, detail="")
        with shared.commit(reload=True):
            reacting.go_on(shared, step)


def _refused(shared: Shared, error: AwsError) -> Failed:
    """A refusal of AWS; of some no second try changes anything: a person has to do something first."""
    if error.code == "ClusterNotFoundException":
        name = shared.stage.cluster
        message = f"Cluster {name} is not there: somebody has deleted it, or it is elsewhere."
        return Failed(ActionFailed(CLUSTER_NOT_FOUND, message), refuses=True)
    return Failed(ActionFailed(_code_of(error), error.sentence), refuses=isinstance(error, Denied))


def _code_of(error: AwsError) -> str:
    if isinstance(error, Undelivered):
        return error.code
    return {"Denied": "ACCESS_DENIED", "Unauthenticated": "CREDENTIALS_REFUSED"}.get(
        type(error).__name__, f"AWS_{error.code}" if error.code else "AWS_ERROR"
    )


def _ask_a_person(rollout: EngineRollout, reason: str) -> Wait:
    """Rules 6 and 15: guessing could do harm, so the execution waits for a person."""
    shared, row = rollout.shared, rollout.row
    text = f"{reason} Slipway waits: decide what happens, or run the version that started it."
    is_asked = rollout.told_in.intervention is not None or rollout.told_in.status in TERMINAL
    if row.detail != text[:512] or not is_asked:
        shared.change(row, detail=text[:512])
        rollout.hand_over()
        with shared.commit(reload=True):
            reacting.ask_about_being_stuck(shared, rollout.told_in, text)
    return Wait(reacting.FOR_A_PERSON)


def _adopt(shared: Shared, row: ActionRun, call: Call, phase: str, told_in: StepExecution | None) -> End:
    """Ask the world what became of a write without an answer (rule 7)."""
    _give_up_waiting(shared, call)
    record = CallRecord(
        call.service,
        call.operation,
        call.parsed_parameters,
        call.sent_at or call.planned_at,
        call.send_number,
    )
    adopting = f"adopt {phase} {call.number}.{call.send_number}"[:24]

    def judge(action: Action, rollout: Rollout) -> Verdict:
        verb = action.adopt_undo if phase.startswith("undo") else action.adopt
        return verb(rollout, record)

    end = run(shared, row, adopting, judge, told_in=told_in, judged=phase)
    if not isinstance(end, Finished):
        return end
    end.rollout.finish(keep_progress=False)
    with shared.commit(reload=True):
        _apply(shared, call, end.value)
    return Wait(SOON) if isinstance(end.value, AskAgain) else Wait(None)


def _give_up_waiting(shared: Shared, call: Call) -> None:
    if call.state == CallState.SENT:
        with shared.commit(reload=True):
            Call.objects.filter(pk=call.pk, state=CallState.SENT).update(state=CallState.UNKNOWN)


def _apply(shared: Shared, call: Call, verdict: object) -> None:
    """Write the verdict down unless the true answer arrived meanwhile."""
    unknown = Call.objects.filter(pk=call.pk, state=CallState.UNKNOWN, send_number=call.send_number)
    if isinstance(verdict, Happened):
        unknown.update(
            state=CallState.ANSWERED,
            adopted=True,
            result=sources.to_json(verdict.answer),
            answered_at=shared.world.now(),
        )
    elif isinstance(verdict, DidNot):
        unknown.update(state=CallState.NOT_SENT)
    elif isinstance(verdict, NobodyKnows):
        error = Undelivered(verdict.code, verdict.message, call.service, call.operation)
        unknown.update(state=CallState.FAILED, error=error.to_record(), answered_at=shared.world.now())
