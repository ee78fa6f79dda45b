"""The REST API of notification rules."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from guards.limits import NOTIFICATION_RULES
from notifications.models import Notification, NotificationRule
from notifications.outbox_sender import send_due_notifications
from rbac.models import Scope, User
from tests.notifications.webhook_receiver import Receiver
from tests.secret_watch.marker import planted

Call = Callable[[User], APIClient]
pytestmark = pytest.mark.django_db
RULES = "/api/v1/notification-rules"
SECRET = planted("signing-secret")


def body(receiver: Receiver, **more: object) -> dict[str, object]:
    values = {"name": "Ops", "events": ["execution.failed"], "url": receiver.url(f"/{planted('hook')}")}
    return values | more


def new(receiver: Receiver, **more: object) -> dict[str, object]:
    return body(receiver, identifier="ops", org="default", project="demo", **more)


def test_a_rule_is_made_read_changed_and_deleted(
    project: Scope, admin: User, call: Call, receiver: Receiver
) -> None:
    client = call(admin)
    creation = client.post(RULES, new(receiver, secret=SECRET), format="json")
    assert creation.status_code == 201
    document = creation.json()
    assert document["host"] == receiver.address
    assert not {"url", "secret"} & document.keys()
    address = f"{RULES}/{document['id']}"
    assert client.get(address).json() == document
    change = {"name": "Other", "events": ["drift.found"]}
    update = client.put(address, change, format="json", HTTP_IF_MATCH=creation["ETag"])
    assert (update.status_code, update.json()["is_signed"]) == (200, True)
    assert client.put(address, change, format="json", HTTP_IF_MATCH=creation["ETag"]).status_code == 412
    unsigned = client.put(address, change | {"secret": None}, format="json")
    assert unsigned.json()["is_signed"] is False
    saved_rule = NotificationRule.objects.get()
    assert saved_rule.url == receiver.url(f"/{planted('hook')}")
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404


def test_a_test_is_sent_listed_and_sent_again(
    project: Scope, admin: User, call: Call, receiver: Receiver
) -> None:
    client = call(admin)
    rule = client.post(RULES, new(receiver), format="json").json()
    address = f"{RULES}/{rule['id']}/notifications"
    response = client.post(address)
    assert (response.status_code, response.json()["status"]) == (201, "WAITING")
    send_due_notifications()
    (row,) = client.get(address).json()["results"]
    assert (row["status"], row["answer_code"], row["next_attempt_at"]) == ("DELIVERED", 204, None)
    repeat = client.post(f"/api/v1/notifications/{row['id']}/send-again")
    assert (repeat.status_code, repeat.json()["status"]) == (200, "WAITING")
    send_due_notifications()
    assert receiver.ids == [row["id"]] * 2


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"events": []}, "events"),
        ({"events": ["no.such"]}, "events.0"),
        ({"events": ["test"]}, "events.0"),
        ({"url": "javascript:pwn()"}, "url"),
        ({"secret": "x" * 257}, "secret"),
        ({"kind": "Carrier pigeon"}, "kind"),
        ({"kind": "Slack"}, "url"),
        ({"kind": "Apprise", "url": "exec://ls"}, "url"),
        ({"kind": "Opsgenie", "secret": "the-key"}, "url"),
        ({"options": {"region": "eu"}}, "options"),
    ],
)
def test_what_makes_no_sense_is_refused_with_its_place(
    project: Scope, admin: User, call: Call, receiver: Receiver, values: dict[str, object], path: str
) -> None:
    answer = call(admin).post(RULES, new(receiver, **values), format="json")
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["path"].startswith(path.split(".")[0])


def test_what_is_being_sent_is_not_sent_again_at_the_same_time(
    project: Scope, admin: User, call: Call, receiver: Receiver
) -> None:
    client = call(admin)
    rule = client.post(RULES, new(receiver), format="json").json()
    notification = client.post(f"{RULES}/{rule['id']}/notifications").json()
    row = Notification.objects.get()
    Notification.objects.update(claimed_until=row.deadline_at)
    assert client.post(f"/api/v1/notifications/{notification['id']}/send-again").status_code == 409


def test_a_scope_has_no_more_rules_than_it_may(
    project: Scope, admin: User, call: Call, receiver: Receiver
) -> None:
    NotificationRule.objects.bulk_create(
        NotificationRule(scope=project, identifier=f"r{number}", name="R", host="h")
        for number in range(NOTIFICATION_RULES)
    )
    assert call(admin).post(RULES, new(receiver), format="json").status_code == 409


def test_a_rule_for_people_is_made_with_the_options_of_its_channel(
    project: Scope, admin: User, call: Call
) -> None:
    client = call(admin)
    fields = {"identifier": "mail", "name": "Mail", "events": ["drift.found"], "kind": "Email"}
    fields |= {"org": "default", "project": "demo"}
    assert client.post(RULES, fields, format="json").json()["errors"][0]["path"] == "options.recipients"
    options = {"recipients": "ops@example.com"}
    document = client.post(RULES, fields | {"options": options}, format="json").json()
    assert (document["kind"], document["host"], document["options"]) == ("Email", "ops@example.com", options)
