"""Owner of the delegate tasks that are calls of executions."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from django.db import transaction

from aws.errors import AwsError, NotSent, Unanswered, Unavailable, Undelivered, parse_error_record
from connectors.models import Connector
from connectors.secret_managers.base import SecretPending, SecretUnreadable
from connectors.specs.aws import DELEGATE_CREDENTIALS, parse_aws_spec
from connectors.specs.aws_sessions import AwsRun, name_aws_sessions
from delegates.access import aws_access
from delegates.access.aws_access import require_lendable_credentials
from delegates.models import Delegate, DelegateTask
from delegates.task_owners import TaskAnswer, TaskPayload
from deployments.journal import delegate_calls, non_aws_calls, secret_values
from deployments.journal.referenced_secrets import SECRET_PENDING, SECRET_UNREADABLE
from deployments.journal.runtime import LIVE_RUNTIME, EngineRuntime
from deployments.journal.secret_values import add_masks, build_stage_mask, list_stage_secrets
from deployments.log import keep_hidden_lines
from deployments.models import AwsCall
from deployments.regions import get_call_region
from deployments.tasks import request_reconcile
from guards.masks import EMPTY_MASK, HidingMask, SecretMask
from steps.actions.non_aws_calls import DELEGATE_SERVICE, RUN_TERRAFORM, SEND_REQUEST, WORKER_LOST

# Checks repeat a read for minutes; only changes of the delegate are recorded.
MAX_HISTORY = 20


@dataclass(frozen=True)
class CallOwner:
    """The owner of the delegate tasks that are calls of executions."""

    runtime: EngineRuntime = LIVE_RUNTIME

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        """Mark the call as SENT and return its payload; None if it is no longer needed."""
        call = _get_call(task)
        if call is None or (call_row := delegate_calls.claim_call(call.pk, self.runtime)) is None:
            return None
        _record_claim(call_row, task, self.runtime)
        try:
            return _build_payload(call_row, task)
        except (aws_access.ConnectorPending, SecretPending) as pending:
            self._answer(call_row, Unavailable(SECRET_PENDING, str(pending)))
        except aws_access.ConnectorUnavailable as unavailable:
            self._answer(call_row, Undelivered("CONNECTOR_NOT_USABLE", str(unavailable)))
        except SecretUnreadable as unreadable:
            self._answer(call_row, Undelivered(SECRET_UNREADABLE, str(unreadable)))
        except (NotSent, Undelivered) as error:
            self._answer(call_row, error)
        return None

    def complete(self, task: DelegateTask, answer: TaskAnswer) -> None:
        """Record the answer, unless the call has moved on to another task."""
        call = _get_call(task)
        if call is None:
            return
        if _is_terraform(call):
            answer = _mark_as_program_failure(answer)
        if call.service == DELEGATE_SERVICE:
            error = non_aws_calls.parse_work_error(answer, call.operation, is_write=call.is_write)
        else:
            error = parse_agent_error(answer, call)
        # The call stores the result and deletes it when its phase ends.
        DelegateTask.objects.filter(pk=task.pk).update(result="")
        if answer.is_bad and _is_terraform(call):
            self._answer(call, None, _build_lost_run_error(str((answer.error or {})["message"])))
        elif self._answer(call, error, answer) and error is None:
            _record_account(task, call, answer)

    def requeue(self, task: DelegateTask, refusal: str = "") -> None:
        """Return a call to the queue: a read of a lost delegate, or what its delegate could not begin."""
        call = _get_call(task)
        if call is not None and delegate_calls.requeue_call(call.pk, call.send_number):
            _record_end(call, "REFUSED" if refusal else "LOST", refusal)

    def record_lost(self, task: DelegateTask) -> None:
        """Mark a write of a lost delegate as unknown: the engine confirms it in AWS (rule 7)."""
        call = _get_call(task)
        if call is not None and _is_terraform(call):
            self._answer(call, None, _build_lost_run_error(task.reason))
        elif (
            call is not None
            and call.service == DELEGATE_SERVICE
            and not non_aws_calls.is_confirmable(call.operation)
        ):
            # Nothing can show the effect of a script, so it counts as failed and is not repeated.
            self._answer(call, Undelivered("DELEGATE_LOST", task.reason, call.service, call.operation))
        elif call is not None and delegate_calls.mark_unknown(call.pk, call.send_number, self.runtime):
            _record_end(call, "LOST")
            _request_reconcile(call)

    def get_mask(self, task: DelegateTask) -> SecretMask:
        """Return the mask of the secrets of the execution and of those in the parameters of the call."""
        # Also for a call that moved on to another task: lines of this one may still arrive.
        call = _read_call(pk=int(task.owner_ref))
        if call is None:
            return EMPTY_MASK
        params = call.parsed_parameters if call.service == DELEGATE_SERVICE else {}
        return build_stage_mask(call.step.stage, params=params)

    def keep_hidden_lines(self, task: DelegateTask, lines: Sequence[Mapping[str, Any]]) -> None:
        """Keep the lines for the log of the execution."""
        call = _read_call(pk=int(task.owner_ref))
        if call is None:
            return
        now, unit = self.runtime.now(), call.action.unit
        new = [delegate_calls.build_output_line(line, call, unit, call.step, now) for line in lines]
        keep_hidden_lines(call.execution_id, new, call)

    def publish_log(self, task: DelegateTask) -> None:
        """Leave the lines to the next pass."""
        call = _get_call(task)
        if call is not None:
            delegate_calls.wake_after_commit(call.execution_id, self.runtime)
            _request_reconcile(call)

    def record_unanswered(self, task: DelegateTask) -> None:
        """Fail a call that no delegate will make."""
        call = _get_call(task)
        if call is not None:
            reason = task.reason or "No delegate made the call."
            error = Undelivered("NO_DELEGATE", reason, call.service, call.operation)
            delegate_calls.reject_call(call.pk, error, self.runtime)
            _request_reconcile(call)

    def _answer(self, call: AwsCall, error: AwsError | None, answer: TaskAnswer | None = None) -> bool:
        is_recorded = delegate_calls.record_answer(
            call.pk,
            call.send_number,
            self.runtime,
            result=_redact_result(call, answer) if answer and error is None else None,
            error=error,
            duration_ms=answer.duration_ms if answer else None,
        )
        if is_recorded:
            _record_end(call, "ANSWERED" if error is None else type(error).__name__)
            _request_reconcile(call)
        return is_recorded


def _is_terraform(call: AwsCall) -> bool:
    return call.service == DELEGATE_SERVICE and call.operation == RUN_TERRAFORM


def _mark_as_program_failure(answer: TaskAnswer) -> TaskAnswer:
    """Return the answer of a run that failed after it had begun to change as one with a result to undo.

    Older agents answer with another error if the outputs are too large.
    """
    result, error = answer.result or {}, answer.error or {}
    if answer.status != "FAILED" or result.get("begun") is not True or error.get("code") == "ProgramFailed":
        return answer
    ended = {"exit_code": result.get("exit_code") or 1, "command": result.get("command") or "output"}
    errors = [*(result.get("errors") or ()), str(error.get("message") or "the delegate gave no reason")]
    return replace(
        answer,
        result={**result, **ended, "errors": errors},
        error={**error, "kind": "TaskError", "code": "ProgramFailed"},
    )


def _build_lost_run_error(reason: str) -> TaskAnswer:
    """Return the answer of a run without a known end, which may have changed something."""
    return TaskAnswer("FAILED", {"ended": WORKER_LOST, "reason": reason, "begun": True})


def parse_agent_error(answer: TaskAnswer, call: AwsCall) -> AwsError | None:
    """Return the error of an agent's answer; another delegate may have a missing capability."""
    if answer.status == "SUCCEEDED":
        return None
    record = {key: str(value) for key, value in (answer.error or {}).items()}
    code, message = record.get("code", answer.status), record.get("message", "the delegate gave no reason")
    # Agents of earlier releases answer so for an error after AWS had the write.
    is_internal_error = code == "DelegateError" and call.service != DELEGATE_SERVICE
    if (answer.is_bad or is_internal_error) and call.is_write:
        return Unanswered(code, message, call.service, call.operation)
    if answer.status == "ABORTED" and call.is_write:
        return Unanswered("Aborted", "the delegate was told to stop", call.service, call.operation)
    if answer.status in ("NOT_SENT", "ABORTED"):
        return NotSent(code, message, call.service, call.operation)
    if (answer.error or {}).get("capability") and _is_connector_error(record, call):
        return NotSent(code, message, call.service, call.operation)
    if record.get("kind") == "TaskError":
        return Undelivered(code, message, call.service, call.operation)
    return parse_error_record(record)


def _is_connector_error(record: Mapping[str, str], call: AwsCall) -> bool:
    """Return whether another delegate may succeed; a wrong key of the connector fails everywhere."""
    wrong_key = record.get("kind") == "Unauthenticated"
    return not (wrong_key and parse_aws_spec(call.step.stage.connector.spec).needs_secret)


def _get_call(task: DelegateTask) -> AwsCall | None:
    """Return the call if this task still makes it."""
    return _read_call(pk=int(task.owner_ref), task=task.pk)


def _read_call(**conditions: Any) -> AwsCall | None:
    rows = AwsCall.objects.select_related(
        "step__stage__connector__secret", "step__stage__execution__scope", "execution__scope", "action"
    )
    # Not by `first`, which orders: a part of what Django computes for a query of many columns.
    return next(iter(rows.filter(**conditions)[:1]), None)


def _build_payload(call: AwsCall, task: DelegateTask) -> TaskPayload:
    """Return the payload of a call with its secrets.

    Raises `ConnectorUnavailable`, `NotSent` if Slipway must not lend the credentials, or `Undelivered` if a
    secret is missing.
    """
    stage = call.step.stage
    if call.service == DELEGATE_SERVICE:
        non_aws_calls.refuse_credential_lending(task, call.parsed_parameters)
        payload = non_aws_calls.build_work_payload(
            call.execution.scope, call.operation, call.parsed_parameters
        )
        return add_masks(payload, list_stage_secrets(stage))
    require_lendable_credentials(task, stage.connector)
    with name_aws_sessions(lambda: AwsRun(call.execution.pipeline.identifier, str(call.execution_id))):
        return aws_access.build_aws_payload(
            stage.connector,
            get_call_region(stage, call.step),
            call.service,
            call.operation,
            secret_values.inject_secrets(
                call.step, call.execution.scope, call.service, call.parsed_parameters
            ),
        )


def _redact_result(call: AwsCall, answer: TaskAnswer) -> dict[str, Any]:
    result, params, scope = dict(answer.result or {}), call.parsed_parameters, call.execution.scope
    if call.service != DELEGATE_SERVICE:
        return result
    if call.operation == SEND_REQUEST:
        try:
            payload = non_aws_calls.build_work_payload(scope, call.operation, params)
        except (Undelivered, Unavailable) as unreadable:
            mask = HidingMask(str(unreadable))
            return {name: mask.mask_json(value) for name, value in result.items()}
        return non_aws_calls.redact_work_result(call.operation, payload, result)
    if non_aws_calls.is_confirmable(call.operation):
        return non_aws_calls.redact_work_result(call.operation, TaskPayload({}), result, _get_connector(call))
    return result


def _get_connector(call: AwsCall) -> Connector | None:
    try:
        return non_aws_calls.find_work_connector(call.execution.scope, call.parsed_parameters)
    except aws_access.ConnectorUnavailable:
        return None


def _request_reconcile(call: AwsCall) -> None:
    transaction.on_commit(lambda: request_reconcile(call.execution_id))


def _record_account(task: DelegateTask, call: AwsCall, answer: TaskAnswer) -> None:
    """Record the account of a delegate that works with its own credentials."""
    uses_own_credentials = parse_aws_spec(call.step.stage.connector.spec).credentials == DELEGATE_CREDENTIALS
    account = str((answer.result or {}).get("Account", ""))
    if uses_own_credentials and call.operation == "GetCallerIdentity" and account.isdigit() and task.instance:
        delegates = Delegate.objects.filter(pk=task.instance.delegate_id, aws_account="", is_built_in=False)
        delegates.update(aws_account=account[:12])


def _record_claim(call: AwsCall, task: DelegateTask, runtime: EngineRuntime) -> None:
    delegate = f"{task.instance.delegate.name} on {task.instance.hostname}" if task.instance else ""
    entry = {"delegate": delegate, "at": runtime.now().isoformat(), "end": ""}
    history = [dict(entry_row) for entry_row in call.served_by]
    if history and history[-1]["delegate"] == delegate and history[-1]["end"] == "ANSWERED":
        history.pop()
    _save_history(call, [*history, entry][-MAX_HISTORY:])


def _record_end(call: AwsCall, end: str, reason: str = "") -> None:
    if call.served_by:
        details = {"end": end, "reason": reason} if reason else {"end": end}
        _save_history(call, [*call.served_by[:-1], {**call.served_by[-1], **details}])


def _save_history(call: AwsCall, history: list[dict[str, Any]]) -> None:
    call.served_by = history
    AwsCall.objects.filter(pk=call.pk).update(served_by=history)
