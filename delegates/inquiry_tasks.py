"""The delegate tasks that inquiries are asked by: what they carry, and what becomes of their answers."""

import json
from collections.abc import Mapping
from typing import Any

from aws.errors import AwsError, NotSent, Unanswered, Undelivered, from_record
from delegates.doors import DoorClosed, call_payload
from delegates.errands import SERVICE, errand_payload, kept_of, kept_result
from delegates.inquiring import go_on
from delegates.lending import refuse_to_lend
from delegates.models import DelegateTask, Inquiry
from delegates.owners import Answer, Payload
from delegates.terraform_cloud import OPERATIONS, error_of_terraform


class InquiryOwner:
    """The owner of the tasks that inquiries are asked by; all of them only read."""

    def acquire(self, task: DelegateTask) -> Payload | None:
        """The call with the connector's credentials; None if the inquiry is over or cannot be made."""
        inquiry = _of(task)
        if inquiry is None:
            return None
        said = json.loads(task.payload)
        try:
            refuse_to_lend(task, inquiry.connector)
            return _payload(inquiry, said["service"], said["operation"], said["params"])
        except DoorClosed as closed:
            _take(inquiry, error=Undelivered("CONNECTOR_NOT_USABLE", str(closed)))
        except NotSent:
            # The same question becomes another task.
            go_on(inquiry)
        return None

    def complete(self, task: DelegateTask, answer: Answer) -> None:
        """Take the answer, and ask what comes next."""
        if (inquiry := _of(task)) is None:
            return
        inquiry.answered_by = task.instance_name
        if inquiry.kind == Inquiry.Kind.FILES:
            DelegateTask.objects.filter(pk=task.pk).update(result="")
        if answer.status == "SUCCEEDED":
            _take_good(inquiry, task, answer)
        else:
            _take(inquiry, error=error_of(answer))

    def again(self, task: DelegateTask) -> None:
        """The task itself goes to the next delegate."""

    def secrets(self, task: DelegateTask) -> tuple[str, ...]:
        """Reads print nothing."""
        return ()

    def logged(self, task: DelegateTask) -> None:
        """Reads print nothing."""

    def lost(self, task: DelegateTask) -> None:
        """Too late to ask anybody else."""
        if (inquiry := _of(task)) is not None:
            _take(inquiry, error=Unanswered("DELEGATE_LOST", task.reason or "the delegate was lost"))

    def gave_up(self, task: DelegateTask) -> None:
        """No delegate took the task: that is the answer."""
        if (inquiry := _of(task)) is not None:
            _take(inquiry, error=Undelivered("NO_DELEGATE", task.reason or "No delegate took this."))


def _payload(inquiry: Inquiry, service: str, operation: str, params: Mapping[str, Any]) -> Payload:
    if service == SERVICE:
        return errand_payload(inquiry.connector, operation, params)
    return call_payload(inquiry.connector, inquiry.region, service, operation, params)


def _take_good(inquiry: Inquiry, task: DelegateTask, answer: Answer) -> None:
    operation, result = str(json.loads(task.payload)["operation"]), answer.result or {}
    if operation not in OPERATIONS:
        _take(inquiry, result=kept_of(operation, result))
    elif problem := error_of_terraform(answer, is_write=False):
        _take(inquiry, error=problem)
    else:
        _take(inquiry, result=kept_result(inquiry.connector, operation, result))


def _of(task: DelegateTask) -> Inquiry | None:
    rows = Inquiry.objects.select_related("connector__scope", "connector__secret", "asked_by")
    return rows.filter(pk=task.owner_ref, task=task, finished_at=None).first()


def error_of(answer: Answer) -> AwsError:
    """The error that an answer which is not good stands for."""
    record = {key: str(value) for key, value in (answer.error or {}).items()}
    known = record.get("kind") not in (None, "TaskError")
    message = record.get("message", "The delegate gave no reason.")
    return from_record(record) if known else Undelivered(record.get("code", answer.status), message)


def _take(
    inquiry: Inquiry, *, result: Mapping[str, Any] | None = None, error: AwsError | None = None
) -> None:
    answer = {"result": dict(result or {}), "error": error.to_record() if error else None}
    inquiry.answers = json.dumps([*json.loads(inquiry.answers), answer])
    inquiry.save(update_fields=["answers", "answered_by"])
    go_on(inquiry)
