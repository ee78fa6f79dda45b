"""Invitations: a link by e-mail that gives one person one role once."""

import re
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.core import mail
from django.core.cache import cache
from django.core.exceptions import ValidationError
from django.db import connection
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from rbac import operations
from rbac.models import AuditEntry, Invitation, Role, Scope, User
from rbac.operations import invitations
from rbac.operations.invitations import (
    TOKEN_PREFIX,
    create_user_from_invitation,
    get_invitation_by_token,
)
from rbac.policy import Forbidden, can
from tests.fixtures.interleaving import act_after
from tests.fixtures.people import PASSWORD, make_person
from tests.fixtures.threads import run_concurrently, split
from tests.rbac.people import grant

pytestmark = pytest.mark.django_db
NEW = {"username": "bea", "password": "correct horse staple", "again": "correct horse staple"}


Smtp = list[Callable[[], None]]


@pytest.fixture
def smtp(monkeypatch: pytest.MonkeyPatch) -> Smtp:
    """Return what happens when a mail reaches the server: nothing, until something is added."""
    events: Smtp = []

    def send(_: Any, messages: list[Any]) -> int:
        for event in events:
            event()
        return len(messages)

    monkeypatch.setattr("django.core.mail.backends.locmem.EmailBackend.send_messages", send)
    return events


def get_role(identifier: str) -> Role:
    return Role.objects.get(identifier=identifier, scope=None)


def create_invitation(
    actor: User, scope: Scope, *, email: str = "Bea@Example.com", role_name: str = "viewer"
) -> tuple[Invitation, str]:
    return operations.create_invitation(
        actor=actor, email=email, scope=scope, role=get_role(role_name), days=7
    )


def open_link(token: str, person: User | None = None) -> tuple[Client, Any]:
    """Open the link in a new browser."""
    client = Client()
    if person:
        client.force_login(person)
    return client, client.get(f"/join/{token}/", follow=True)


def test_who_is_invited_on_the_page_joins_by_the_link_of_the_mail(
    project: Scope, admin: User, browse: Callable[[User], Client]
):
    form = {"email": "Bea@Example.com", "in_scope": project.path, "role": get_role("viewer").pk, "days": 3}
    response = browse(admin).post("/access/invitations/new/", form, follow=True)
    assert "The invitation was sent to bea@example.com." in response.content.decode()
    (message,) = mail.outbox
    assert (message.to, message.subject) == (["bea@example.com"], "Join demo in Slipway")
    link = re.search(rf"{re.escape(settings.PUBLIC_URL)}(/join/\S+/)", str(message.body))
    assert link is not None

    client = Client()
    page = client.get(link[1], follow=True)
    assert TOKEN_PREFIX not in str(dict(client.session)), "who reads the sessions cannot follow the link"
    assert page.redirect_chain == [("/join/", 302)]
    assert "Viewer" in page.content.decode()
    client.post("/join/", NEW)
    bea = User.objects.get(username="bea")
    assert (bea.email, bea.is_staff, bea.check_password(NEW["password"])) == ("bea@example.com", False, True)
    assert can(bea, "core_pipeline_view", project)
    assert client.get("/pipelines/").status_code == 200
    assert Client().get(link[1]).status_code == 404, "the link counts once"


def test_who_is_here_already_accepts_as_who_they_are(project: Scope, admin: User, stranger: User):
    invitation, token = create_invitation(admin, project)
    client, response = open_link(token, stranger)
    assert "Accept as stranger" in response.content.decode()
    assert not can(stranger, "core_pipeline_view", project), "looking gives nothing"
    client.post("/join/")
    invitation.refresh_from_db()
    assert (invitation.state, invitation.accepted_by) == ("accepted", stranger)
    assert can(stranger, "core_pipeline_view", project)


@pytest.mark.parametrize("remaining_days", [-1, 1])
def test_accepting_replaces_a_role_that_has_ended_or_will_end(
    project: Scope, admin: User, stranger: User, remaining_days: int
):
    expires_at = timezone.now() + timedelta(days=remaining_days)
    former = grant(stranger, "viewer", project, expires_at=expires_at)
    invitation, _ = create_invitation(admin, project)
    operations.accept_invitation(person=stranger, invitation=invitation)
    assert stranger.assignments.get(scope=project).expires_at is None
    assert can(stranger, "core_pipeline_view", project)
    entry = AuditEntry.objects.get(action="roleassignment.delete")
    assert (entry.actor, entry.before["expires_at"]) == (admin, former.expires_at.isoformat())


def test_a_user_name_that_somebody_takes_meanwhile_is_refused(project: Scope, admin: User):
    invitation, _ = create_invitation(admin, project)
    checks_name = '"rbac_user"."username" ='
    with (
        act_after(checks_name, lambda: make_person("bea")),
        pytest.raises(ValidationError) as refusal,
    ):
        create_user_from_invitation(invitation=invitation, username="bea", password=PASSWORD)
    assert refusal.value.message_dict == {"username": ["A user with that username already exists."]}


def test_signing_in_leads_back_to_the_invitation(project: Scope, admin: User, stranger: User):
    _, token = create_invitation(admin, project)
    client, response = open_link(token)
    assert "/sign-in/?next=/join/" in response.content.decode()
    form = {"username": "stranger", "password": PASSWORD, "next": "/join/"}
    assert "Accept as stranger" in client.post("/sign-in/", form, follow=True).content.decode()


def test_nobody_invites_to_more_than_they_have(project: Scope, account: Scope, deployer: User):
    manager = make_person("manager", "project_admin", project)
    with pytest.raises(Forbidden):
        create_invitation(manager, project, role_name="account_admin")
    with pytest.raises(Exception, match="cannot view"):
        create_invitation(manager, account)
    with pytest.raises(Exception, match="cannot view"):
        create_invitation(deployer, project)
    client = Client()
    client.force_login(manager)
    form = {
        "email": "a@example.com",
        "in_scope": project.path,
        "role": get_role("account_admin").pk,
        "days": 3,
    }
    response = client.post("/access/invitations/new/", form)
    assert (response.status_code, "you do not have core_" in response.content.decode()) == (400, True)
    assert not Invitation.objects.exists()


def test_an_invitation_gives_no_more_than_its_sender_has_when_it_is_accepted(project: Scope, stranger: User):
    manager = make_person("manager", "project_admin", project)
    _, token = create_invitation(manager, project)
    manager.assignments.all().delete()
    client, _ = open_link(token, stranger)
    response = client.post("/join/")
    assert response.status_code == 409
    assert "can no longer assign this role" in response.content.decode()
    assert not can(stranger, "core_pipeline_view", project)
    assert open_link(token)[0].post("/join/", NEW).status_code == 400
    assert not User.objects.filter(username="bea").exists(), "nobody is made who could not join"


@pytest.mark.parametrize("reason", ["revoke", "renew", "expire", "archive"])
def test_a_link_ends(project: Scope, admin: User, reason: str):
    invitation, token = create_invitation(admin, project)
    client, _ = open_link(token)
    check_time = timezone.now()
    if reason == "revoke":
        operations.revoke_invitation(actor=admin, invitation=invitation)
    elif reason == "renew":
        _, new_token = operations.renew_invitation(actor=admin, invitation=invitation, days=1)
        assert get_invitation_by_token(new_token) == invitation
    elif reason == "archive":
        operations.archive_scope(actor=admin, scope=project)
    else:
        check_time += timedelta(days=7, seconds=1)
    with time_machine.travel(check_time, tick=False):
        assert client.post("/join/", NEW).status_code in (400, 404)
    assert not User.objects.filter(username="bea").exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"username": "admin"}, "already exists"),
        ({"username": "ADMIN"}, "The user admin exists."),
        ({"username": "no spaces"}, "valid username"),
        ({"again": "another"}, "do not match"),
        ({"password": "short", "again": "short"}, "too short"),
        ({"password": "bea@example.com", "again": "bea@example.com"}, "too similar"),
    ],
)
def test_what_cannot_be_entered_is_said_beside_its_field(
    project: Scope, admin: User, fields: dict[str, str], message: str
):
    client, _ = open_link(create_invitation(admin, project)[1])
    response = client.post("/join/", NEW | fields)
    assert (response.status_code, message in response.content.decode()) == (400, True)
    assert User.objects.filter(username="bea").count() == 0


@pytest.mark.django_db(transaction=True)
def test_of_two_names_that_differ_by_case_only_one_joins(project: Scope, admin: User):
    jobs = [
        partial(
            create_user_from_invitation,
            invitation=create_invitation(admin, project, email=f"{number}@example.com")[0],
            username=name,
            password=NEW["password"],
        )
        for number, name in enumerate(("bea", "Bea", "BEA"))
    ]
    joined, failures = split(run_concurrently(*jobs))
    assert len(joined) == 1, failures
    assert all(isinstance(failure, ValidationError) for failure in failures)
    assert User.objects.filter(username__iexact="bea").count() == 1


def test_the_same_address_is_invited_once_at_a_time(project: Scope, admin: User):
    invitation, _ = create_invitation(admin, project)
    with pytest.raises(ValidationError, match="Resend that invitation"):
        create_invitation(admin, project, email="bea@example.COM")
    Invitation.objects.filter(pk=invitation.pk).update(expires_at=timezone.now())
    assert create_invitation(admin, project)[0].state == "open"


def test_the_mail_server_may_be_away(
    project: Scope, admin: User, browse: Callable[[User], Client], settings: Any
):
    settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = (
        "django.core.mail.backends.smtp.EmailBackend",
        "127.0.0.1",
        9,
    )
    form = {"email": "a@example.com", "in_scope": project.path, "role": get_role("viewer").pk, "days": 3}
    response = browse(admin).post("/access/invitations/new/", form, follow=True)
    assert "the email could not be sent" in response.content.decode()
    assert Invitation.objects.get().state == "open"


def test_the_api_invites_sends_again_and_takes_back(
    project: Scope, admin: User, call: Callable[[User], APIClient]
):
    client = call(admin)
    body = {"email": "a@example.com", "role": "viewer", "scope": project.path}
    invitation = client.post("/api/v1/invitations", body, format="json").json()
    assert (invitation["state"], invitation["is_sent"], invitation["invited_by"]) == ("open", True, "admin")
    assert client.post(f"/api/v1/invitations/{invitation['id']}/send", {}, format="json").status_code == 200
    assert len(mail.outbox) == 2
    assert client.delete(f"/api/v1/invitations/{invitation['id']}").status_code == 204
    assert client.get(f"/api/v1/invitations/{invitation['id']}").json()["state"] == "revoked"
    assert client.post(f"/api/v1/invitations/{invitation['id']}/send", {}, format="json").status_code == 409
    response_body = client.post(
        "/api/v1/invitations", body | {"days": 31, "email": "x"}, format="json"
    ).json()
    assert {error["path"] for error in response_body["errors"]} == {"days", "email"}


def test_the_mail_of_a_resent_invitation_names_the_new_expiry_and_sender(
    project: Scope, admin: User, browse: Callable[[User], Client]
):
    manager = make_person("manager", "project_admin", project)
    invitation, _ = create_invitation(admin, project)
    with time_machine.travel(timezone.now() + timedelta(days=5), tick=False):
        browse(manager).post(f"/access/invitations/{invitation.pk}/send/")
    invitation.refresh_from_db()
    (message,) = mail.outbox
    assert str(message.body).startswith("manager invites you")
    assert f"expires on {invitation.expires_at:%-d %B %Y %H:%M} UTC" in message.body


def test_a_repeated_request_sends_no_second_mail(
    project: Scope, admin: User, call: Callable[[User], APIClient]
):
    client = call(admin)
    body = {"email": "a@example.com", "role": "viewer", "scope": project.path}
    key = {"HTTP_IDEMPOTENCY_KEY": "once"}
    invitation = client.post("/api/v1/invitations", body, format="json", **key).json()
    client.delete(f"/api/v1/invitations/{invitation['id']}")
    repeated = client.post("/api/v1/invitations", body, format="json", **key)
    assert (repeated.status_code, repeated.json()["id"]) == (201, invitation["id"])
    assert len(mail.outbox) == 1


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("headers", [{}, {"Idempotency-Key": "once"}], ids=["without key", "with key"])
def test_the_mail_is_sent_after_the_commit(
    project: Scope, admin: User, call: Callable[[User], APIClient], headers: dict[str, str], smtp: Smtp
):
    open_transactions = []
    smtp.append(lambda: open_transactions.append(connection.in_atomic_block))
    client, body = call(admin), {"email": "a@example.com", "role": "viewer", "scope": project.path}
    answer = client.post("/api/v1/invitations", body, format="json", headers=headers)
    assert (answer.status_code, answer.json()["is_sent"]) == (201, True)
    assert open_transactions == [False]


@pytest.mark.parametrize("is_refused", [False, True])
def test_a_repeated_request_says_whether_the_mail_was_sent(
    project: Scope, admin: User, call: Callable[[User], APIClient], smtp: Smtp, is_refused: bool
):
    def refuse() -> None:
        raise OSError

    smtp += [refuse] if is_refused else []
    client, body = call(admin), {"email": "a@example.com", "role": "viewer", "scope": project.path}
    for _ in range(2):
        answer = client.post("/api/v1/invitations", body, format="json", headers={"Idempotency-Key": "once"})
        assert answer.json()["is_sent"] is not is_refused


def test_a_crash_before_the_mail_leaves_no_claim_that_it_was_sent(
    project: Scope, admin: User, call: Callable[[User], APIClient], smtp: Smtp
):
    def crash() -> None:
        raise SystemExit

    smtp.append(crash)
    client, body = call(admin), {"email": "a@example.com", "role": "viewer", "scope": project.path}
    key = {"Idempotency-Key": "once"}
    with pytest.raises(SystemExit):
        client.post("/api/v1/invitations", body, format="json", headers=key)
    answer = client.post("/api/v1/invitations", body, format="json", headers=key)
    assert (answer.status_code, answer.json()["is_sent"]) == (201, False)


def test_repeated_requests_do_not_use_up_the_invitations_of_an_hour(
    project: Scope, admin: User, call: Callable[[User], APIClient], monkeypatch: pytest.MonkeyPatch
):
    cache.clear()
    monkeypatch.setattr(invitations, "INVITATIONS_PER_HOUR", 2)
    client, body = call(admin), {"email": "a@example.com", "role": "viewer", "scope": project.path}

    def invite(key: str, email: str) -> int:
        headers = {"Idempotency-Key": key}
        return client.post(
            "/api/v1/invitations", body | {"email": email}, format="json", headers=headers
        ).status_code

    assert [invite("first", "a@example.com") for _ in range(4)] == [201] * 4
    assert [invite(key, f"{key}@example.com") for key in ("second", "third")] == [201, 400]


def test_the_trail_has_every_step_and_no_token(project: Scope, admin: User, stranger: User):
    invitation, token = create_invitation(admin, project)
    _, new_token = operations.renew_invitation(actor=admin, invitation=invitation, days=1)
    operations.accept_invitation(person=stranger, invitation=invitation)
    entries = AuditEntry.objects.filter(scope=project).order_by("pk")
    assert [entry.action for entry in entries] == [
        "invitation.create",
        "invitation.renew",
        "roleassignment.create",
        "invitation.accept",
    ]
    assert token.startswith(TOKEN_PREFIX)
    assert not [entry for entry in entries.values() if token in str(entry) or new_token in str(entry)]


def test_an_expired_invitation_that_a_new_one_replaces_is_revoked_in_the_trail(project: Scope, admin: User):
    expired, _ = create_invitation(admin, project)
    Invitation.objects.filter(pk=expired.pk).update(expires_at=timezone.now())
    create_invitation(admin, project)
    expired.refresh_from_db()
    assert expired.state == "revoked"
    entry = AuditEntry.objects.get(action="invitation.revoke")
    assert (entry.actor, entry.thing_id, entry.scope) == (admin, str(expired.pk), project)


def test_the_role_of_an_invitation_is_not_recorded_as_if_its_sender_had_sent_the_request(
    project: Scope, admin: User, stranger: User
):
    grant(stranger, "viewer", project, expires_at=timezone.now())
    _, token = create_invitation(admin, project)
    client, _ = open_link(token, stranger)
    client.post("/join/", headers={"x-request-id": "request-1"}, REMOTE_ADDR="192.0.2.7")
    for action in ("roleassignment.delete", "roleassignment.create"):
        entry = AuditEntry.objects.get(action=action, actor=admin)
        assert (entry.source, entry.address, entry.request_id) == ("internal", "", "")
    accepted = AuditEntry.objects.get(action="invitation.accept", actor=stranger)
    assert (accepted.source, accepted.address, accepted.request_id) == ("page", "192.0.2.7", "request-1")


def test_a_role_that_waits_for_somebody_is_not_deleted(project: Scope, admin: User):
    custom_role = operations.create_role(
        actor=admin, scope=project, identifier="own", name="Own", permissions=[]
    )
    invitation, _ = operations.create_invitation(
        actor=admin, email="a@example.com", scope=project, role=custom_role, days=1
    )
    with pytest.raises(ValidationError, match="pending invitation uses this role"):
        operations.delete_role(actor=admin, role=custom_role)
    operations.revoke_invitation(actor=admin, invitation=invitation)
    operations.delete_role(actor=admin, role=custom_role)
    assert not Role.objects.filter(pk=custom_role.pk).exists()
