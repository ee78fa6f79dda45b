"""What becomes of a call as its delegate task is taken, answered or lost (rules 6 to 8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.db import transaction
from django.db.models import QuerySet

from aws.errors import AwsError, NotSent, Unanswered, Undelivered, from_record
from connectors.aws_accounts import OF_DELEGATE, read_spec
from connectors.models import Connector
from delegates import doors
from delegates.lending import refuse_to_lend
from delegates.models import Delegate, DelegateTask
from delegates.owners import BAD_ANSWER, Answer, Payload
from deployments.engine import remote, revealing, work, work_answers
from deployments.engine.masking import secrets_given, secrets_of, with_masks
from deployments.engine.world import REAL, World
from deployments.models import Call
from deployments.regions import region_for
from deployments.tasks import wake_soon
from steps.actions.work import LOST, RUN_TERRAFORM, SEND_REQUEST, SERVICE

# A look repeats its read for minutes; only changes of hands are of interest then.
MOST_HANDS = 20


@dataclass(frozen=True)
class CallOwner:
    """The owner of the delegate tasks that are calls of executions."""

    world: World = REAL

    def acquire(self, task: DelegateTask) -> Payload | None:
        """SENT, with the connector's credentials of this moment; None if nobody wants the call any more."""
        call = _call_of(task)
        if call is None or (taken := remote.acquire(call.pk, self.world)) is None:
            return None
        _note_taken(taken, task, self.world)
        try:
            return _payload(taken, task)
        except doors.DoorClosed as closed:
            self._answer(taken, Undelivered("CONNECTOR_NOT_USABLE", str(closed)))
        except (NotSent, Undelivered) as error:
            self._answer(taken, error)
        return None

    def complete(self, task: DelegateTask, answer: Answer) -> None:
        """The answer goes into the call, unless the call has moved on to another task."""
        call = _call_of(task)
        if call is None:
            return
        if call.service == SERVICE:
            error = work_answers.error_of(answer, call.operation, is_write=call.is_write)
        else:
            error = error_of(answer, call)
        # The call keeps it, and forgets it when its phase ends.
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        if answer.is_bad and _is_terraform(call):
            self._answer(call, None, _lost_terraform(str((answer.error or {})["message"])))
        elif self._answer(call, error, answer) and error is None:
            _learn_account(task, call, answer)

    def again(self, task: DelegateTask) -> None:
        """A read whose delegate was lost: the same task goes to the next one."""
        call = _call_of(task)
        if call is not None and remote.plan_again(call.pk, call.send_number):
            _note_end(call, "LOST")

    def lost(self, task: DelegateTask) -> None:
        """A write whose delegate was lost may have happened: the engine asks the world (rule 7)."""
        call = _call_of(task)
        if call is not None and _is_terraform(call):
            self._answer(call, None, _lost_terraform(task.reason))
        elif call is not None and call.service == SERVICE and not work_answers.may_be_adopted(call.operation):
            # Nothing shows what a script has done: it is told as it is, and never begun again.
            self._answer(call, Undelivered("DELEGATE_LOST", task.reason, call.service, call.operation))
        elif call is not None and remote.lose(call.pk, call.send_number, self.world):
            _note_end(call, "LOST")
            _look_soon(call)

    def secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """The secrets of the execution, and those that the work itself was given."""
        # Also of a call that another task makes by now: lines of this one may still come.
        call = _calls().filter(pk=int(task.owner_ref)).first()
        if call is None:
            return ()
        given = secrets_given(call.execution.scope, call.parsed_parameters) if call.service == SERVICE else ()
        return (*secrets_of(call.step.stage), *given)

    def logged(self, task: DelegateTask) -> None:
        """The next look shows the lines."""
        call = _call_of(task)
        if call is not None:
            remote.wake_after_commit(call.execution_id, self.world)
            _look_soon(call)

    def gave_up(self, task: DelegateTask) -> None:
        """No delegate will make the call: that is its answer."""
        call = _call_of(task)
        if call is not None:
            reason = task.reason or "No delegate made the call."
            error = Undelivered("NO_DELEGATE", reason, call.service, call.operation)
            remote.refuse(call.pk, error, self.world)
            _look_soon(call)

    def _answer(self, call: Call, error: AwsError | None, answer: Answer | None = None) -> bool:
        delivered = remote.deliver(
            call.pk,
            call.send_number,
            self.world,
            result=_result_of(call, answer) if answer and error is None else None,
            error=error,
            duration_ms=answer.duration_ms if answer else None,
        )
        if delivered:
            _note_end(call, "ANSWERED" if error is None else type(error).__name__)
            _look_soon(call)
        return delivered


def _is_terraform(call: Call) -> bool:
    return call.service == SERVICE and call.operation == RUN_TERRAFORM


def _lost_terraform(reason: str) -> Answer:
    """A run of which nobody knows how it ended: it may have changed something, and a rollback must know."""
    return Answer("FAILED", {"ended": LOST, "reason": reason, "begun": True})


def error_of(answer: Answer, call: Call) -> AwsError | None:
    """What the engine makes of an agent's answer; what a delegate lacks may be had by another one."""
    if answer.status == "SUCCEEDED":
        return None
    record = {key: str(value) for key, value in (answer.error or {}).items()}
    code, message = record.get("code", answer.status), record.get("message", "the delegate gave no reason")
    if answer.is_bad and call.is_write:
        return Unanswered(BAD_ANSWER, message, call.service, call.operation)
    if answer.status == "ABORTED" and call.is_write:
        return Unanswered("Aborted", "the delegate was told to stop", call.service, call.operation)
    if answer.status in ("NOT_SENT", "ABORTED"):
        return NotSent(code, message, call.service, call.operation)
    if (answer.error or {}).get("capability") and _is_own_lack(record, call):
        return NotSent(code, message, call.service, call.operation)
    if record.get("kind") == "TaskError":
        return Undelivered(code, message, call.service, call.operation)
    return from_record(record)


def _is_own_lack(record: Mapping[str, str], call: Call) -> bool:
    """A wrong key of the connector is wrong at every delegate."""
    wrong_key = record.get("kind") == "Unauthenticated"
    return not (wrong_key and read_spec(call.step.stage.connector.spec).needs_secret)


def _call_of(task: DelegateTask) -> Call | None:
    """The call, if this task is still the one that makes it."""
    return _calls().filter(pk=int(task.owner_ref), task=task.pk).first()


def _calls() -> QuerySet[Call]:
    return Call.objects.select_related(
        "step__stage__connector__secret", "step__stage__execution__scope", "execution__scope", "action"
    )


def _payload(call: Call, task: DelegateTask) -> Payload:
    """Raises `DoorClosed`, or `NotSent` where this Slipway would lend credentials that it must not lend.

    Raises `Undelivered` where a secret of work is missing.
    """
    stage = call.step.stage
    if call.service == SERVICE:
        work.refuse_to_lend_for(task, call.parsed_parameters)
        payload = work.payload_of(call.execution.scope, call.operation, call.parsed_parameters)
        return with_masks(payload, secrets_of(stage))
    refuse_to_lend(task, stage.connector)
    return doors.call_payload(
        stage.connector,
        region_for(stage, call.step),
        call.service,
        call.operation,
        revealing.as_sent(call.execution.scope, call.service, call.parsed_parameters),
    )


def _result_of(call: Call, answer: Answer) -> dict[str, Any]:
    result, params, scope = dict(answer.result or {}), call.parsed_parameters, call.execution.scope
    if call.service != SERVICE:
        return result
    if call.operation == SEND_REQUEST:
        return work_answers.result_of(call.operation, work.payload_of(scope, call.operation, params), result)
    if work_answers.may_be_adopted(call.operation):
        return work_answers.result_of(call.operation, Payload({}), result, _connector_of(call))
    return result


def _connector_of(call: Call) -> Connector | None:
    try:
        return work.connector_of(call.execution.scope, call.parsed_parameters)
    except doors.DoorClosed:
        return None


def _look_soon(call: Call) -> None:
    transaction.on_commit(lambda: wake_soon(call.execution_id))


def _learn_account(task: DelegateTask, call: Call, answer: Answer) -> None:
    """Whoever says with its own credentials who it is tells in which account it works."""
    own = read_spec(call.step.stage.connector.spec).credentials == OF_DELEGATE
    account = str((answer.result or {}).get("Account", ""))
    if own and call.operation == "GetCallerIdentity" and account.isdigit() and task.instance:
        unknown = Delegate.objects.filter(pk=task.instance.delegate_id, aws_account="", is_built_in=False)
        unknown.update(aws_account=account[:12])


def _note_taken(call: Call, task: DelegateTask, world: World) -> None:
    who = f"{task.instance.delegate.name} on {task.instance.hostname}" if task.instance else ""
    hand = {"delegate": who, "at": world.now().isoformat(), "end": ""}
    hands = [dict(one) for one in call.served_by]
    if hands and hands[-1]["delegate"] == who and hands[-1]["end"] == "ANSWERED":
        hands.pop()
    _keep(call, [*hands, hand][-MOST_HANDS:])


def _note_end(call: Call, end: str) -> None:
    if call.served_by:
        _keep(call, [*call.served_by[:-1], {**call.served_by[-1], "end": end}])


def _keep(call: Call, hands: list[dict[str, Any]]) -> None:
    call.served_by = hands
    Call.objects.filter(pk=call.pk).update(served_by=hands)
