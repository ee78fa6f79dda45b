"""Rules with digests: at most one message in some minutes, and nothing is lost."""

from datetime import UTC, datetime, timedelta

import pytest

from notifications.channels.base import DeliveryResult
from notifications.channels.messages import Severity, build_message
from notifications.digests import release_digests
from notifications.events import EventType, NotificationEvent
from notifications.models import Notification, NotificationRule
from notifications.operations import create_test_notification, resend_notification
from notifications.outbox import notify
from notifications.outbox_sender import (
    claim_due_notifications,
    has_due_notifications,
    record_result,
    send_due_notifications,
)
from rbac.models import Scope, User
from tests.fixtures.threads import run_concurrently
from tests.notifications.conftest import Ruled
from tests.notifications.webhook_receiver import Receiver
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db
MINUTES = 15
FAILED, GONE = EventType.EXECUTION_FAILED, EventType.DRIFT_GONE


def tell(scope: Scope, number: int, event: EventType = FAILED) -> None:
    for each in range(number):
        notify(NotificationEvent(event, scope, f"Event {each}.", f"/deployments/{each}/"))


def later(minutes: float) -> datetime:
    return datetime.now(UTC) + timedelta(minutes=minutes)


@pytest.fixture
def rule(ruled: Ruled, project: Scope) -> NotificationRule:
    return ruled(project, FAILED, GONE, digest_minutes=MINUTES)


def test_the_first_event_is_sent_as_it_is_and_the_next_ones_in_one_message(
    rule: NotificationRule, project: Scope, receiver: Receiver
) -> None:
    tell(project, 1)
    send_due_notifications()
    assert receiver.events == ["execution.failed"]
    tell(project, 3)
    tell(project, 2, GONE)
    send_due_notifications()
    assert not has_due_notifications(later(0))
    assert receiver.events == ["execution.failed"]
    moment = later(MINUTES)
    assert has_due_notifications(moment)
    send_due_notifications(now=lambda: moment)
    assert receiver.events == ["execution.failed", "digest"]
    document = receiver.received[-1].document
    assert document["text"] == "5 events in 15 min: 3 × Execution failed, 2 × Drift resolved."
    assert [each["text"] for each in document["events"]] == ["Event 0.", "Event 1.", "Event 2."] + [
        "Event 0.",
        "Event 1.",
    ]
    assert document["events"][2]["url"].endswith("/deployments/2/")
    assert Notification.objects.filter(status="SUMMARIZED", reason="Sent in a digest.").count() == 5
    message = build_message(document)
    assert message.severity == Severity.ERROR
    assert "• Event 2." in message.body


def test_an_event_that_is_being_sent_as_its_rule_gets_digests_is_sent_once(
    ruled: Ruled, project: Scope, receiver: Receiver
) -> None:
    ruled(project, FAILED)
    tell(project, 1)
    (claimed,) = claim_due_notifications(later(0), 1)
    NotificationRule.objects.update(digest_minutes=MINUTES)
    tell(project, 1)
    release_digests(later(0))
    record_result(claimed, DeliveryResult(204), later(0))
    send_due_notifications()
    assert receiver.events == ["execution.failed"], "no digest repeats the first one"
    assert list(Notification.objects.values_list("status", flat=True)) == ["DELIVERED", "DELIVERED"]


def test_a_failure_after_many_harmless_events_is_listed_in_the_digest_and_sets_its_severity(
    rule: NotificationRule, project: Scope, receiver: Receiver
) -> None:
    tell(project, 60, GONE)
    notify(NotificationEvent(FAILED, project, "Release #12 failed.", "/deployments/12/"))
    send_due_notifications()
    document = receiver.received[-1].document
    assert document["text"].startswith("61 events in 1 min: 60 × Drift resolved, 1 × Execution failed")
    assert len(document["events"]) == 50
    message = build_message(document)
    assert message.severity == Severity.ERROR
    assert message.body.splitlines()[-2] == "• Release #12 failed."


def test_a_digest_that_is_refused_is_sent_again_before_the_next_one(
    rule: NotificationRule, project: Scope, receiver: Receiver
) -> None:
    receiver.answer = lambda request: (500, {}, b"")
    tell(project, 2)
    send_due_notifications()
    receiver.answer = lambda request: (204, {}, b"")
    moment = later(1)
    send_due_notifications(now=lambda: moment)
    assert receiver.events == ["digest", "digest"]
    assert receiver.ids[0] == receiver.ids[1]


def test_a_burst_of_more_digests_than_a_day_has_loses_nothing(
    ruled: Ruled, project: Scope, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("notifications.digests.EVENTS_PER_DIGEST", 2)
    ruled(project, FAILED, digest_minutes=720)
    tell(project, 6)
    for minutes in (0, 721, 1442):
        moment = later(minutes)
        send_due_notifications(now=lambda moment=moment: moment)
    assert receiver.events == ["digest"] * 3
    assert not Notification.objects.filter(status="FAILED").exists()


def test_a_test_and_a_repetition_do_not_wait(
    rule: NotificationRule, project: Scope, receiver: Receiver, admin: User
) -> None:
    tell(project, 2)
    send_due_notifications()
    create_test_notification(actor=admin, rule=rule)
    resend_notification(actor=admin, notification=Notification.objects.filter(status="SUMMARIZED")[0])
    send_due_notifications()
    assert receiver.events == ["digest", "test", "execution.failed"]


def test_a_rule_without_digests_sends_what_was_collected(
    rule: NotificationRule, project: Scope, receiver: Receiver
) -> None:
    tell(project, 1)
    send_due_notifications()
    tell(project, 2)
    NotificationRule.objects.update(digest_minutes=0)
    send_due_notifications()
    assert receiver.events == ["execution.failed"] * 3


def test_a_paging_service_gets_each_event(ruled: Ruled, project: Scope) -> None:
    with pytest.raises(BadInput) as refusal:
        ruled(project, FAILED, kind="PagerDuty", url="", secret="the-key", digest_minutes=5)
    assert refusal.value.errors[0]["path"] == "digest_minutes"


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_at_the_same_moment_one_writes_the_digest(ruled: Ruled, project: Scope) -> None:
    ruled(project, FAILED, digest_minutes=MINUTES)
    tell(project, 4)
    moment = later(0)
    run_concurrently(*[lambda: release_digests(moment)] * 2)
    assert Notification.objects.filter(event="digest").count() == 1
    assert Notification.objects.filter(status="SUMMARIZED").count() == 4
