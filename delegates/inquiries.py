"""Asking through a remote delegate on behalf of a person, without holding a worker or a request.

The questions are those that a connector of this Slipway answers at once: they are asked again from the start
with each answer that has come, until none is missing.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from django.db import transaction

from aws.caller import CallPending
from aws.errors import AwsError, NotSent, Unanswered, Undelivered, from_record
from connectors.aws_accounts import read_spec
from connectors.downstream import needs_of_connector, refuse_lacking
from connectors.models import Connector
from delegates.clock import database_now
from delegates.connector_tests import examine, keep_test
from delegates.doors import (
    Cluster,
    DelegateDoor,
    DoorClosed,
    call_here,
    call_payload,
    clusters_seen_by,
    open_door,
)
from delegates.errands import (
    FETCH_FILES,
    SERVICE,
    SiteDoor,
    errand_payload,
    kept_of,
    kept_result,
    kind_of,
)
from delegates.images import seen_in_registry
from delegates.lending import refuse_to_lend
from delegates.models import DelegateTask, Inquiry
from delegates.operations.tasks import submit_task
from delegates.owners import Answer, Payload
from delegates.pickers import QUESTIONS, Seen, checked_subject, seen
from delegates.site_steps import told_with_step
from delegates.site_tests import examine_site
from delegates.terraform_cloud import OPERATIONS, error_of_terraform
from rbac.models import User

OWNER = "inquiry"
PATIENCE = timedelta(seconds=60)
# Who asks the same again so soon means the question that is under way, or its answer.
SAME_QUESTION = timedelta(seconds=30)
FORGOTTEN = timedelta(days=1)
_OF_REGISTRIES = (Inquiry.Kind.TAGS, Inquiry.Kind.REPOSITORIES)


@transaction.atomic
def ask(
    *,
    actor: User,
    connector: Connector,
    kind: str,
    region: str = "",
    subject: str = "",
    said: Mapping[str, Any] | None = None,
) -> Inquiry:
    """Ask through a delegate; the answer is in the inquiry once it is finished. Raises `DoorClosed`."""
    refuse_lacking(actor, needs_of_connector(connector))
    if connector.kind == Connector.Kind.AWS:
        region = region or read_spec(connector.spec).test_region
    _door(connector, kind, region)
    now = database_now()
    _forget_old(connector, kind)
    begun = Inquiry.objects.create(
        connector=connector,
        kind=kind,
        region=region,
        subject=subject,
        said=dict(said or {}),
        asked_by=actor,
        asked_at=now,
    )
    _go_on(begun)
    return begun


def ask_or_join(*, actor: User, connector: Connector, kind: str, region: str, subject: str = "") -> Inquiry:
    """The same person's question of a moment ago, or a new one."""
    refuse_lacking(actor, needs_of_connector(connector))
    found = asked_before(Question(actor, connector, kind, region, subject))
    return found or ask(actor=actor, connector=connector, kind=kind, region=region, subject=subject)


@dataclass(frozen=True)
class Question:
    """What somebody asks a connector."""

    actor: User
    connector: Connector
    kind: str
    region: str
    subject: str


def asked_before(question: Question) -> Inquiry | None:
    """The same question of a moment ago by the same person, answered or not."""
    since = max(database_now() - SAME_QUESTION, question.connector.updated_at)
    same = Inquiry.objects.filter(
        connector=question.connector,
        kind=question.kind,
        region=question.region,
        subject=question.subject,
        asked_by=question.actor,
    )
    return same.filter(asked_at__gt=since).select_related("task").order_by("-asked_at").first()


def keep_answer(question: Question, report: Mapping[str, Any]) -> None:
    """This will keep what this Slipway found itself, for who asks the same again in a moment."""
    now = database_now()
    _forget_old(question.connector, question.kind)
    Inquiry.objects.create(
        connector=question.connector,
        kind=question.kind,
        region=question.region,
        subject=question.subject,
        asked_by=question.actor,
        asked_at=now,
        finished_at=now,
        report=dict(report),
    )


def _forget_old(connector: Connector, kind: str) -> None:
    """Nobody asks for what was seen long ago."""
    Inquiry.objects.filter(connector=connector, kind=kind, asked_at__lt=database_now() - FORGOTTEN).delete()


def clusters_by_delegate(*, actor: User, connector: Connector, region: str) -> list[Cluster] | Inquiry:
    """The clusters that a delegate sees, or the inquiry while it looks. Raises `DoorClosed`."""
    asked = ask_or_join(actor=actor, connector=connector, kind=Inquiry.Kind.CLUSTERS, region=region)
    if asked.report is None:
        return asked
    if "error" in asked.report:
        raise DoorClosed(asked.report["error"])
    return [Cluster(**one) for one in asked.report["clusters"]]


def files_by_delegate(
    *, actor: User, connector: Connector, asked: Mapping[str, Any]
) -> dict[str, Any] | Inquiry:
    """The files that `FetchFiles` is asked for, or the inquiry while a delegate fetches them.

    Raises the error of whoever refused, or `DoorClosed`.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    subject = hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()
    region = str(asked.get("region") or "")
    same = asked_before(Question(actor, connector, Inquiry.Kind.FILES, region, subject))
    found = same or ask(
        actor=actor,
        connector=connector,
        kind=Inquiry.Kind.FILES,
        region=region,
        subject=subject,
        said=asked,
    )
    if found.report is None:
        return found
    if "error" in found.report:
        raise DoorClosed(found.report["error"])
    return InquiryCaller(found, SiteDoor(connector)).call(SERVICE, FETCH_FILES, asked)


def seen_by_connector(
    *, actor: User, connector: Connector, kind: str, region: str, subject: str = ""
) -> Seen | Inquiry:
    """What a connector sees now, or the inquiry while a delegate looks.

    Raises `DoorClosed` with AWS's reason if it refuses, `BadInput` for a subject that is no ARN of its kind.
    """
    refuse_lacking(actor, needs_of_connector(connector))
    subject = checked_subject(kind, subject)
    if not read_spec(connector.spec).is_remote:
        try:
            return seen(kind, call_here(connector, region), subject)
        except AwsError as error:
            raise DoorClosed(error.sentence) from error
    asked = ask_or_join(actor=actor, connector=connector, kind=kind, region=region, subject=subject)
    if asked.report is None:
        return asked
    if "error" in asked.report:
        raise DoorClosed(asked.report["error"])
    return list(asked.report["seen"])


@dataclass(frozen=True)
class InquiryCaller:
    """Answers from what has come; the first question without an answer becomes a delegate task."""

    inquiry: Inquiry
    door: DelegateDoor | SiteDoor

    def call(self, service: str, operation: str, params: Mapping[str, Any]) -> dict[str, Any]:
        """The next answer. Raises its error, or `CallPending` where it is still to come."""
        if self._left:
            answer = self._left.pop(0)
            if answer["error"] is not None:
                raise from_record(answer["error"])
            return dict(answer["result"])
        said = {"service": service, "operation": operation, "params": dict(params)}
        self.inquiry.task = submit_task(
            scope=self.door.connector.scope,
            kind=kind_of(operation, self.door.connector) if service == SERVICE else DelegateTask.Kind.AWS,
            title=f"{service}:{operation} for {self.inquiry}",
            payload=said,
            owner=OWNER,
            owner_ref=str(self.inquiry.pk),
            selectors=self.door.selectors,
            selectors_from="CONNECTOR" if self.door.selectors else "",
            criterion=self.door.criterion(service),
            connector=self.door.connector,
            deadline=database_now() + PATIENCE,
        )
        self.inquiry.save(update_fields=["task"])
        raise CallPending

    def __post_init__(self) -> None:
        object.__setattr__(self, "_answers", json.loads(self.inquiry.answers))

    @property
    def _left(self) -> list[dict[str, Any]]:
        left: list[dict[str, Any]] = self.__dict__["_answers"]
        return left


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
            _go_on(inquiry)
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
    _go_on(inquiry)


def _go_on(inquiry: Inquiry) -> None:
    """Ask from the start; where no answer is missing any more, the inquiry is finished."""
    try:
        caller = InquiryCaller(inquiry, _door(inquiry.connector, inquiry.kind, inquiry.region))
        inquiry.report = _reported(inquiry, caller)
    except CallPending:
        return
    except DoorClosed as closed:
        # The connector was changed meanwhile.
        inquiry.report = None if inquiry.kind == Inquiry.Kind.TEST else {"error": str(closed)}
    inquiry.finished_at = database_now()
    if inquiry.kind != Inquiry.Kind.FILES:
        inquiry.answers = "[]"
    inquiry.save(update_fields=["answers", "finished_at", "report"])


def _door(connector: Connector, kind: str, region: str) -> DelegateDoor | SiteDoor:
    if connector.kind != Connector.Kind.AWS or kind == Inquiry.Kind.FILES:
        return SiteDoor(connector)
    door = open_door(connector, region)
    if not isinstance(door, DelegateDoor):
        raise DoorClosed(f"The connector {connector} makes its calls from this Slipway.")
    return door


def _test(inquiry: Inquiry, caller: InquiryCaller) -> dict[str, Any]:
    connector = inquiry.connector
    if connector.kind == Connector.Kind.AWS:
        tested = examine(connector, inquiry.region, caller, delegate=inquiry.answered_by)
    else:
        tested = examine_site(connector, caller, delegate=inquiry.answered_by)
    if connector.updated_at <= inquiry.asked_at:
        keep_test(actor=inquiry.asked_by, connector=connector, tested=tested)
    return tested.to_json()


def _reported(inquiry: Inquiry, caller: InquiryCaller) -> dict[str, Any]:
    if inquiry.kind == Inquiry.Kind.TEST:
        return _test(inquiry, caller)
    try:
        if inquiry.kind in _OF_REGISTRIES:
            return seen_in_registry(inquiry.kind, caller, inquiry.subject, inquiry.region)
        if inquiry.kind == Inquiry.Kind.FILES:
            return _fetched(inquiry, caller)
        if inquiry.kind in QUESTIONS:
            return {"seen": seen(inquiry.kind, caller, inquiry.subject)}
        return {"clusters": [asdict(one) for one in clusters_seen_by(caller)]}
    except AwsError as error:
        if inquiry.kind in _OF_REGISTRIES:
            return {"error": told_with_step(inquiry.connector, error, inquiry.region)}
        return {"error": error.sentence}


def _fetched(inquiry: Inquiry, caller: InquiryCaller) -> dict[str, Any]:
    """Files are an answer as they came, and so is the error for which there are none."""
    try:
        caller.call(SERVICE, FETCH_FILES, inquiry.said)
    except AwsError as error:
        return {"fetched": False, "code": error.code}
    return {"fetched": True}
