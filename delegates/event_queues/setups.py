"""Passes over the set-ups of event queues: create the stack, follow it, and add its queue.

Each pass reads the stack first, so a worker may die anywhere: the next pass goes on with what AWS shows.
Nothing but the stack of a set-up is created, and nothing is changed or deleted.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final
from uuid import UUID

from django.db import transaction
from django.db.models import QuerySet

from aws.apis.cloudformation import (
    SUCCESS_STATUSES,
    CloudFormationClient,
    Stack,
    format_stack_parameters,
    format_stack_tags,
)
from aws.apis.iam import StsClient
from aws.caller import Caller, CallPending
from aws.errors import AwsError, Denied, Unauthenticated, Undelivered, find_denied_action
from aws.policies import find_known_action
from connectors.event_queue_template import NAME_PARAMETER, URL_OUTPUT, read_template
from connectors.live import publish_setup_changed
from connectors.models import Connector, EventQueue, EventQueueSetup
from connectors.operations import create_event_queue
from connectors.operations.event_queue_setups import NO_CALLS
from connectors.required_access import get_connector_requirements, require_access
from connectors.specs.aws import parse_aws_spec
from delegates.access.aws_access import (
    ConnectorPending,
    get_delegate_access,
    get_local_caller,
)
from delegates.access.remedies import describe_with_remedy
from delegates.event_queues.delegate_setups import ABORTED, DelegateSetupCaller
from guards.text import sanitize_text
from rbac.audit import record_audit_entry
from rbac.models import User
from rbac.policy import Forbidden, NotVisible, require
from web.http.outages import is_interruption
from web.http.problems import Problem

SETUP_TAG: Final = "slipway:event-queue-setup"
# Longer than a pass: until then, no other worker has one.
PASS_DURATION: Final = timedelta(seconds=60)
PASS_INTERVAL: Final = timedelta(seconds=4)
DELEGATE_PASS_INTERVAL: Final = timedelta(seconds=10)
RETRY_INTERVAL: Final = timedelta(seconds=15)
# A stack of this size takes about two minutes.
DEADLINE: Final = timedelta(minutes=30)
SETUPS_PER_TICK: Final = 20
# A stack whose later update was rolled back has its queue all the same.
_USABLE_STATUSES: Final = (*SUCCESS_STATUSES, "UPDATE_ROLLBACK_COMPLETE")
_ALREADY_EXISTS: Final = "AlreadyExistsException"

GetCaller = Callable[[Connector, str], Caller]
logger = logging.getLogger(__name__)


class SetupFailed(Exception):
    """Error raised when a set-up cannot go on; the text has the reason and the next step."""


def list_due_setups(now: datetime) -> list[int]:
    """Return the keys of the set-ups whose next pass is due."""
    due = EventQueueSetup.objects.filter(status=EventQueueSetup.Status.RUNNING, due_at__lte=now)
    return list(due.order_by("due_at").values_list("pk", flat=True)[:SETUPS_PER_TICK])


def advance_setup(pk: int, now: datetime, *, get_caller: GetCaller = get_local_caller) -> bool:
    """Run one pass over a set-up; False if another worker has it, or it has ended."""
    claimed_until = now + PASS_DURATION
    running = EventQueueSetup.objects.filter(pk=pk, status=EventQueueSetup.Status.RUNNING)
    # The condition is the claim: of two workers, one changes the row.
    if not running.filter(due_at__lte=now).update(due_at=claimed_until):
        return False
    relations = ("connector__scope", "connector__secret", "connector__session_token", "started_by")
    setup = EventQueueSetup.objects.select_related(*relations).get(pk=pk)
    setup_pass = _SetupPass(setup, now, running.filter(due_at=claimed_until), get_caller)
    try:
        setup_pass.run()
    except Exception as error:
        if is_interruption(error):
            raise
        # Otherwise the set-up would be tried until its deadline, without a reason on the page.
        logger.exception("A set-up of events failed with an unexpected error")
        setup_pass.fail(f"Slipway failed with an internal error ({type(error).__name__}). Report it.")
    return True


@dataclass(frozen=True)
class _SetupPass:
    """One pass over a set-up; `own` has the row as long as no other worker has claimed it."""

    setup: EventQueueSetup
    now: datetime
    own: QuerySet[EventQueueSetup]
    get_caller: GetCaller

    @property
    def region(self) -> str:
        return self.setup.region

    def run(self) -> None:
        """Advance the set-up, and store its progress or its end."""
        try:
            self._advance()
        except CallPending:
            # Its answer makes the next pass due.
            return
        except SetupFailed as failure:
            self.fail(str(failure))
        except ConnectorPending as pending:
            self._wait(str(pending), RETRY_INTERVAL)
        except AwsError as error:
            self._handle_error(error)
        except Problem as problem:
            self.fail(str(problem))

    def fail(self, message: str) -> None:
        """End the set-up with a reason."""
        text = sanitize_text(message)
        values = {"status": EventQueueSetup.Status.FAILED, "ended_at": self.now, "message": text}
        with transaction.atomic():
            if self.own.update(**values, **NO_CALLS):
                after = {"region": self.region, "stack_name": self.setup.stack_name, "message": text}
                record_audit_entry(actor=None, action="eventqueuesetup.fail", thing=self.setup, after=after)
                publish_setup_changed(self.setup.pk)

    def _wait(self, message: str, interval: timedelta, **values: Any) -> None:
        """Store the progress; the next pass follows after `interval`."""
        with transaction.atomic():
            stored = {"message": sanitize_text(message), "due_at": self.now + interval, **values, **NO_CALLS}
            if self.own.update(**stored) and message != self.setup.message:
                publish_setup_changed(self.setup.pk)

    def _handle_error(self, error: AwsError) -> None:
        if error.code == ABORTED:
            self.fail(f"{error.display_message} Set up events again if that was not meant.")
            return
        text = describe_with_remedy(self.setup.connector, error, self.region)
        # A delegate may come back.
        is_retryable = error.is_retryable or isinstance(error, Undelivered)
        if is_retryable and not self._is_late:
            self._wait(f"{text} Slipway tries again.", RETRY_INTERVAL)
        elif isinstance(error, Denied | Unauthenticated) or is_retryable:
            self.fail(f"{text} Then set up events again.")
        else:
            # The remedies of a connector test do not fit a refused stack; AWS gives the reason.
            self.fail(f"{error.display_message} Set up events again after the cause is gone.")

    @property
    def _is_late(self) -> bool:
        return self.now > self.setup.started_at + DEADLINE

    def _advance(self) -> None:
        actor = self._get_actor()
        caller = self._open_caller()
        self._check_account(StsClient(caller).get_account_id())
        client = CloudFormationClient(caller)
        stack = client.describe(self.setup.stack_id or self.setup.stack_name)
        if stack is None:
            self._create(client)
            return
        token = self._check_owner(stack)
        if stack.status in _USABLE_STATUSES:
            self._finish(stack, actor)
        elif not stack.is_in_progress:
            raise SetupFailed(_describe_failed_stack(client, stack, token))
        elif self._is_late:
            raise SetupFailed(
                f"The stack {stack.name} is {stack.status} since {DEADLINE.seconds // 60} minutes. Wait for "
                "its end in CloudFormation, then set up events again."
            )
        else:
            # The deletion of an earlier stack makes room for the one of this set-up.
            is_own = token == str(self.setup.token)
            values = {"stack_id": stack.id} if is_own else {}
            self._wait(f"CloudFormation: {stack.status}.", self._interval, **values)

    def _open_caller(self) -> Caller:
        if self._is_remote:
            access = get_delegate_access(self.setup.connector, self.region)
            return DelegateSetupCaller(self.setup, access, self.now, self.own)
        return self.get_caller(self.setup.connector, self.region)

    @property
    def _is_remote(self) -> bool:
        return parse_aws_spec(self.setup.connector.spec).is_remote

    @property
    def _interval(self) -> timedelta:
        """Time between two passes over a stack in progress; through a delegate, each is two tasks."""
        return DELEGATE_PASS_INTERVAL if self._is_remote else PASS_INTERVAL

    def _get_actor(self) -> User:
        """Return the user whose rights the set-up has, while these allow it."""
        actor = self.setup.started_by
        if actor is None or not actor.is_active:
            raise SetupFailed("The user who set up events is gone. Set up events again.")
        try:
            require(actor, "core_connector_edit", self.setup.connector)
            require_access(actor, get_connector_requirements(self.setup.connector))
        except (Forbidden, NotVisible) as error:
            raise SetupFailed(
                f"The user {actor.get_username()} may not edit and use the connector any more. Let somebody "
                "who may set up events again."
            ) from error
        return actor

    def _check_account(self, account: str) -> None:
        if not self.setup.account:
            self.own.update(account=account)
        elif account != self.setup.account:
            raise SetupFailed(
                f"The connector belongs to the account {account} now; events were being set up in "
                f"{self.setup.account}. Set up events again."
            )

    def _create(self, client: CloudFormationClient) -> None:
        name = self.setup.stack_name
        if self.setup.stack_id:
            raise SetupFailed(f"The stack {name} is gone: somebody deleted it. Set up events again.")
        # Through a delegate, the call may have been made: then this is the replay of its answer.
        if self._is_late and not self._is_remote:
            raise SetupFailed(f"The stack {name} could not be created in time. Set up events again.")
        # A user may have stopped the set-up since the pass began.
        if not self.own.exists():
            return
        request = {
            "StackName": name,
            "TemplateBody": read_template(),
            "Parameters": format_stack_parameters({NAME_PARAMETER: name}),
            "Tags": format_stack_tags({SETUP_TAG: str(self.setup.token)}),
            # A failed creation leaves nothing behind, so that the next one has the name.
            "OnFailure": "DELETE",
        }
        try:
            stack_id = client.create(request, str(self.setup.token))
        except AwsError as error:
            if error.code != _ALREADY_EXISTS:
                raise
            # Created meanwhile: the next pass reads whose it is.
            self._wait("CloudFormation has a stack of this name.", PASS_INTERVAL)
        else:
            self._wait("CloudFormation: CREATE_IN_PROGRESS.", self._interval, stack_id=stack_id)

    def _check_owner(self, stack: Stack) -> str:
        """Return the token in the tag of the stack. Raises `SetupFailed` unless it is of this connector."""
        token, setup = stack.tags.get(SETUP_TAG, ""), self.setup
        same_place = EventQueueSetup.objects.filter(connector=setup.connector, region=setup.region)
        if _is_uuid(token) and same_place.filter(token=token).exists():
            return token
        raise SetupFailed(
            f"A stack {stack.name} exists in {self.region}, which Slipway did not create for this connector. "
            "It stays as it is: set up events again with another stack name, or add its queue by its URL."
        )

    def _finish(self, stack: Stack, actor: User) -> None:
        """Add the event queue, and end the set-up in the same transaction."""
        queue_url, connector = stack.outputs.get(URL_OUTPUT, ""), self.setup.connector
        if not queue_url:
            raise SetupFailed(
                f"The stack {stack.name} has no output {URL_OUTPUT}. Somebody changed it: delete it in "
                "CloudFormation, then set up events again."
            )
        same = EventQueue.objects.filter(connector=connector, region=self.region, queue_url=queue_url)
        with transaction.atomic():
            values = {"status": EventQueueSetup.Status.SUCCEEDED, "ended_at": self.now, **NO_CALLS}
            if not self.own.update(message="", stack_id=stack.id, **values):
                return
            if not same.exists():
                self._add_queue(actor, queue_url, stack)
            publish_setup_changed(self.setup.pk)

    def _add_queue(self, actor: User, queue_url: str, stack: Stack) -> None:
        connector = self.setup.connector
        try:
            create_event_queue(actor=actor, connector=connector, queue_url=queue_url, region=self.region)
        except Problem as problem:
            raise SetupFailed(
                f"{problem} Then set up events again: the stack {stack.name} stays in CloudFormation, and is "
                "used."
            ) from problem


def _describe_failed_stack(client: CloudFormationClient, stack: Stack, token: str) -> str:
    """Return the first failure of a stack, with the next step."""
    try:
        events = [event for event in client.list_events(stack.id) if event.token == token]
        cause = next((event.describe_failure() for event in reversed(events) if event.is_cause), "")
    except Denied:
        cause = ""
    cause = (cause or stack.reason or f"The stack is {stack.status}").strip().rstrip(".")
    steps = [_find_next_step(cause)]
    if stack.status != "DELETE_COMPLETE":
        steps.append(f"Delete the stack {stack.name} in CloudFormation, which is {stack.status}.")
    steps.append("Then set up events again.")
    return " ".join(filter(None, (f"{cause}.", *steps)))


def _find_next_step(cause: str) -> str:
    if action := find_denied_action(cause):
        return f"Allow {find_known_action(action)} for the principal of the connector."
    if "already exists" in cause:
        return "Use another stack name, or delete what has this name."
    return ""


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
