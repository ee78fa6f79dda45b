"""Tokens of rules for Git services, from secrets and connectors, and the commits of triggers."""

from dataclasses import replace
from typing import Any

import pytest

from connectors.models import Connector, Secret
from connectors.operations import create_connector, create_secret
from connectors.usages import find_usages
from notifications.channels.commit_statuses import CommitTarget, find_commit_target
from notifications.events import EventType, NotificationEvent
from notifications.models import Notification, NotificationRule
from notifications.operations import NotificationRuleSpec, create_rule, create_test_notification, update_rule
from notifications.outbox_sender import send_due_notifications
from pipelines.triggers.commit_origins import CommitOrigin, build_commit_origin
from rbac.models import Role, RoleAssignment, RolePermission, Scope, User
from tests.fixtures.people import make_person
from tests.notifications.webhook_receiver import Receiver
from tests.secret_watch.marker import planted
from web.http.problems import BadInput

TOKEN = planted("token-of-a-secret")
COMMIT = "0123456789abcdef0123456789abcdef01234567"
GIT = {"provider": "github"}


@pytest.mark.parametrize(
    ("kind", "spec", "values", "origin"),
    [
        ("git", GIT, {"repository": "a/b", "commit": COMMIT}, CommitOrigin("a/b", COMMIT, "github")),
        ("git", {"provider": "plain"}, {"repository": "a/b", "commit": COMMIT}, CommitOrigin("a/b", COMMIT)),
        ("image", {}, {"repository": "a/b", "tag": COMMIT}, CommitOrigin("a/b", COMMIT)),
        ("image", {}, {"repository": "a/b", "tag": "sha-0123456"}, CommitOrigin("a/b", "0123456")),
        ("image", {}, {"repository": "a/b", "tag": "20261126"}, CommitOrigin("a/b", "")),
        ("webhook", {}, {"repository": "a/b", "commit": COMMIT}, CommitOrigin()),
    ],
)
def test_the_event_of_a_trigger_tells_repository_and_commit(
    kind: str, spec: dict[str, str], values: dict[str, str], origin: CommitOrigin
) -> None:
    assert build_commit_origin(kind, spec, values) == origin


@pytest.mark.parametrize(
    ("options", "fact", "target"),
    [
        ({}, {"repository": "a/b", "commit": COMMIT}, ("a/b", COMMIT)),
        ({"repository": "c/d"}, {"repository": "a/b", "commit": COMMIT}, ("c/d", COMMIT)),
        ({"commit": "sha"}, {"repository": "a/b", "commit": COMMIT}, None),
        ({"repository": "c/d", "commit": "sha"}, {"variables": {"sha": "0123456"}}, ("c/d", "0123456")),
        ({}, {"repository": "a/b", "commit": COMMIT, "git_service": "gitlab"}, None),
        ({}, {"repository": "../b", "commit": COMMIT}, None),
        ({"repository": "c/d"}, {}, None),
    ],
)
def test_what_a_rule_leaves_empty_comes_from_the_trigger(
    options: dict[str, str], fact: dict[str, Any], target: tuple[str, str] | None
) -> None:
    event = NotificationEvent(EventType.EXECUTION_STARTED, Scope(), "", "/", **fact)
    assert find_commit_target("GitHub", options, event) == (CommitTarget(*target) if target else None)


@pytest.fixture
def secret(project: Scope, admin: User) -> Secret:
    return create_secret(actor=admin, scope=project, identifier="token", name="Token", value=TOKEN)


def build_spec(receiver: Receiver, token: str = "", **options: str) -> NotificationRuleSpec:
    return NotificationRuleSpec(
        "Commits", ("execution.failed",), url=receiver.address, secret=token, options=options
    )


def create_git_rule(actor: User, scope: Scope, spec: NotificationRuleSpec) -> NotificationRule:
    return create_rule(actor=actor, scope=scope, identifier="commits", spec=spec, kind="GitHub")


@pytest.mark.django_db
def test_the_token_of_a_secret_is_read_when_it_is_sent(
    project: Scope, admin: User, receiver: Receiver, secret: Secret
) -> None:
    rule = create_git_rule(admin, project, build_spec(receiver, token_secret="token", repository="a/b"))
    assert rule.secret == ""
    create_test_notification(actor=admin, rule=rule)
    send_due_notifications()
    assert receiver.received[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert "notification rule" in str(find_usages(secret, admin))
    Secret.objects.all().delete()
    create_test_notification(actor=admin, rule=rule)
    send_due_notifications()
    assert "No secret token" in Notification.objects.get(status="WAITING").reason
    assert len(receiver.received) == 1


@pytest.mark.django_db
def test_a_rule_without_a_token_or_with_two_is_refused(
    project: Scope, admin: User, receiver: Receiver, secret: Secret
) -> None:
    for options, path in (
        ({}, "secret"),
        ({"token_secret": "missing"}, "options.token_secret"),
        ({"connector": "missing"}, "options.connector"),
        ({"token_secret": "token", "connector": "git"}, "options.connector"),
    ):
        with pytest.raises(BadInput) as refused:
            create_git_rule(admin, project, build_spec(receiver, **options))
        assert [problem["path"] for problem in refused.value.errors] == [path]


@pytest.mark.django_db
def test_who_has_no_access_to_the_secret_cannot_send_it_elsewhere(
    project: Scope, admin: User, receiver: Receiver, secret: Secret
) -> None:
    rule = create_git_rule(admin, project, build_spec(receiver, token_secret="token"))
    role = Role.objects.create(scope=project, identifier="editor", name="Editor")
    for permission in ("core_notificationrule_view", "core_notificationrule_edit", "core_secret_view"):
        RolePermission.objects.create(role=role, permission=permission)
    editor = make_person("editor")
    RoleAssignment.objects.create(scope=project, role=role, user=editor)
    with pytest.raises(BadInput) as refused:
        update_rule(actor=editor, rule=rule, spec=build_spec(receiver, token_secret="token"))
    assert "core_secret_access" in str(refused.value.errors)


@pytest.mark.django_db
def test_the_password_of_a_connector_goes_to_its_own_service(
    project: Scope, admin: User, receiver: Receiver, secret: Secret
) -> None:
    spec = {"url": "https://github.com/a", "authentication": "UsernamePassword", "username": "x"}
    create_connector(
        actor=admin, scope=project, identifier="git", name="Git", kind="Git", spec=spec, secret=secret
    )
    with pytest.raises(BadInput) as refused:
        create_git_rule(admin, project, build_spec(receiver, connector="git"))
    assert "is for github.com, not for" in str(refused.value.errors)
    Connector.objects.update(spec=spec | {"url": f"{receiver.address}/a"})
    rule = create_git_rule(admin, project, build_spec(receiver, connector="git", repository="a/b"))
    create_test_notification(actor=admin, rule=rule)
    send_due_notifications()
    assert receiver.received[0].headers["Authorization"] == f"Bearer {TOKEN}"
    assert "notification rule" in str(find_usages(Connector.objects.get(identifier="git"), admin))
    # The connector is turned to another server after the rule was saved.
    Connector.objects.update(spec=spec)
    create_test_notification(actor=admin, rule=rule)
    send_due_notifications()
    assert "is for github.com" in Notification.objects.get(status="WAITING").reason
    assert len(receiver.received) == 1


@pytest.mark.django_db
def test_a_token_can_be_replaced_by_a_reference(
    project: Scope, admin: User, receiver: Receiver, secret: Secret
) -> None:
    rule = create_git_rule(admin, project, build_spec(receiver, planted("token-entered-before")))
    update_rule(actor=admin, rule=rule, spec=build_spec(receiver, token_secret="token"))
    assert NotificationRule.objects.get().secret == ""
    with pytest.raises(BadInput, match="not valid"):
        update_rule(actor=admin, rule=rule, spec=build_spec(receiver))


@pytest.mark.django_db
def test_an_entered_token_does_not_follow_a_rule_to_another_address(
    project: Scope, admin: User, receiver: Receiver
) -> None:
    rule = create_git_rule(admin, project, build_spec(receiver, TOKEN, repository="a/b"))
    update_rule(actor=admin, rule=rule, spec=build_spec(receiver, repository="a/b"))
    elsewhere = NotificationRuleSpec("Commits", ("execution.failed",), url=receiver.url("/other"))
    with pytest.raises(BadInput) as refused:
        update_rule(actor=admin, rule=rule, spec=elsewhere)
    assert [problem["path"] for problem in refused.value.errors] == ["secret"]
    update_rule(actor=admin, rule=rule, spec=replace(elsewhere, secret=TOKEN))
    assert NotificationRule.objects.get().url == receiver.url("/other")
