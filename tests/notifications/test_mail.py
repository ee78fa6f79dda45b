"""E-mail: by the installation's server, or by one that a rule names."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
from django.core import mail

from guards.address_policy import PRIVATE_ALLOWED, PUBLIC_ONLY, AddressPolicy
from notifications.channels.base import ChannelSettings, Delivery, DeliveryResult
from notifications.channels.mail import MailChannel
from notifications.documents import build_document
from notifications.events import EventType, NotificationEvent
from notifications.models import Notification, NotificationRule
from notifications.outbox import notify
from notifications.outbox_sender import send_due_notifications
from rbac.models import Scope
from tests.fixtures.mail_server import MailServer, serving_mail
from tests.notifications.conftest import Ruled
from tests.secret_watch.marker import planted
from web.clock import get_database_time

PASSWORD = planted("word-of-the-mail-server")
pytestmark = pytest.mark.django_db


@pytest.fixture
def mail_server() -> Iterator[MailServer]:
    with serving_mail() as server:
        yield server


def send(url: str, reach: AddressPolicy = PRIVATE_ALLOWED) -> DeliveryResult:
    fact = NotificationEvent(
        EventType.EXECUTION_FAILED,
        Scope.objects.account(),
        "Release #12 failed:\r\nBcc: everybody@example.com",
        "/deployments/7/",
    )
    body = json.dumps(build_document(fact, UUID(int=7), get_database_time()))
    options = {"recipients": "ops@example.com, dev@example.com ops@example.com"}
    return MailChannel().send(Delivery(str(UUID(int=7)), fact.event, url, "", body, 1, options), reach)


def test_a_mail_goes_out_by_the_server_of_the_installation(settings: Any) -> None:
    settings.PUBLIC_URL = "https://slipway.example.com"
    assert send("").is_delivered
    (message,) = mail.outbox
    assert message.to == ["ops@example.com", "dev@example.com"]
    assert message.subject.startswith("Release #12 failed:")
    assert len(message.subject.splitlines()) == 1
    assert "https://slipway.example.com/deployments/7/" in str(message.body)
    assert message.extra_headers["Message-ID"] == f"<{UUID(int=7)}@slipway.example.com>"


def test_a_mail_to_nobody_is_not_delivered() -> None:
    fact = NotificationEvent(EventType.TEST, Scope.objects.account(), "A test.", "/notifications/")
    body = json.dumps(build_document(fact, UUID(int=7), get_database_time()))
    delivery = Delivery(str(UUID(int=7)), fact.event, "", "", body, 1, {"recipients": ","})
    result = MailChannel().send(delivery, PRIVATE_ALLOWED)
    assert result.reason == "The notification rule has no recipients. Enter one."


def test_a_mail_goes_out_by_the_server_of_the_rule(mail_server: MailServer) -> None:
    assert send(f"smtp://127.0.0.1:{mail_server.port}").is_delivered
    (message,) = mail_server.mails
    assert mail_server.recipients == ["ops@example.com", "dev@example.com"]
    assert "Bcc" not in message
    assert mail.outbox == []


def test_a_mail_server_in_a_private_network_is_not_reached(mail_server: MailServer) -> None:
    result = send(f"smtp://127.0.0.1:{mail_server.port}", PUBLIC_ONLY)
    assert "private address" in result.reason
    assert mail_server.mails == []


@pytest.mark.parametrize(
    ("command", "answer", "code", "reason"),
    [
        ("MAIL", f"550 no {PASSWORD}", 550, "The mail server answered 550."),
        ("RCPT", f"550 no {PASSWORD}", None, "The mail server refused the recipients."),
    ],
)
def test_what_a_mail_server_refuses_is_told_without_its_text(
    mail_server: MailServer, command: str, answer: str, code: int | None, reason: str
) -> None:
    mail_server.refusals[command] = answer
    result = send(f"smtp://127.0.0.1:{mail_server.port}")
    assert (result.status_code, result.reason) == (code, reason)


def test_without_a_mail_server_the_reason_names_the_setting(settings: Any) -> None:
    settings.EMAIL_HOST, settings.EMAIL_BACKEND = "", "django.core.mail.backends.smtp.EmailBackend"
    assert "EMAIL_URL" in send("").reason


def test_a_mail_server_that_is_away_is_no_error() -> None:
    assert send("smtp://127.0.0.1:9").reason.startswith("The mail server could not be reached")


@pytest.mark.parametrize(
    ("url", "recipients", "path"),
    [
        ("http://mail.example.com", "a@example.com", "url"),
        ("smtp://10.0.0.7:587", "a@example.com", "url"),
        ("smtp://mail.example.com:6379", "a@example.com", "url"),
        ("smtp://mail.example.com/x", "a@example.com", "url"),
        ("", "nobody", "options.recipients"),
        ("", " ,;", "options.recipients"),
        ("", "a@example.com\r\nBcc:b", "options.recipients"),
        ("", " ".join(f"u{number}@example.com" for number in range(21)), "options.recipients"),
    ],
)
def test_a_wrong_server_or_recipient_is_refused_at_its_field(url: str, recipients: str, path: str) -> None:
    settings = ChannelSettings(url, "", {"recipients": recipients})
    ((named, _),) = MailChannel().list_problems(settings, PUBLIC_ONLY)
    assert named == path


def test_a_usual_mail_server_is_taken() -> None:
    settings = ChannelSettings(
        f"smtp://user:{PASSWORD}@mail.example.com:587", "", {"recipients": "a@example.com"}
    )
    assert list(MailChannel().list_problems(settings, PUBLIC_ONLY)) == []
    assert MailChannel().describe_target(settings) == "a@example.com"


@pytest.fixture(params=[True, False], ids=["own", "of the rule"])
def mail_url(request: pytest.FixtureRequest, mail_server: MailServer, settings: Any) -> str:
    """Return the server that a rule names: none if it is that of the installation."""
    settings.EMAIL_HOST, settings.EMAIL_PORT = "127.0.0.1", mail_server.port
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_USE_TLS = settings.EMAIL_USE_SSL = False
    return "" if request.param else f"smtp://127.0.0.1:{mail_server.port}"


@pytest.mark.parametrize("answer", ["550 no mailbox", "452 mailbox full"])
def test_a_mail_that_some_recipients_did_not_get_has_failed(
    mail_server: MailServer, mail_url: str, answer: str
) -> None:
    mail_server.refusals["dev@example.com"] = answer
    result = send(mail_url)
    assert mail_server.recipients == ["ops@example.com"]
    assert result == DeliveryResult(None, "The mail server refused 1 of 2 recipients.", True)


@pytest.mark.parametrize("deferred", ["ops@example.com", "dev@example.com"])
def test_a_mail_of_a_server_that_shuts_down_between_recipients_is_repeated_to_all(
    mail_server: MailServer, mail_url: str, ruled: Ruled, project: Scope, deferred: str
) -> None:
    mail_server.refusals[deferred] = "421 shutting down"
    options = {"recipients": "ops@example.com dev@example.com"}
    ruled(
        project, EventType.EXECUTION_FAILED, kind=NotificationRule.Kind.EMAIL, url=mail_url, options=options
    )
    notify(NotificationEvent(EventType.EXECUTION_FAILED, project, "Release #12 failed", "/deployments/7/"))
    send_due_notifications()
    row = Notification.objects.get()
    assert (row.status, row.reason) == (
        Notification.Status.WAITING,
        "The mail server refused the recipients.",
    )
    assert (mail_server.mails, NotificationRule.objects.get().failures) == ([], 1)
    mail_server.refusals.clear()
    mail_server.recipients.clear()
    later = get_database_time() + timedelta(minutes=5)
    send_due_notifications(now=lambda: later)
    assert Notification.objects.get().status == Notification.Status.DELIVERED
    assert len(mail_server.mails) == 1
    assert mail_server.recipients == ["ops@example.com", "dev@example.com"]


@pytest.mark.parametrize("answer", ["550 no mailbox", "452 mailbox full"])
def test_a_recipient_that_is_refused_neither_repeats_nor_delays_the_mails_of_the_others(
    mail_server: MailServer, ruled: Ruled, project: Scope, answer: str
) -> None:
    mail_server.refusals["dev@example.com"] = answer
    options = {"recipients": "ops@example.com dev@example.com"}
    url = f"smtp://127.0.0.1:{mail_server.port}"
    ruled(project, EventType.EXECUTION_FAILED, kind=NotificationRule.Kind.EMAIL, url=url, options=options)
    NotificationRule.objects.update(failures=3)
    for number in (12, 13):
        text = f"Release #{number} failed"
        notify(NotificationEvent(EventType.EXECUTION_FAILED, project, text, "/deployments/7/"))
    send_due_notifications()
    assert mail_server.recipients == ["ops@example.com"] * 2
    assert [row.status for row in Notification.objects.all()] == [Notification.Status.FAILED] * 2
    reasons = {row.reason for row in Notification.objects.all()}
    assert reasons == {"The mail server refused 1 of 2 recipients."}
    rule = NotificationRule.objects.get()
    assert (rule.failures, rule.paused_until) == (0, None)
