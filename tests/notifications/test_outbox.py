"""What is to be told is sent until it is taken, whatever receivers and workers do."""

import json
import os
import signal
import threading
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import quote

import pytest
from django.db import connection, transaction
from django.test.utils import CaptureQueriesContext

from guards.address_policy import AddressPolicy
from guards.limits import NOTIFICATION_ATTEMPTS
from notifications import outbox_sender
from notifications.channels.base import DeliveryResult
from notifications.channels.webhook import compute_signature
from notifications.events import SUBSCRIBABLE_EVENTS, EventType, NotificationEvent
from notifications.models import Notification, NotificationRule
from notifications.operations import delete_rule, resend_notification
from notifications.outbox import list_subscribed_events, notify
from notifications.outbox_sender import (
    CLAIM_DURATION,
    MOST_PARALLEL_SENDS,
    NOTIFICATION_RETENTION,
    claim_due_notifications,
    record_result,
    send_due_notifications,
)
from notifications.repository_tokens import read_token
from rbac.models import Scope, User
from rbac.operations.scopes import archive_scope, restore_scope
from tests.fixtures.threads import run_concurrently, split
from tests.fixtures.worker_crashes import KILLED, run_in_fork
from tests.notifications.conftest import Ruled
from tests.notifications.webhook_receiver import LONGEST_WAIT, Received, Receiver, listening
from tests.secret_watch.marker import planted
from web.retention import prune_rows

FAILED, DELIVERED, WAITING = (
    Notification.Status.FAILED,
    Notification.Status.DELIVERED,
    Notification.Status.WAITING,
)
SECRET = planted("signing-secret")
Said = tuple[int, Mapping[str, str], bytes]
LATER = timedelta(days=1)


def build_failure_event(scope: Scope, text: str = "It failed.") -> NotificationEvent:
    return NotificationEvent(
        EventType.EXECUTION_FAILED, scope, text, path="/deployments/x/", status="FAILED", cause="Because."
    )


def now() -> datetime:
    return datetime.now(UTC)


class Clock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.moment = now()

    def __call__(self) -> datetime:
        return self.moment

    def to_next_try(self) -> timedelta:
        """Move to where the only notification is due and its rule is not held."""
        row = Notification.objects.select_related("rule").get()
        due = max(row.due_at, row.rule.paused_until or row.due_at)
        gap, self.moment = due - self.moment, due
        return gap


@pytest.mark.django_db
class TestTheOutbox:
    def test_tells_the_rules_of_the_scope_and_of_those_above_it_and_no_other(
        self, ruled: Ruled, project: Scope, other_project: Scope, receiver: Receiver
    ) -> None:
        account = Scope.objects.account()
        for number, scope in enumerate((project, project.parent, account, other_project)):
            assert scope is not None
            ruled(scope, EventType.EXECUTION_FAILED, url=receiver.url(f"/{number}"))
        ruled(project, EventType.DRIFT_FOUND, identifier="of_another_event", url=receiver.url("/4"))
        off = ruled(project, EventType.EXECUTION_FAILED, identifier="off", url=receiver.url("/5"))
        NotificationRule.objects.filter(pk=off.pk).update(is_enabled=False)
        assert notify(build_failure_event(project)) == 3
        send_due_notifications()
        assert sorted(request.path for request in receiver.received) == ["/0", "/1", "/2"]
        assert len(set(receiver.ids)) == 3

    def test_tells_no_rule_of_an_archived_scope_for_nobody_could_turn_it_off(
        self, ruled: Ruled, project: Scope, receiver: Receiver, admin: User
    ) -> None:
        ruled(project, EventType.DELEGATE_DISCONNECTED, url=receiver.url("/archived"))
        ruled(Scope.objects.account(), EventType.DELEGATE_DISCONNECTED, url=receiver.url("/above"))
        event = NotificationEvent(
            EventType.DELEGATE_DISCONNECTED, project, "eu is not heard any more.", "/delegates/1/"
        )
        archive_scope(actor=admin, scope=project)
        assert list_subscribed_events(project, (EventType.DELEGATE_DISCONNECTED,))
        assert notify(event) == 1
        send_due_notifications()
        assert [request.path for request in receiver.received] == ["/above"]
        restore_scope(actor=admin, scope=project)
        assert notify(event) == 2

    def test_tells_nothing_of_what_is_rolled_back(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        ruled(project, EventType.EXECUTION_FAILED)
        with transaction.atomic():
            notify(build_failure_event(project))
            transaction.set_rollback(True)
        send_due_notifications()
        assert receiver.received == []

    def test_asks_the_database_as_often_for_many_facts_as_for_one(self, ruled: Ruled, project: Scope) -> None:
        for number in range(3):
            ruled(project, EventType.EXECUTION_FAILED, identifier=f"room{number}")
        with CaptureQueriesContext(connection) as for_one:
            notify(build_failure_event(project))
        with CaptureQueriesContext(connection) as for_many:
            assert notify(*[build_failure_event(project, f"{number}") for number in range(10)]) == 30
        # PostgreSQL's clock is read now and then, by whoever needs it next.
        single_queries, many_queries = (
            [query["sql"] for query in queries if "clock_timestamp" not in query["sql"]]
            for queries in (for_one, for_many)
        )
        assert len(single_queries) == len(many_queries) > 0


@pytest.mark.django_db
class TestWhatIsSent:
    def test_is_a_document_that_always_has_the_same_keys(
        self, ruled: Ruled, project: Scope, receiver: Receiver, settings: Any
    ) -> None:
        settings.PUBLIC_URL = "https://slipway.example.com"
        ruled(project, *(EventType(value) for value, _ in SUBSCRIBABLE_EVENTS))
        notify(
            build_failure_event(project),
            NotificationEvent(EventType.DELEGATE_CONNECTED, project, "eu is back.", "/delegates/1/"),
        )
        send_due_notifications()
        document, other = (each.document for each in receiver.received)
        assert document.keys() == other.keys()
        assert document["url"] == "https://slipway.example.com/deployments/x/"
        assert (document["org"], document["project"], document["status"]) == ("default", "demo", "FAILED")
        assert (other["status"], other["services"], other["execution"]) == (None, [], None)

    def test_can_be_checked_by_its_signature(self, ruled: Ruled, project: Scope, receiver: Receiver) -> None:
        ruled(project, EventType.EXECUTION_FAILED, secret=SECRET)
        ruled(project, EventType.EXECUTION_FAILED, identifier="unsigned", url=receiver.url("/unsigned"))
        notify(build_failure_event(project))
        send_due_notifications()
        (plain,) = (request for request in receiver.received if request.path == "/unsigned")
        (signed,) = (request for request in receiver.received if request.path != "/unsigned")
        sent_at = int(signed.headers["Slipway-Timestamp"])
        assert signed.headers["Slipway-Signature"] == f"v1={compute_signature(SECRET, sent_at, signed.body)}"
        assert "Slipway-Signature" not in plain.headers

    def test_calls_nobody_in_a_chat_and_stays_one_line(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        ruled(project, EventType.EXECUTION_FAILED)
        notify(
            build_failure_event(
                project, "<!channel> @here @\x1bhere\x00\n<https://evil.example|Sign in> " + "x" * 9000
            )
        )
        send_due_notifications()
        text = receiver.received[0].document["text"]
        assert not {"<", ">", "\n", "\x00"} & set(text)
        assert "@here" not in text
        assert len(text) <= 500

    def test_has_no_link_that_a_program_wrote(self, ruled: Ruled, project: Scope, receiver: Receiver) -> None:
        ruled(project, EventType.EXECUTION_FAILED)
        notify(
            build_failure_event(
                project, "[Sign in](https://evil.example) []\x1b(x) or ![](http://evil.example/x.png)"
            )
        )
        send_due_notifications()
        document = receiver.received[0].document
        assert "](" not in document["text"]
        assert "://" not in document["text"]
        assert "evil.example" in document["text"]
        assert document["url"].endswith("/deployments/x/")

    def test_comes_in_order(self, ruled: Ruled, project: Scope, receiver: Receiver) -> None:
        ruled(project, EventType.EXECUTION_FAILED)
        for number in range(20):
            notify(build_failure_event(project, f"{number}"))
        send_due_notifications()
        assert [request.document["text"] for request in receiver.received] == [
            f"{number}" for number in range(20)
        ]


@pytest.mark.django_db
class TestAReceiverThatDoesNotTakeIt:
    def test_is_asked_again_with_growing_gaps_and_at_last_given_up(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        receiver.answer = lambda request: (500, {}, b"Out of order")
        ruled(project, EventType.EXECUTION_FAILED)
        notify(build_failure_event(project))
        clock, gaps = Clock(), []
        while Notification.objects.get().status == WAITING:
            gaps.append(clock.to_next_try())
            assert send_due_notifications(now=clock) == 1
        assert gaps[1:] == sorted(gaps[1:])
        assert len(receiver.received) == NOTIFICATION_ATTEMPTS
        assert len(set(receiver.ids)) == 1
        row = Notification.objects.get()
        assert (row.status, row.response_status, row.reason) == (
            FAILED,
            500,
            "The receiver answered 500: Out of order",
        )

    def test_gets_it_once_it_is_there_again_and_then_the_rest_at_once(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        receiver.answer = lambda request: (503, {}, b"")
        ruled(project, EventType.EXECUTION_FAILED)
        for number in range(30):
            notify(build_failure_event(project, f"{number}"))
        clock = Clock()
        send_due_notifications(now=clock)
        assert len(receiver.received) == 1
        receiver.answer = lambda request: (200, {}, b"ok")
        clock.moment += timedelta(minutes=1)
        send_due_notifications(now=clock)
        assert Notification.objects.filter(status=DELIVERED).count() == 30
        assert NotificationRule.objects.get().failures == 0

    def test_costs_the_others_nothing_though_thousands_wait_for_it(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        receiver.answer = lambda request: (500 if request.path == "/dead" else 200, {}, b"")
        dead = ruled(project, EventType.EXECUTION_FAILED, url=receiver.url("/dead"))
        notify(*[build_failure_event(project, f"{number}") for number in range(3000)])
        ruled(project, EventType.EXECUTION_FAILED, identifier="well", url=receiver.url("/well"))
        notify(build_failure_event(project, "For both"))
        send_due_notifications()
        assert [request.path for request in receiver.received].count("/dead") == 1
        assert [request.document["text"] for request in receiver.received if request.path == "/well"] == [
            "For both"
        ]
        assert dead.notifications.filter(status=WAITING).count() == 3001

    def test_costs_the_others_nothing_while_it_hangs(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        released = threading.Event()

        def answer(request: Received) -> Said:
            if request.path == "/well" and [each.path for each in receiver.received].count("/well") == 20:
                released.set()
            # It hangs until the others have had all of theirs: if they had to wait for it, for good.
            assert request.path == "/well" or released.wait(LONGEST_WAIT)
            return 200, {}, b""

        receiver.answer = answer
        ruled(project, EventType.EXECUTION_FAILED, identifier="hangs", url=receiver.url("/hangs"))
        ruled(project, EventType.EXECUTION_FAILED, identifier="well", url=receiver.url("/well"))
        for number in range(20):
            notify(build_failure_event(project, f"{number}"))
        send_due_notifications()
        assert released.is_set()

    def test_is_sent_to_while_the_secret_of_the_next_one_is_read(
        self, ruled: Ruled, project: Scope, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        arrived, has_waited = threading.Event(), list[bool]()

        def answer(request: Received) -> Said:
            arrived.set()
            return 200, {}, b""

        def read_slowly(rule: NotificationRule) -> str:
            if rule.identifier == "slow":
                has_waited.append(arrived.wait(5))
            return read_token(rule)

        receiver.answer = answer
        monkeypatch.setattr(outbox_sender, "read_token", read_slowly)
        for identifier in ("first", "slow"):
            ruled(project, EventType.EXECUTION_FAILED, identifier=identifier, url=receiver.url())
        notify(build_failure_event(project))
        send_due_notifications()
        assert has_waited == [True]
        assert len(receiver.received) == 2

    def test_that_redirects_is_not_followed(self, ruled: Ruled, project: Scope, receiver: Receiver) -> None:
        with listening() as elsewhere:
            receiver.answer = lambda request: (307, {"Location": elsewhere.url()}, b"")
            ruled(project, EventType.EXECUTION_FAILED)
            notify(build_failure_event(project))
            send_due_notifications()
            assert elsewhere.received == []
        row = Notification.objects.get()
        assert (row.status, row.response_status) == (WAITING, 307)
        assert "redirect" in row.reason

    def test_that_answers_without_end_has_it(self, ruled: Ruled, project: Scope, receiver: Receiver) -> None:
        receiver.answer = lambda request: (200, {}, b"x" * 5_000_000)
        ruled(project, EventType.EXECUTION_FAILED)
        notify(build_failure_event(project))
        send_due_notifications()
        assert Notification.objects.get().status == DELIVERED

    @pytest.mark.parametrize("coding", ["br", "gzip"])
    def test_that_took_it_has_taken_it_however_its_answer_is_packed(
        self, ruled: Ruled, project: Scope, receiver: Receiver, coding: str
    ) -> None:
        receiver.answer = lambda request: (200, {"Content-Encoding": coding}, b"packed in some other way")
        ruled(project, EventType.EXECUTION_FAILED)
        notify(build_failure_event(project))
        send_due_notifications()
        row = Notification.objects.get()
        assert (row.status, row.response_status, row.reason) == (DELIVERED, 200, "")

    def test_that_says_back_what_opens_it_does_not_have_it_shown(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        token = planted("a-token-in-the-path")
        receiver.answer = lambda request: (404, {}, f"No hook {request.path} for {SECRET}".encode())
        ruled(project, EventType.EXECUTION_FAILED, url=receiver.url(f"/{token}"), secret=SECRET)
        notify(build_failure_event(project))
        send_due_notifications()
        reason = Notification.objects.get().reason
        assert reason.startswith("The receiver answered 404: No hook")
        assert token not in reason
        assert SECRET not in reason

    def test_that_says_back_the_token_of_a_query_alone_does_not_have_it_shown(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        token = planted("a-token/in-the-query")
        receiver.answer = lambda request: (
            403,
            {},
            f"Nobody is called {token} ({quote(token, safe='')})".encode(),
        )
        ruled(
            project,
            EventType.EXECUTION_FAILED,
            url=receiver.url(f"/hook?room=1&token={quote(token, safe='')}&v=2"),
        )
        notify(build_failure_event(project))
        send_due_notifications()
        reason = Notification.objects.get().reason
        assert reason.startswith("The receiver answered 403: Nobody is called")
        assert token not in reason
        assert quote(token, safe="") not in reason

    def test_that_is_in_a_private_network_is_not_asked(
        self, ruled: Ruled, project: Scope, receiver: Receiver, settings: Any
    ) -> None:
        ruled(project, EventType.EXECUTION_FAILED)
        settings.OUTGOING_REACH = AddressPolicy(advice="name its network in SLIPWAY_PRIVATE_NETWORKS")
        notify(build_failure_event(project))
        send_due_notifications()
        assert receiver.received == []
        assert "SLIPWAY_PRIVATE_NETWORKS" in Notification.objects.get().reason


@pytest.mark.django_db(transaction=True)
def test_what_becomes_due_while_a_receiver_hangs_does_not_wait_for_it(
    ruled: Ruled, project: Scope, receiver: Receiver
) -> None:
    released = threading.Event()

    def answer(request: Received) -> Said:
        if request.path == "/well":
            released.set()
            return 200, {}, b""
        notify(NotificationEvent(EventType.DRIFT_FOUND, project, "Meanwhile", path="/drift/"))
        connection.close()
        # Longer than a receiver may take: were the other one to wait for it, this would have failed.
        released.wait(LONGEST_WAIT)
        return 200, {}, b""

    receiver.answer = answer
    ruled(project, EventType.EXECUTION_FAILED, identifier="hangs", url=receiver.url("/hangs"))
    ruled(project, EventType.DRIFT_FOUND, identifier="well", url=receiver.url("/well"))
    notify(build_failure_event(project))
    assert send_due_notifications() == 2
    assert set(Notification.objects.values_list("status", "attempts")) == {(DELIVERED, 1)}


@pytest.mark.django_db(transaction=True)
class TestAWorkerThatDies:
    def test_between_sending_and_noting_it_has_the_same_sent_once_more(
        self, ruled: Ruled, project: Scope, receiver: Receiver
    ) -> None:
        ruled(project, EventType.EXECUTION_FAILED)
        notify(build_failure_event(project))
        reading, writing = os.pipe()

        def kill(request: Received) -> Said:
            os.kill(int(os.read(reading, 20)), signal.SIGKILL)
            return 200, {}, b""

        def work() -> None:
            os.write(writing, str(os.getpid()).encode())
            send_due_notifications()

        receiver.answer = kill
        assert run_in_fork(work) == -KILLED
        receiver.answer = lambda request: (200, {}, b"")
        clock = Clock()
        assert send_due_notifications(now=clock) == 0
        clock.moment += CLAIM_DURATION
        assert send_due_notifications(now=clock) == 1
        assert len(receiver.ids) == 2
        assert len(set(receiver.ids)) == 1
        assert Notification.objects.get().status == DELIVERED

    def test_with_the_last_attempt_leaves_it_failed(self, ruled: Ruled, project: Scope) -> None:
        ruled(project, EventType.EXECUTION_FAILED)
        notify(build_failure_event(project))
        Notification.objects.update(attempts=NOTIFICATION_ATTEMPTS, claimed_until=now())
        assert send_due_notifications() == 0
        row = Notification.objects.get()
        assert (row.status, row.reason) == (FAILED, "The result of the last attempt is unknown.")


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_one_sends_and_each_is_told_once(
    ruled: Ruled, project: Scope, receiver: Receiver
) -> None:
    for number in range(MOST_PARALLEL_SENDS + 4):
        ruled(project, EventType.EXECUTION_FAILED, identifier=f"room{number}", url=receiver.url(f"/{number}"))
    notify(build_failure_event(project))
    send_counts, wrong = split(
        run_concurrently(send_due_notifications, send_due_notifications, send_due_notifications)
    )
    assert wrong == []
    assert sum(send_counts) == MOST_PARALLEL_SENDS + 4
    assert len(receiver.ids) == len(set(receiver.ids)) == MOST_PARALLEL_SENDS + 4
    assert outbox_sender.claim_lease(now()) is not None


@pytest.mark.django_db
def test_what_is_answered_after_the_rule_is_deleted_is_forgotten(
    ruled: Ruled, project: Scope, admin: User
) -> None:
    rule = ruled(project, EventType.EXECUTION_FAILED)
    notify(build_failure_event(project))
    (claimed,) = claim_due_notifications(now(), 1)
    delete_rule(actor=admin, rule=rule)
    record_result(claimed, DeliveryResult(500, "The receiver answered 500"), now())
    assert not Notification.objects.exists()


@pytest.mark.django_db
def test_an_answer_to_an_older_claim_moves_nothing(ruled: Ruled, project: Scope, admin: User) -> None:
    ruled(project, EventType.EXECUTION_FAILED)
    notify(build_failure_event(project))
    (older,) = claim_due_notifications(now(), 1)
    later = now() + CLAIM_DURATION
    (newer,) = claim_due_notifications(later, 1)
    record_result(older, DeliveryResult(500, "The receiver answered 500"), later)
    assert Notification.objects.get().claimed_until is not None
    record_result(newer, DeliveryResult(204), later)
    record_result(older, DeliveryResult(500, "The receiver answered 500"), later)
    row = Notification.objects.get()
    assert (row.status, row.response_status, row.attempts) == (DELIVERED, 204, 2)
    rule = NotificationRule.objects.get()
    assert (rule.failures, rule.paused_until) == (0, None), "the receiver answered the newer one"


@pytest.mark.django_db
def test_what_was_not_taken_within_a_day_has_failed_and_can_be_sent_again(
    ruled: Ruled, project: Scope, receiver: Receiver, admin: User
) -> None:
    ruled(project, EventType.EXECUTION_FAILED)
    notify(build_failure_event(project))
    assert send_due_notifications(now=lambda: now() + LATER) == 0
    row = Notification.objects.select_related("rule__scope").get()
    assert row.status == FAILED
    resend_notification(actor=admin, notification=row)
    assert send_due_notifications() == 1
    assert receiver.ids == [str(row.pk)]
    assert Notification.objects.get().status == DELIVERED


@pytest.mark.django_db
def test_what_ended_is_kept_for_a_month_and_what_waits_for_as_long_as_it_waits(
    ruled: Ruled, project: Scope
) -> None:
    ruled(project, EventType.EXECUTION_FAILED)
    notify(build_failure_event(project), build_failure_event(project))
    first = Notification.objects.earliest("pk")
    Notification.objects.filter(pk=first.pk).update(status=DELIVERED)
    assert prune_rows(NOTIFICATION_RETENTION, now() + 29 * LATER) == 0
    assert prune_rows(NOTIFICATION_RETENTION, now() + 31 * LATER) == 1
    assert Notification.objects.get().status == WAITING


@pytest.mark.django_db
def test_an_alert_that_waits_is_dropped_once_its_trouble_is_over(ruled: Ruled, project: Scope) -> None:
    went, came = EventType.DELEGATE_DISCONNECTED, EventType.DELEGATE_CONNECTED
    rule = ruled(project, went, came, kind="PagerDuty", url="", secret=planted("the-key"))
    for event, delegate in ((went, "eu"), (went, "us"), (came, "eu")):
        notify(NotificationEvent(event, project, "Of a delegate.", "/delegates/1/", delegate=delegate))
    # The first attempt failed: it is due again after all others.
    Notification.objects.filter(event=went).update(due_at=now() + LATER)

    list(claim_due_notifications(now() + 2 * LATER, MOST_PARALLEL_SENDS))

    statuses = {(row.event, json.loads(row.body)["delegate"]): row.status for row in rule.notifications.all()}
    assert statuses == {(went, "eu"): "SUMMARIZED", (went, "us"): WAITING, (came, "eu"): WAITING}
