"""The pages of notification rules: what is entered, what is never shown again, what was told."""

from collections.abc import Callable
from typing import Any

import pytest
from django.core import mail
from django.test import Client
from django.urls import reverse

from notifications.events import EventType
from notifications.models import Notification, NotificationRule
from notifications.outbox_sender import send_due_notifications
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.people import make_person
from tests.notifications.conftest import Ruled
from tests.notifications.webhook_receiver import Receiver
from tests.secret_watch.marker import planted

Browse = Callable[[User], Client]
pytestmark = pytest.mark.django_db
TOKEN, SECRET = planted("token-of-the-room"), planted("signing-secret")


def text_of(response: Any) -> str:
    return str(response.content.decode())


@pytest.fixture
def rule(ruled: Ruled, project: Scope, receiver: Receiver) -> NotificationRule:
    return ruled(project, EventType.DRIFT_FOUND, url=receiver.url(f"/{TOKEN}"), secret=SECRET)


def form(project: Scope, receiver: Receiver, **more: Any) -> dict[str, Any]:
    fields = {"in_scope": project.path, "name": "Ops room", "events": ["drift.found", "execution.failed"]}
    return fields | {"url": receiver.url(f"/{TOKEN}"), "secret": SECRET, "is_enabled": "on"} | more


def test_a_new_rule_keeps_its_address_to_itself(
    project: Scope, receiver: Receiver, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    assert "No notification rules in this scope" in text_of(client.get("/notifications/"))
    page = text_of(client.post("/notifications/new/", form(project, receiver), follow=True))
    rule = NotificationRule.objects.get()
    assert (rule.identifier, rule.url, rule.secret) == ("ops_room", receiver.url(f"/{TOKEN}"), SECRET)
    assert rule.events == ["execution.failed", "drift.found"]
    edit = text_of(client.get(reverse("edit-notification-rule", args=[rule.pk])))
    page_texts = page + edit + text_of(client.get("/notifications/"))
    assert receiver.address in page_texts
    assert TOKEN not in page_texts
    assert SECRET not in page_texts
    entry = AuditEntry.objects.get(action="notificationrule.create")
    assert TOKEN not in f"{entry.after}"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"events": []}, "Select at least one event."),
        ({"url": ""}, "Enter the URL of the receiver."),
        ({"url": "ftp://example.com/hook"}, "The address must begin with https://"),
        ({"url": "http://169.254.169.254/latest/"}, "nothing goes there"),
        ({"url": "https://somebody:word@example.com/"}, "must not hold a user name"),
        ({"name": "a\u202eb"}, "changes the text direction"),
    ],
)
def test_what_cannot_be_saved_is_said_beside_its_field_and_the_rest_stays(
    project: Scope, receiver: Receiver, admin: User, browse: Browse, fields: dict[str, Any], message: str
) -> None:
    response = browse(admin).post("/notifications/new/", form(project, receiver, **fields))
    assert response.status_code == 400
    assert message in text_of(response)
    assert 'value="account/default/demo"' in text_of(response)
    assert not NotificationRule.objects.exists()


def test_an_empty_address_and_secret_keep_what_is_there(
    rule: NotificationRule, admin: User, browse: Browse
) -> None:
    address = reverse("edit-notification-rule", args=[rule.pk])
    fields = {"name": "Other", "events": ["drift.gone"], "version": 1, "is_enabled": "on"}
    browse(admin).post(address, fields)
    saved_rule = NotificationRule.objects.get()
    assert (saved_rule.name, saved_rule.events, saved_rule.url, saved_rule.secret) == (
        "Other",
        ["drift.gone"],
        rule.url,
        SECRET,
    )
    browse(admin).post(address, fields | {"version": 2, "unsigned": "on"})
    saved_rule = NotificationRule.objects.get()
    assert (saved_rule.secret, saved_rule.is_signed) == ("", False)


def test_who_saves_over_somebody_elses_change_is_told_and_loses_nothing(
    rule: NotificationRule, admin: User, browse: Browse
) -> None:
    address = reverse("edit-notification-rule", args=[rule.pk])
    fields = {"name": "Theirs", "events": ["drift.gone"], "version": 1, "is_enabled": "on"}
    browse(admin).post(address, fields)
    response = browse(admin).post(address, fields | {"name": "Mine"})
    assert response.status_code == 409
    assert 'value="Mine"' in text_of(response)
    assert 'name="version" value="2"' in text_of(response)


def test_a_test_arrives_and_is_listed_with_its_answer(
    rule: NotificationRule, receiver: Receiver, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    client.post(reverse("test-notification-rule", args=[rule.pk]))
    send_due_notifications()
    assert receiver.events == ["test"]
    page = text_of(client.get(reverse("notification-rule", args=[rule.pk])))
    assert "response 204" in page
    receiver.answer = lambda request: (500, {}, b"Out of order")
    notification = Notification.objects.get()
    client.post(reverse("notification-again", args=[notification.pk]))
    send_due_notifications()
    page = text_of(client.get(reverse("notification-rule", args=[rule.pk])))
    assert "The receiver answered 500: Out of order" in page
    assert "Retrying" in page
    assert receiver.ids == [str(notification.pk)] * 2


def test_a_rule_that_is_turned_off_sends_no_more_of_what_waits(
    rule: NotificationRule, receiver: Receiver, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    client.post(reverse("test-notification-rule", args=[rule.pk]))
    fields = {"name": "Off", "events": ["drift.gone"], "version": 1}
    client.post(reverse("edit-notification-rule", args=[rule.pk]), fields)
    send_due_notifications()
    assert receiver.received == []
    assert Notification.objects.get().reason == "The notification rule was disabled."


def test_a_rule_goes_after_a_question_with_what_it_was_told(
    rule: NotificationRule, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    client.post(reverse("test-notification-rule", args=[rule.pk]))
    address = reverse("delete-notification-rule", args=[rule.pk])
    assert "Delete The room?" in text_of(client.get(address))
    client.post(address)
    assert not NotificationRule.objects.exists()
    assert not Notification.objects.exists()


def test_who_may_only_look_is_offered_nothing_to_press(
    rule: NotificationRule, project: Scope, browse: Browse
) -> None:
    client = browse(make_person("looks", "viewer", project))
    page = text_of(client.get(reverse("notification-rule", args=[rule.pk])))
    assert "Send test" not in page
    assert "Delete" not in page
    assert client.post(reverse("test-notification-rule", args=[rule.pk])).status_code == 403


def test_a_rule_for_pagers_asks_for_a_key_and_a_region_and_shows_no_key(
    project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    address = "/notifications/new/?kind=PagerDuty"
    page = text_of(client.get(address))
    assert "Integration key" in page
    assert 'name="url"' not in page
    fields = {"in_scope": project.path, "name": "On call", "events": ["drift.found"], "is_enabled": "on"}
    fields["options.region"] = "eu"
    assert "Enter the key." in text_of(client.post(address, fields))
    page = text_of(client.post(address, fields | {"secret": SECRET}, follow=True))
    rule = NotificationRule.objects.get()
    assert (rule.kind, rule.secret, rule.options) == ("PagerDuty", SECRET, {"region": "eu"})
    assert rule.host == "https://events.eu.pagerduty.com"
    assert SECRET not in page
    edit = reverse("edit-notification-rule", args=[rule.pk])
    assert SECRET not in text_of(client.get(edit))
    client.post(edit, fields | {"version": 1, "options.region": "us"})
    rule.refresh_from_db()
    assert (rule.secret, rule.host) == (SECRET, "https://events.pagerduty.com")


def test_a_mail_to_a_list_is_written_and_sent(project: Scope, admin: User, browse: Browse) -> None:
    client = browse(admin)
    address = "/notifications/new/?kind=Email"
    fields = {"in_scope": project.path, "name": "List", "events": ["drift.found"], "is_enabled": "on"}
    assert "nobody is no e-mail address" in text_of(
        client.post(address, fields | {"options.recipients": "nobody"})
    )
    client.post(address, fields | {"options.recipients": "ops@example.com"})
    rule = NotificationRule.objects.get()
    client.post(reverse("test-notification-rule", args=[rule.pk]))
    send_due_notifications()
    assert [message.to for message in mail.outbox] == [["ops@example.com"]]
    assert "accepted" in text_of(client.get(reverse("notification-rule", args=[rule.pk])))
