"""The REST API of policy rules."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from guards.limits import POLICY_RULES
from policies.models import PolicyRule
from rbac.models import AuditEntry, Scope, User

Call = Callable[[User], APIClient]
pytestmark = pytest.mark.django_db
RULES = "/api/v1/policy-rules"
BODY = {
    "name": "No latest",
    "subject": "Run",
    "condition": "artifact.tag != 'latest'",
    "message": "Choose a version.",
    "effect": "REFUSE",
}
NEW = {**BODY, "identifier": "no_latest", "org": "default", "project": "demo"}


def test_a_rule_is_made_read_changed_and_deleted(project: Scope, admin: User, call: Call) -> None:
    client = call(admin)
    creation = client.post(RULES, NEW, format="json")
    assert creation.status_code == 201
    document = creation.json()
    assert (document["effect"], document["is_enabled"], document["scope"]) == ("REFUSE", True, project.path)
    address = f"{RULES}/{document['id']}"
    assert client.get(address).json() == document
    change = {**BODY, "effect": "WARN", "is_enabled": False}
    update = client.put(address, change, format="json", HTTP_IF_MATCH=creation["ETag"])
    assert (update.status_code, update.json()["effect"], update.json()["version"]) == (200, "WARN", 2)
    assert client.put(address, change, format="json", HTTP_IF_MATCH=creation["ETag"]).status_code == 412
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    entries = AuditEntry.objects.filter(action__startswith="policyrule.").order_by("pk")
    assert [entry.action for entry in entries] == [
        "policyrule.create",
        "policyrule.update",
        "policyrule.delete",
    ]


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"subject": "Service"}, "subject"),
        ({"effect": "BLOCK"}, "effect"),
        ({"condition": "artifact.tag !="}, "condition"),
        ({"condition": "no_such_name == 1"}, "condition"),
        ({"condition": "'a' + " * 400 + "'a' == 'a'"}, "condition"),
        ({"message": ""}, "message"),
        ({"name": "a\u202eb"}, "name"),
    ],
)
def test_an_invalid_rule_is_refused_with_its_field(
    project: Scope, admin: User, call: Call, values: dict[str, object], path: str
) -> None:
    response = call(admin).post(RULES, {**NEW, **values}, format="json")
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == path


def test_a_scope_has_no_more_rules_than_the_limit(project: Scope, admin: User, call: Call) -> None:
    PolicyRule.objects.bulk_create(
        PolicyRule(scope=project, identifier=f"r{number}", name="R", subject="Run", condition="true")
        for number in range(POLICY_RULES)
    )
    assert call(admin).post(RULES, NEW, format="json").status_code == 409
