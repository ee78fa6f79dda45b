"""Operations on set-ups of event queues: start, stop and dismiss. Workers do the rest."""

import re
from collections.abc import Mapping
from datetime import datetime
from typing import Final

from django.db import IntegrityError, transaction
from django.db.models import QuerySet

from connectors.live import publish_setup_changed
from connectors.models import Connector, EventQueueSetup
from connectors.operations.event_queues import REGION, require_aws
from connectors.required_access import get_connector_requirements, require_access
from connectors.specs.aws import parse_aws_spec
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import require
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

NO_CALLS: Final[Mapping[str, str]] = {"call_task": "", "last_task": "", "answers": ""}
"""Columns of a set-up that waits for no call of a delegate."""
# The name of a queue, of which the stack has one with a suffix, has at most 80 characters.
NAME_CHARACTERS: Final = 70
_STACK_NAME: Final = re.compile(rf"[a-zA-Z][-a-zA-Z0-9]{{0,{NAME_CHARACTERS - 1}}}\Z", re.ASCII)


def get_default_stack_name(connector: Connector) -> str:
    """Return the name of the stack for the events of a connector."""
    identifier = re.sub(r"[^a-zA-Z0-9]+", "-", connector.identifier)
    return f"slipway-events-{identifier}"[:NAME_CHARACTERS].rstrip("-")


def start_event_queue_setup(
    *, actor: User, connector: Connector, region: str = "", stack_name: str = ""
) -> EventQueueSetup:
    """Let workers create a stack with an event queue, with the rights of `actor`, and read its queue.

    Without `region` it is the test region. Raises `BadInput`, or `Conflict` if the region has a queue or a
    set-up.
    """
    require(actor, "core_connector_edit", connector)
    require_aws(connector)
    require_access(actor, get_connector_requirements(connector))
    region = region or parse_aws_spec(connector.spec).test_region
    stack_name = stack_name or get_default_stack_name(connector)
    if problems := _find_problems(region, stack_name):
        raise BadInput("The set-up of events is not valid.", errors=problems)
    if connector.event_queues.filter(region=region).exists():
        raise Conflict(
            f"The connector has an event queue in {region}. Delete it first, or use another region."
        )
    now = get_database_time()
    setup = EventQueueSetup(
        connector=connector,
        region=region,
        stack_name=stack_name,
        started_by=actor,
        started_at=now,
        due_at=now,
    )
    try:
        with transaction.atomic():
            # The new set-up replaces an earlier one on the page.
            _filter_unfinished(connector).filter(region=region).update(dismissed_at=now)
            setup.save()
            _record(actor, setup, "create")
            publish_setup_changed(setup.pk)
    except IntegrityError as exc:
        raise Conflict(f"Events are being set up in {region} already. Wait for the end.") from exc
    return setup


def stop_event_queue_setup(*, actor: User, setup: EventQueueSetup) -> None:
    """End a set-up without its event queue; what exists in AWS stays. Raises `Conflict` if it has ended.

    The worker that has a pass stores nothing more, and no delegate gets the call that waits for one.
    """
    require(actor, "core_connector_edit", setup.connector)
    with transaction.atomic():
        # The row as the last pass left it, which may know of the stack since the page was shown.
        running = EventQueueSetup.objects.filter(pk=setup.pk, status=EventQueueSetup.Status.RUNNING)
        current = running.select_for_update().first()
        if current is None:
            raise Conflict("The set-up of events has ended already.")
        running.update(
            status=EventQueueSetup.Status.STOPPED,
            ended_at=get_database_time(),
            message=f"Stopped by {actor.get_username()}. {_describe_rest(current)}",
            **NO_CALLS,
        )
        _record(actor, setup, "stop")
        publish_setup_changed(setup.pk)
    setup.refresh_from_db()


def _describe_rest(setup: EventQueueSetup) -> str:
    """Return what a stopped set-up leaves in AWS, with the next step."""
    again = "Set up events again to continue with it, or delete it there."
    if setup.stack_id:
        return f"The stack {setup.stack_name} stays in CloudFormation. {again}"
    return (
        f"Slipway has not seen the stack {setup.stack_name} yet, but a call under way may create it: look in "
        f"CloudFormation in {setup.region}. {again}"
    )


def dismiss_event_queue_setup(*, actor: User, setup: EventQueueSetup) -> None:
    """Hide a set-up that failed or was stopped from its connector. Raises `Conflict` for any other one."""
    require(actor, "core_connector_edit", setup.connector)
    with transaction.atomic():
        unfinished = _filter_unfinished(setup.connector).filter(pk=setup.pk)
        if not unfinished.update(dismissed_at=get_database_time()):
            raise Conflict("Only a set-up that failed or was stopped, and is shown, can be dismissed.")
        _record(actor, setup, "dismiss")
        publish_setup_changed(setup.pk)
    setup.refresh_from_db(fields=["dismissed_at"])


def end_restored_setups(now: datetime) -> int:
    """End the set-ups of a restored database, and return their number; a new one finds the same stack."""
    running = EventQueueSetup.objects.filter(status=EventQueueSetup.Status.RUNNING)
    return running.update(
        status=EventQueueSetup.Status.FAILED,
        ended_at=now,
        **NO_CALLS,
        message="The database was restored from a backup. Set up events again: a stack that exists is used.",
    )


def _filter_unfinished(connector: Connector) -> QuerySet[EventQueueSetup]:
    """Return the set-ups without a queue that the page of a connector shows."""
    ended = (EventQueueSetup.Status.FAILED, EventQueueSetup.Status.STOPPED)
    return EventQueueSetup.objects.filter(connector=connector, status__in=ended, dismissed_at=None)


def _find_problems(region: str, stack_name: str) -> list[dict[str, str]]:
    problems = []
    if not REGION.match(region):
        problems.append({"path": "region", "message": "Enter a region, such as eu-central-1."})
    if not _STACK_NAME.match(stack_name):
        text = f"Enter at most {NAME_CHARACTERS} letters, digits and dashes, with a letter first."
        problems.append({"path": "stack_name", "message": text})
    return problems


def _record(actor: User, setup: EventQueueSetup, verb: str) -> None:
    values = {
        "connector": setup.connector.identifier,
        "region": setup.region,
        "stack_name": setup.stack_name,
    }
    record_audit_entry(actor=actor, action=f"eventqueuesetup.{verb}", thing=setup, after=values)
