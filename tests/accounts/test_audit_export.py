"""The audit trail as a file: whole, in pieces, and nothing in it is a formula."""

import csv
import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from rest_framework.test import APIClient

from accounts import audit_exports
from guards.limits import Limit
from rbac import audit
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]


def read_content(response: Any) -> str:
    assert response.status_code == 200, response.content
    assert response["X-Content-Type-Options"] == "nosniff"
    return b"".join(response.streaming_content).decode()


def create_entries(scope: Scope, count: int) -> None:
    entry = {"actor_name": "anna", "action": "scope.update", "thing_type": "rbac.scope", "source": "page"}
    AuditEntry.objects.bulk_create(
        AuditEntry(scope=scope, thing_id=str(number), thing_name=f"n{number}", **entry)
        for number in range(count)
    )


def test_an_export_holds_every_entry_once_and_a_fixed_number_for_each_query(
    project: Scope, admin: User, call: Call
):
    create_entries(project, 1200)
    client = call(admin)
    with CaptureQueriesContext(connection) as queries:
        export = json.loads(read_content(client.get("/api/v1/audit/export?who=anna")))
    assert [row["thing_name"] for row in export["results"]] == [f"n{n}" for n in range(1199, -1, -1)]
    assert export["is_cut"] is False
    assert len([query for query in queries if "LIMIT 500" in query["sql"]]) == 4
    rows = csv.DictReader(io.StringIO(read_content(client.get("/api/v1/audit/export?who=anna&as=csv"))))
    assert [row["thing_name"] for row in rows] == [f"n{n}" for n in range(1199, -1, -1)]


def test_an_export_that_has_no_room_for_more_says_so(
    project: Scope, admin: User, call: Call, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(audit_exports, "AUDIT_EXPORT_ROWS", Limit(3, "entries", "an export", "a test"))
    client = call(admin)
    for count, is_cut in ((3, False), (1, True)):
        create_entries(project, count)
        response = client.get("/api/v1/audit/export?who=anna")
        export = json.loads(read_content(response))
        assert (len(export["results"]), export["is_cut"]) == (3, is_cut)
        assert response["X-Slipway-Export-Cut"] == str(is_cut).lower()


def test_users_who_had_the_same_name_are_told_apart(project: Scope, admin: User, call: Call):
    client, first = call(admin), make_person("anna")
    audit.record_audit_entry(actor=first, action="scope.update", thing=project)
    User.objects.filter(pk=first.pk).update(username="berta")
    second = make_person("anna")
    for actor in (second, None):
        audit.record_audit_entry(actor=actor, action="scope.update", thing=project)
    actors = [(None, "slipway"), (second.pk, "anna"), (first.pk, "anna")]
    listed = client.get("/api/v1/audit?action=scope.update").json()["results"]
    assert [(entry["actor_id"], entry["actor"]) for entry in listed] == actors
    export = json.loads(read_content(client.get("/api/v1/audit/export?action=scope.update")))
    assert [(entry["actor_id"], entry["actor"]) for entry in export["results"]] == actors
    rows = csv.DictReader(
        io.StringIO(read_content(client.get("/api/v1/audit/export?action=scope.update&as=csv")))
    )
    assert [row["actor_id"] for row in rows] == ["", str(second.pk), str(first.pk)]


@pytest.mark.parametrize(
    "text",
    [
        "=1+1",
        "+1",
        "-1",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        "\n=1",
        "  =1",
        "=cmd|'/c calc'!A0",
        "＝1",
        '"=1',
        "a,b\nc",
    ],
)
def test_no_cell_is_a_formula_and_every_text_comes_back(project: Scope, admin: User, call: Call, text: str):
    project.name = text
    reset = audit.current_request.set(audit.RequestInfo(request_id=text))
    try:
        audit.record_audit_entry(actor=admin, action="scope.update", thing=project, after={"name": text})
    finally:
        audit.current_request.reset(reset)
    content = read_content(call(admin).get("/api/v1/audit/export?action=scope.update&as=csv"))
    row = next(csv.DictReader(io.StringIO(content, newline="")))
    assert row["request_id"].removeprefix("'") == text
    assert row["request_id"].strip()[0] not in "=+-@＝"
    assert json.loads(row["after"]) == {"name": text}


def test_the_page_exports_what_its_list_shows(
    project: Scope, other_project: Scope, admin: User, browse: Callable[[User], Client]
):
    create_entries(project, 2)
    create_entries(other_project, 3)
    client = browse(admin)
    page = client.get(f"/access/audit/?scope={project.path}&who=anna").content.decode()
    address = "/access/audit/export/?" + page.split("/access/audit/export/?")[1].split('"')[0]
    response = client.get(address.replace("&amp;", "&"))
    assert response["Content-Disposition"] == 'attachment; filename="audit-trail.csv"'
    assert len(list(csv.DictReader(io.StringIO(read_content(response))))) == 2
    assert client.get("/access/audit/export/?as=pdf").status_code == 400
