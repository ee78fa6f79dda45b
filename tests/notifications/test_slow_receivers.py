"""Receivers that take a notification, but after the worker's time is over."""

import threading
import time

import pytest

from notifications.events import EventType
from notifications.models import Notification
from notifications.outbox import notify
from notifications.outbox_sender import send_due_notifications
from rbac.models import Scope
from tests.notifications.conftest import Ruled
from tests.notifications.test_outbox import DELIVERED, WAITING, Said, build_failure_event
from tests.notifications.webhook_receiver import LONGEST_WAIT, Received, Receiver


@pytest.mark.django_db(transaction=True)
def test_a_receiver_that_takes_it_late_does_not_get_it_again(
    ruled: Ruled, project: Scope, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    released = threading.Event()

    def answer(request: Received) -> Said:
        released.wait(LONGEST_WAIT)
        return 200, {}, b""

    receiver.answer = answer
    monkeypatch.setattr("notifications.outbox_sender.ROUND_SECONDS", 0.5)
    ruled(project, EventType.EXECUTION_FAILED)
    notify(build_failure_event(project))
    assert send_due_notifications() == 1
    assert Notification.objects.get().status == WAITING
    released.set()
    deadline = time.monotonic() + 10
    while Notification.objects.get().status == WAITING and time.monotonic() < deadline:
        time.sleep(0.05)
    row = Notification.objects.get()
    assert (row.status, row.response_status, row.claimed_until) == (DELIVERED, 200, None)
    assert len(receiver.ids) == 1
