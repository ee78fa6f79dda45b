"""Tokens of delegates: made, shown by permission, revoked with their sessions, each time written down."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from delegates.models import DelegateEvent, DelegateInstance, DelegateToken
from delegates.operations.tokens import create_token, delete_token, hash_token, revoke_token
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.delegates import make_delegate, make_instance
from tests.fixtures.people import make_person
from web.http.problems import BadInput, Conflict

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]


@pytest.fixture
def token(project: Scope, admin: User) -> DelegateToken:
    return create_token(actor=admin, scope=project, name="eu")


def read_text(response: Any) -> str:
    return str(response.content.decode())


def list_actions() -> list[str]:
    entries = AuditEntry.objects.filter(action__startswith="delegatetoken").order_by("pk")
    return [entry.action for entry in entries]


def connect_instance(token: DelegateToken, name: str, host: str) -> DelegateInstance:
    delegate = make_delegate(token.scope, name)
    return make_instance(
        delegate,
        f"{host}/10.0.0.1",
        token=token,
        session_hash=hash_token(host),
        session_expires_at=timezone.now() + timedelta(hours=1),
    )


def test_a_token_is_answered_when_made_and_kept_encrypted(project: Scope, admin: User, call: Call) -> None:
    response = call(admin).post("/api/v1/delegate-tokens?org=default&project=demo", {"name": "eu"}, "json")
    assert response.status_code == 201
    token = DelegateToken.objects.get()
    content = response.json()
    assert (content["id"], content["name"], content["scope"]) == (token.pk, "eu", "account/default/demo")
    assert content["token"].startswith("slp_dlt_")
    assert len(content["token"]) == len("slp_dlt_") + 43
    assert token.token_hash == hash_token(content["token"])
    assert DelegateToken.objects.values_list("value", flat=True).get() != content["token"]
    assert content["token"] not in str(AuditEntry.objects.values_list("after", flat=True))


def test_a_list_never_holds_a_value(token: DelegateToken, admin: User, browse: Browse, call: Call) -> None:
    pages = read_text(browse(admin).get("/delegates/tokens/")) + read_text(
        browse(admin).get(f"/delegates/tokens/{token.pk}/")
    )
    rows = read_text(call(admin).get("/api/v1/delegate-tokens"))
    assert token.prefix in pages
    assert token.prefix in rows
    assert token.value not in pages + rows
    assert list_actions() == ["delegatetoken.create"]


def test_each_look_at_a_value_is_written_down(token: DelegateToken, admin: User, browse: Browse) -> None:
    response = browse(admin).post(f"/delegates/tokens/{token.pk}/show/")
    assert token.value in read_text(response)
    assert "no-store" in response["Cache-Control"]
    entry = AuditEntry.objects.get(action="delegatetoken.reveal")
    assert (entry.actor, entry.thing_name) == (admin, str(token))


def test_who_may_only_look_at_delegates_is_shown_no_value(
    token: DelegateToken, viewer: User, browse: Browse, call: Call
) -> None:
    assert browse(viewer).get(f"/delegates/tokens/{token.pk}/").status_code == 200
    assert browse(viewer).post(f"/delegates/tokens/{token.pk}/show/").status_code == 403
    assert call(viewer).post(f"/api/v1/delegate-tokens/{token.pk}/reveal").status_code == 403
    assert call(viewer).post(f"/api/v1/delegate-tokens/{token.pk}/revoke").status_code == 403
    assert list_actions() == ["delegatetoken.create"]


def test_revoking_ends_every_session_of_the_token_at_once(token: DelegateToken, admin: User) -> None:
    revoked_instance = connect_instance(token, "eu", "host-1")
    other_instance = connect_instance(create_token(actor=admin, scope=token.scope, name="us"), "us", "host-2")
    assert [instance.pk for instance in revoke_token(actor=admin, token=token)] == [revoked_instance.pk]
    revoked_instance.refresh_from_db()
    other_instance.refresh_from_db()
    assert (revoked_instance.connection, revoked_instance.status) == ("NONE", "GONE")
    assert other_instance.status == "REGISTERED"
    event = DelegateEvent.objects.get()
    assert (event.kind, event.text) == (
        "SESSION_ENDED",
        "The session of host-1 ended: the token eu was revoked.",
    )
    entry = AuditEntry.objects.get(action="delegatetoken.revoke")
    assert entry.after == {"sessions_ended": ["eu on host-1"]}


def test_how_much_hangs_on_a_token_counts_open_sessions_alone(
    token: DelegateToken, admin: User, call: Call
) -> None:
    connect_instance(token, "eu", "host-1")
    connect_instance(token, "us", "host-2")
    address = f"/api/v1/delegate-tokens/{token.pk}"
    before = call(admin).get(address).json()
    after = call(admin).post(f"{address}/revoke").json()
    assert [(row["delegates"], row["instances"]) for row in (before, after)] == [(2, 2), (0, 0)]


def test_a_second_revocation_changes_nothing(token: DelegateToken, admin: User) -> None:
    revoke_token(actor=admin, token=token)
    revoked_at = token.revoked_at
    assert revoke_token(actor=admin, token=token) == []
    token.refresh_from_db()
    assert token.revoked_at == revoked_at
    assert list_actions() == ["delegatetoken.create", "delegatetoken.revoke"]


def test_the_question_before_a_revocation_names_who_loses_a_session(
    token: DelegateToken, admin: User, browse: Browse
) -> None:
    connect_instance(token, "eu-west", "host-1")
    page = read_text(browse(admin).get(f"/delegates/tokens/{token.pk}/revoke/"))
    assert "These sessions end immediately" in page
    assert "eu-west" in page
    assert "host-1" in page
    after = browse(admin).post(f"/delegates/tokens/{token.pk}/revoke/", follow=True)
    assert "Token eu revoked; 1 session ended." in read_text(after)
    assert "host-1" not in read_text(after)


def test_a_revoked_token_is_shown_to_nobody(token: DelegateToken, admin: User, browse: Browse) -> None:
    revoke_token(actor=admin, token=token)
    response = browse(admin).post(f"/delegates/tokens/{token.pk}/show/")
    assert response.status_code == 409
    assert "is revoked" in read_text(response)
    assert token.value not in read_text(response)


def test_only_a_revoked_token_can_be_deleted(token: DelegateToken, admin: User) -> None:
    with pytest.raises(Conflict, match="Revoke it first"):
        delete_token(actor=admin, token=token)
    assert list_actions() == ["delegatetoken.create"]
    revoke_token(actor=admin, token=token)
    delete_token(actor=admin, token=token)
    assert not DelegateToken.objects.exists()
    assert list_actions()[-1] == "delegatetoken.delete"


def test_a_name_is_unique_in_its_scope_only(
    token: DelegateToken, other_project: Scope, admin: User, call: Call
) -> None:
    response = call(admin).post("/api/v1/delegate-tokens?org=default&project=demo", {"name": "eu"}, "json")
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert create_token(actor=admin, scope=other_project, name="eu").pk


def test_a_token_that_would_be_over_already_is_refused(project: Scope, admin: User) -> None:
    with pytest.raises(BadInput) as error:
        create_token(actor=admin, scope=project, name="late", expires_at=timezone.now())
    assert error.value.errors[0]["path"] == "expires_at"


def test_an_expired_token_is_shown_as_expired(token: DelegateToken, admin: User, browse: Browse) -> None:
    DelegateToken.objects.filter(pk=token.pk).update(expires_at=timezone.now() - timedelta(days=1))
    assert "Expired" in read_text(browse(admin).get("/delegates/tokens/"))


def test_a_list_can_be_narrowed_to_a_status_and_a_name(token: DelegateToken, admin: User, call: Call) -> None:
    revoke_token(actor=admin, token=token)
    create_token(actor=admin, scope=token.scope, name="us")

    def list_names(query: str) -> list[str]:
        return [row["name"] for row in call(admin).get(f"/api/v1/delegate-tokens{query}").json()["results"]]

    assert (list_names("?status=REVOKED"), list_names("?status=ACTIVE"), list_names("?name=us")) == (
        ["eu"],
        ["us"],
        ["us"],
    )
    assert call(admin).get("/api/v1/delegate-tokens?status=lost").status_code == 400


def test_tokens_of_another_project_are_not_there(
    token: DelegateToken, stranger: User, browse: Browse, call: Call
) -> None:
    assert browse(stranger).get(f"/delegates/tokens/{token.pk}/").status_code == 404
    assert call(stranger).get("/api/v1/delegate-tokens").json()["results"] == []
    assert call(stranger).delete(f"/api/v1/delegate-tokens/{token.pk}").status_code == 404


def test_a_delegate_manager_makes_tokens_in_the_browser(project: Scope, browse: Browse) -> None:
    manager = make_person("manager", "delegate_manager", project)
    form = {"in_scope": project.path, "name": "CI", "expires": "30"}
    page = read_text(browse(manager).post("/delegates/tokens/new/", form, follow=True))
    token = DelegateToken.objects.get()
    assert "Token CI created." in page
    assert token.created_by == manager
    assert token.expires_at is not None
    assert 29 <= (token.expires_at - timezone.now()).days <= 30


def test_the_admin_site_shows_tokens_without_their_values(
    token: DelegateToken, admin: User, browse: Browse
) -> None:
    list_page = read_text(browse(admin).get("/admin/delegates/delegatetoken/"))
    detail_page = read_text(browse(admin).get(f"/admin/delegates/delegatetoken/{token.pk}/change/"))
    assert token.prefix in list_page
    assert token.prefix in detail_page
    assert token.value not in list_page + detail_page
    assert token.token_hash not in list_page + detail_page
