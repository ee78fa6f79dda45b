"""The audit trail as people and programs read it: filtered, in pages, opened."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from accounts.queries.audit import compute_changes
from connectors.models import Secret
from connectors.operations import create_secret, delete_secret
from rbac import audit
from rbac.models import AuditEntry, Scope, User
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]
Browse = Callable[[User], Client]


@pytest.fixture
def secret(project: Scope, admin: User) -> Secret:
    return create_secret(
        actor=admin, scope=project, identifier="db", name="Database", value=planted("a wonderful value")
    )


def create_entry(project: Scope, actor: User | None, action: str, **mark: str) -> AuditEntry:
    reset = audit.current_request.set(audit.RequestInfo(**mark))
    try:
        return audit.record_audit_entry(actor=actor, action=action, thing=project)
    finally:
        audit.current_request.reset(reset)


@pytest.mark.parametrize(
    "query",
    [
        "who=admin",
        "action=scope.update",
        "action=scope",
        "kind=rbac.scope&who=admin",
        "thing=default/demo&source=api",
        "source=api",
        "request_id=request-1",
        "address=192.0.2.7",
        "since=2020-01-01&who=admin",
        "until=2999-12-31T23:59:59%2B02:00&who=admin",
        "org=default&project=demo&who=admin",
    ],
)
def test_each_condition_narrows_the_trail(
    project: Scope, other_project: Scope, admin: User, viewer: User, call: Call, query: str
):
    client = call(admin)
    expected_entry = create_entry(
        project, admin, "scope.update", request_id="request-1", address="192.0.2.7", source="api"
    )
    create_entry(
        other_project, viewer, "roles.update", request_id="request-2", address="192.0.2.8", source="page"
    )
    results = client.get(f"/api/v1/audit?kind=rbac.scope&{query}").json()["results"]
    assert [entry["id"] for entry in results] == [expected_entry.pk]


def test_a_day_reaches_to_its_end(project: Scope, admin: User, call: Call):
    client, entry = call(admin), create_entry(project, admin, "scope.update")
    today = entry.at.date().isoformat()
    for query, count in (
        (f"since={today}&until={today}", 1),
        ("until=2020-01-01", 0),
        ("since=2990-01-01", 0),
    ):
        results = client.get(f"/api/v1/audit?action=scope.update&{query}").json()["results"]
        assert len(results) == count, query


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("since=yesterday", "since"),
        ("until=0001-01-01", "until"),
        ("until=9999-12-31", "until"),
        ("source=nowhere", "source"),
        ("kind=rbac.nothing", "kind"),
        ("who=" + "x" * 151, "who"),
        ("thing=" + "x" * 401, "thing"),
    ],
)
def test_a_condition_that_makes_no_sense_is_named(
    admin: User, call: Call, browse: Browse, query: str, path: str
):
    response = call(admin).get(f"/api/v1/audit?{query}")
    assert (response.status_code, [error["path"] for error in response.json()["errors"]]) == (400, [path])
    page = browse(admin).get(f"/access/audit/?{query}")
    assert (page.status_code, b'class="error"' in page.content) == (400, True)


def test_the_page_shows_the_chosen_scope_and_below_and_keeps_its_filter_while_paging(
    project: Scope, other_project: Scope, admin: User, browse: Browse
):
    client = browse(admin)
    for number in range(60):
        create_entry(project, admin, f"scope.update{number}")
    create_entry(other_project, admin, "scope.faraway")
    first = client.get(f"/access/audit/?scope={project.path}&who=admin").content.decode()
    assert "scope.update59" in first
    assert not any(text in first for text in ("scope.update5<", "scope.faraway"))
    address = first.split('rel="next"')[0].rsplit('href="', 1)[1].split('"')[0].replace("&amp;", "&")
    assert "who=admin" in address
    second = client.get(address).content.decode()
    assert "scope.update5<" in second
    assert "scope.update59" not in second
    assert "scope.faraway" in client.get("/access/audit/?scope=account").content.decode()


def test_what_hangs_on_no_scope_is_for_those_who_may_read_the_account(
    project: Scope, admin: User, stranger: User, call: Call
):
    audit.record_audit_entry(actor=admin, action="user.sign_in", thing=admin)
    for person, count in ((admin, 1), (stranger, 0)):
        results = call(person).get("/api/v1/audit?action=user.sign_in").json()["results"]
        assert len(results) == count


def test_an_entry_opens_to_what_changed_and_leads_to_its_thing(secret: Secret, admin: User, browse: Browse):
    client = browse(admin)
    entry = AuditEntry.objects.get(action="secret.create")
    page = client.get(f"/access/audit/{entry.pk}/").content.decode()
    assert "<ins>Database</ins>" in page
    assert f'href="/secrets/{secret.pk}/"' in page
    assert planted("a wonderful value") not in page
    delete_secret(actor=admin, secret=secret)
    assert (
        f'href="/secrets/{entry.thing_id}/"' not in client.get(f"/access/audit/{entry.pk}/").content.decode()
    )


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ({"a": 1, "b": 2}, {"a": 1, "b": 3}, [("b", "2", "3")]),
        (None, {"a": {"b": "x"}}, [("a.b", None, "x")]),
        ({"tags": ["eu"]}, {"tags": ["eu", "prod"]}, [("tags", "eu", "eu, prod")]),
        ({"rows": [{"n": 1}]}, {"rows": []}, [("rows.0.n", "1", None), ("rows", None, "")]),
        ({"on": True}, {"on": None}, [("on", "true", None)]),
        (None, None, []),
    ],
)
def test_a_change_names_its_place_and_both_sides(before: Any, after: Any, expected: list[tuple[str, ...]]):
    assert [
        (change.path, change.before, change.after) for change in compute_changes(before, after)
    ] == expected


def test_texts_of_several_lines_are_compared_line_by_line():
    change = compute_changes({"yaml": "a: 1\nb: 2\n"}, {"yaml": "a: 1\nb: 3\n"})[0]
    assert change.lines is not None
    assert (change.lines.added, change.lines.removed) == (1, 1)
