"""Channels of chat and paging services: what they send, and what they never do."""

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from apprise.plugins.discord import NotifyDiscord
from apprise.plugins.google_chat import NotifyGoogleChat
from apprise.plugins.slack import NotifySlack

from guards.address_policy import PRIVATE_ALLOWED, PUBLIC_ONLY
from notifications.channels.base import ChannelSettings, Delivery
from notifications.channels.chat import AppriseChannel
from notifications.channels.messages import build_message
from notifications.channels.paging import OpsgenieChannel, PagerDutyChannel
from notifications.channels.registry import CHANNELS
from notifications.documents import build_document
from notifications.events import EventType, GitSyncSubject, NotificationEvent
from notifications.models import NotificationRule
from rbac.models import Scope
from tests.delegates.agent.certificates import make_certificates
from tests.notifications.webhook_receiver import Receiver, listening
from tests.secret_watch.marker import planted
from web.clock import get_database_time

TOKEN = planted("T0KEN0F0THE0ROOM")
SLACK = f"https://hooks.slack.com/services/T1JJ3T3L2/A1BRTD4JD/{TOKEN}"
DISCORD = f"https://discord.com/api/webhooks/1234567890/{TOKEN}"
GOOGLE_CHAT = f"https://chat.googleapis.com/v1/spaces/AAAA/messages?key=the-key&token={TOKEN}"
TEAMS = (
    "https://prod-12.westeurope.logic.azure.com:443/workflows/6c7e8b9f/triggers/manual/paths/invoke"
    f"?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={TOKEN}"
)
HOSTILE = "<!channel> <@U123> @everyone <users/all> <at>All</at> [Sign in](https://evil.example) crashed"
pytestmark = pytest.mark.django_db


def deliver(url: str, event: EventType = EventType.EXECUTION_FAILED, **more: Any) -> Delivery:
    """Return an attempt to tell a hostile text."""
    fact = NotificationEvent(
        event,
        Scope.objects.account(),
        HOSTILE,
        "/deployments/7/",
        cause="exit code 1",
        execution="7",
        started_by=f"alice {HOSTILE}",
        approved_by=("bob", "carol"),
        last_output=("first", f"{HOSTILE}\nlast"),
    )
    key = UUID(int=7)
    body = json.dumps(build_document(fact, key, get_database_time()))
    return Delivery(str(key), event.value, url, more.pop("secret", ""), body, 1, more)


@pytest.fixture
def services(receiver: Receiver, monkeypatch: pytest.MonkeyPatch) -> Receiver:
    """A receiver in the place of Slack, Discord and Google Chat."""
    receiver.answer = lambda request: (200, {}, b"ok")
    monkeypatch.setattr(NotifySlack, "webhook_url", f"{receiver.address}/services")
    monkeypatch.setattr(NotifyDiscord, "notify_url", f"{receiver.address}/api/webhooks")
    monkeypatch.setattr(
        NotifyGoogleChat, "notify_url", f"{receiver.address}/v1/spaces/{{workspace}}/messages"
    )
    return receiver


def assert_harmless(sent: str) -> None:
    """Check that nothing calls or links anybody, except the link to Slipway."""
    assert "crashed" in sent
    assert "Approved by bob, carol" in sent
    assert "Started by alice" in sent
    assert "crashed last" in sent
    assert "/deployments/7/" in sent
    for markup in ("<!channel>", "<@U123>", "@everyone", "<users/all>", "<at>", "](https", "https://evil"):
        assert markup not in sent


@pytest.mark.parametrize(
    ("kind", "url", "path"),
    [
        ("Slack", SLACK, f"/services/T1JJ3T3L2/A1BRTD4JD/{TOKEN}"),
        ("Discord", DISCORD, f"/api/webhooks/1234567890/{TOKEN}"),
        ("GoogleChat", GOOGLE_CHAT, f"/v1/spaces/AAAA/messages?token={TOKEN}&key=the-key"),
    ],
)
def test_a_chat_service_gets_a_text_that_calls_nobody(
    services: Receiver, kind: str, url: str, path: str
) -> None:
    result = CHANNELS[kind].send(deliver(url), PRIVATE_ALLOWED)
    assert (result.is_delivered, result.status_code) == (True, 200)
    (request,) = services.received
    assert request.path == path
    assert_harmless(json.dumps(json.loads(request.body), ensure_ascii=False))


def test_teams_gets_a_card_over_tls(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    certificates = make_certificates(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificates.authority))
    with listening(certificates.server) as teams:
        url = f"workflow://{teams.address.removeprefix('https://')}/6c7e8b9f/{TOKEN}"
        assert AppriseChannel().send(deliver(url), PRIVATE_ALLOWED).status_code == 204
        teams.answer = lambda request: (202, {}, b"")
        assert AppriseChannel().send(deliver(url), PRIVATE_ALLOWED).is_delivered
    card = teams.received[-1].document["attachments"][0]["content"]
    assert card["type"] == "AdaptiveCard"
    assert_harmless(json.dumps(card, ensure_ascii=False))


@pytest.mark.parametrize("scheme", ["mmost", "ntfy", "gotify"])
def test_a_service_of_ones_own_is_reached_by_its_apprise_url(services: Receiver, scheme: str) -> None:
    url = f"{scheme}://{services.address.removeprefix('http://')}/AbCdEfGhIjKlMnO"
    assert AppriseChannel().send(deliver(url), PRIVATE_ALLOWED).is_delivered
    assert_harmless(services.received[0].body.decode("unicode_escape", "replace"))


@pytest.mark.parametrize(
    ("kind", "url"), [("Slack", SLACK), ("Discord", DISCORD), ("GoogleChat", GOOGLE_CHAT), ("Teams", TEAMS)]
)
def test_the_url_of_a_service_is_taken_as_the_service_shows_it(kind: str, url: str) -> None:
    settings = ChannelSettings(url)
    assert list(CHANNELS[kind].list_problems(settings, PUBLIC_ONLY)) == []
    assert TOKEN not in CHANNELS[kind].describe_target(settings)
    elsewhere = ChannelSettings(f"https://example.com/{TOKEN}")
    ((path, message),) = CHANNELS[kind].list_problems(elsewhere, PUBLIC_ONLY)
    assert path == "url"
    assert "Copy it from" in message
    assert TOKEN not in message


@pytest.mark.parametrize(
    "url",
    [
        *(f"{scheme}://name" for scheme in ("dbus", "glib", "qt", "kde", "gnome", "windows", "macosx")),
        *(f"{scheme}://name" for scheme in ("syslog", "file", "exec", "rsyslog", "json", "xml", "form")),
        "mailto://user:word@example.com",
        "vapid://a@example.com",
        "matrix://user:word@example.com",
        "https://example.com/",
        "slack",
        "slack://a/b/c?template=/etc/passwd",
        f"slack://T1JJ3T3L2/A1BRTD4JD/{TOKEN}?Template=/etc/passwd",
        f"discord://1234567890/{TOKEN}?retry=1000000&wait=1000000",
        f"mmosts://chat.example.com/{TOKEN}?verify=no",
        f"ntfy://169.254.169.254/{TOKEN}",
        f"mmost://127.0.0.1/{TOKEN}",
        f"mmost://2130706433/{TOKEN}",
        f"gotify://10.0.0.7/{TOKEN}",
        "workflow://[::1]/6c7e8b9f/abcdef",
        f"mmost://chat.example.com:6379/{TOKEN}",
        "slack://",
    ],
)
def test_an_address_that_leads_to_this_machine_or_into_private_networks_is_refused(url: str) -> None:
    ((path, message),) = AppriseChannel().list_problems(ChannelSettings(url), PUBLIC_ONLY)
    assert path == "url"
    assert TOKEN not in message


def test_a_name_is_resolved_and_checked_again_as_it_is_sent(receiver: Receiver) -> None:
    port = receiver.address.rpartition(":")[2]
    result = AppriseChannel().send(deliver(f"mmost://localhost:{port}/{TOKEN}"), PUBLIC_ONLY)
    assert result.status_code is None
    assert "private address" in result.reason
    assert receiver.received == []


@pytest.mark.parametrize(
    ("status", "reason"),
    [
        (500, "Slack answered 500."),
        (403, "Slack answered 403: the address or key is not accepted. Enter a new one."),
        (404, "Slack answered 404: the receiver no longer exists. Enter a new address or key."),
        (302, "Slack answered with a redirect, which is not followed. Check the address."),
    ],
)
def test_the_text_of_a_refusal_is_never_shown(services: Receiver, status: int, reason: str) -> None:
    services.answer = lambda request: (status, {"Location": "/x"}, f"no {TOKEN} <script>".encode())
    result = CHANNELS["Slack"].send(deliver(SLACK), PRIVATE_ALLOWED)
    assert (result.status_code, result.reason) == (status, reason)
    assert len(services.received) == 1


def test_a_service_does_not_let_the_sender_sleep(services: Receiver) -> None:
    reset = str(2**32)
    limits = {"X-RateLimit-Remaining": "0", "X-RateLimit-Reset": reset}
    services.answer = lambda request: (429, limits, b"{}")
    result = CHANNELS["Discord"].send(deliver(DISCORD), PRIVATE_ALLOWED)
    assert result.status_code == 429
    assert "too many messages" in result.reason


def test_pagerduty_gets_an_alert_with_severity_and_key_and_its_end(receiver: Receiver) -> None:
    receiver.answer = lambda request: (202, {}, b'{"status": "success"}')
    channel = PagerDutyChannel(endpoints={"us": receiver.address})
    found = deliver("", EventType.DELEGATE_DISCONNECTED, secret=TOKEN)
    gone = deliver("", EventType.DELEGATE_CONNECTED, secret=TOKEN)
    assert channel.send(found, PRIVATE_ALLOWED).is_delivered
    assert channel.send(found, PRIVATE_ALLOWED).is_delivered
    assert channel.send(gone, PRIVATE_ALLOWED).is_delivered
    first, again, end = (request.document for request in receiver.received)
    assert [request.path for request in receiver.received] == ["/v2/enqueue"] * 3
    assert (first["event_action"], first["payload"]["severity"]) == ("trigger", "error")
    assert (first["routing_key"], first["links"][0]["href"][-15:]) == (TOKEN, "/deployments/7/")
    assert first["dedup_key"] == again["dedup_key"] == end["dedup_key"]
    assert end["event_action"] == "resolve"


def test_opsgenie_gets_an_alert_with_priority_and_alias_and_its_end(receiver: Receiver) -> None:
    receiver.answer = lambda request: (202, {}, b"{}")
    channel = OpsgenieChannel(endpoints={"eu": receiver.address})
    found = deliver("", EventType.DRIFT_FOUND, secret=TOKEN, region="eu")
    assert channel.send(found, PRIVATE_ALLOWED).is_delivered
    gone = deliver("", EventType.DRIFT_GONE, secret=TOKEN, region="eu")
    assert channel.send(gone, PRIVATE_ALLOWED).is_delivered
    alert, end = receiver.received
    assert (alert.path, alert.headers["Authorization"]) == ("/v2/alerts", f"GenieKey {TOKEN}")
    assert (alert.document["priority"], alert.document["tags"]) == ("P3", ["slipway", "drift.found"])
    assert end.path.startswith("/v2/alerts/slipway%2Faccount%2Fdrift.found%2F7/close")


def test_executions_of_a_scope_with_long_identifiers_have_keys_of_their_own() -> None:
    scope = Scope(path=f"account/{'o' * 128}/{'p' * 128}")
    keys = {
        build_message(
            build_document(
                NotificationEvent(event, scope, "It failed.", "/", execution=str(UUID(int=number))),
                UUID(int=7),
                get_database_time(),
            )
        ).key
        for event in (EventType.EXECUTION_FAILED, EventType.APPROVAL_WAITING)
        for number in (1, 2)
    }
    assert len(keys) == 4
    assert max(map(len, keys)) <= 255


def _build_key(event: EventType, path: str, **fields: Any) -> str:
    fact = NotificationEvent(event, Scope.objects.account(), "Text", path, **fields)
    return build_message(build_document(fact, UUID(int=7), get_database_time())).key


def test_drift_and_git_syncs_of_one_name_have_keys_of_their_own() -> None:
    web = {"services": ("web",), "environments": ("production",)}
    found = _build_key(EventType.DRIFT_FOUND, "/drift/1/", **web)
    assert found == _build_key(EventType.DRIFT_GONE, "/drift/1/", **web)
    assert found != _build_key(EventType.DRIFT_FOUND, "/drift/2/", **web)
    sync = GitSyncSubject("main", "")
    failed = _build_key(EventType.GIT_SYNC_FAILED, "/git-syncs/1/", git_sync=sync)
    assert failed == _build_key(EventType.GIT_SYNC_RECOVERED, "/git-syncs/1/", git_sync=sync)
    assert failed != _build_key(EventType.GIT_SYNC_FAILED, "/git-syncs/2/", git_sync=sync)


def test_every_kind_of_a_rule_has_a_channel_and_every_channel_a_kind() -> None:
    assert list(CHANNELS) == NotificationRule.Kind.values
