"""Finds what an inquiry asks for, from the start with each answer that has come, until none is missing."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from typing import Any

from aws.caller import CallPending
from aws.errors import AwsError, from_record
from connectors.models import Connector
from delegates.connector_tests import examine, keep_test
from delegates.doors import DelegateDoor, DoorClosed, clusters_seen_by, open_door
from delegates.errands import FETCH_FILES, SERVICE, SiteDoor, kind_of
from delegates.images import seen_in_registry
from delegates.models import DelegateTask, Inquiry
from delegates.operations.tasks import submit_task
from delegates.pickers import QUESTIONS, seen
from delegates.site_steps import told_with_step
from delegates.site_tests import examine_site
from web.clock import database_now
from web.news import changed

OWNER = "inquiry"
PATIENCE = timedelta(seconds=60)
_OF_REGISTRIES = (Inquiry.Kind.TAGS, Inquiry.Kind.REPOSITORIES)


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


def go_on(inquiry: Inquiry) -> None:
    """Ask from the start; where no answer is missing any more, the inquiry is finished."""
    try:
        caller = InquiryCaller(inquiry, door_of(inquiry.connector, inquiry.kind, inquiry.region))
        inquiry.report = _reported(inquiry, caller)
    except CallPending:
        changed("inquiries", inquiry.pk)
        return
    except DoorClosed as closed:
        # The connector was changed meanwhile.
        inquiry.report = None if inquiry.kind == Inquiry.Kind.TEST else {"error": str(closed)}
    inquiry.finished_at = database_now()
    if inquiry.kind != Inquiry.Kind.FILES:
        inquiry.answers = "[]"
    inquiry.save(update_fields=["answers", "finished_at", "report"])
    changed("inquiries", inquiry.pk)


def door_of(connector: Connector, kind: str, region: str) -> DelegateDoor | SiteDoor:
    """The way through delegates for one kind of question. Raises `DoorClosed`."""
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
