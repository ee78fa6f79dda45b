"""The pages of policy rules."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from policies.models import PolicyRule
from rbac.models import Scope, User
from tests.fixtures.people import make_person

Browse = Callable[[User], Client]
pytestmark = pytest.mark.django_db
FIELDS = {
    "name": "No latest",
    "subject": "Run",
    "condition": "artifact.tag != 'latest'",
    "message": "Choose a version.",
    "effect": "REFUSE",
    "is_enabled": "on",
}


def text_of(response: Any) -> str:
    return str(response.content.decode())


def test_a_rule_is_created_listed_and_shown(project: Scope, admin: User, browse: Browse) -> None:
    client = browse(admin)
    assert "No policy rules in this scope" in text_of(client.get("/policy-rules/"))
    page = text_of(client.post("/policy-rules/new/", {**FIELDS, "in_scope": project.path}, follow=True))
    assert "artifact.tag != &#x27;latest&#x27;" in page
    assert PolicyRule.objects.get().identifier == "no_latest"
    assert "Choose a version." in text_of(client.get("/policy-rules/"))


def test_a_list_without_the_right_to_view_claims_and_offers_nothing(project: Scope, browse: Browse) -> None:
    page = text_of(browse(make_person("runner", "pipeline_executor", project)).get("/policy-rules/"))
    assert "No policy rules to show in this scope" in page
    assert "core_policyrule_view" in page
    assert reverse("test-policy-condition") not in page


def test_a_list_shows_the_rules_in_force_from_scopes_above_to_who_may_view_rules_here(
    project: Scope, admin: User, browse: Browse
) -> None:
    above = project.parent
    assert above is not None
    rule = _create_rule(above, "no_latest", "Choose a version.")
    _create_rule(above, "retired", "Nobody reads this.", is_enabled=False)
    _create_rule(project, "own", "Ask Ada.")
    author = make_person("author", "project_admin", project)
    own, _, from_above = text_of(browse(author).get("/policy-rules/")).partition("From scopes above")
    assert "Ask Ada." in own
    assert "Choose a version." not in own
    assert "Choose a version." in from_above
    assert "Nobody reads this." not in from_above
    assert reverse("policy-rule", args=[rule.pk]) not in from_above
    address = {"scope": project.path}
    assert reverse("policy-rule", args=[rule.pk]) in text_of(browse(admin).get("/policy-rules/", address))
    runner = make_person("runner", "pipeline_executor", project)
    assert "Choose a version." not in text_of(browse(runner).get("/policy-rules/"))


def test_the_form_shows_an_example_of_each_document(project: Scope, admin: User, browse: Browse) -> None:
    page = text_of(browse(admin).get("/policy-rules/new/"))
    for name in ("excludes_executor", "containerDefinitions", "is_runtime_input"):
        assert name in page


def test_a_condition_that_cannot_be_parsed_is_reported_at_its_field(
    project: Scope, admin: User, browse: Browse
) -> None:
    fields = {**FIELDS, "in_scope": project.path, "condition": "artifact.tag !="}
    response = browse(admin).post("/policy-rules/new/", fields)
    assert response.status_code == 400
    assert "cannot be parsed at line 1" in text_of(response)
    assert not PolicyRule.objects.exists()


def test_a_concurrent_change_is_shown_before_it_is_overwritten(
    project: Scope, admin: User, browse: Browse
) -> None:
    client = browse(admin)
    client.post("/policy-rules/new/", {**FIELDS, "in_scope": project.path})
    address = reverse("edit-policy-rule", args=[PolicyRule.objects.get().pk])
    assert client.post(address, {**FIELDS, "name": "Theirs", "version": 1}).status_code == 302
    response = client.post(address, {**FIELDS, "name": "Mine", "version": 1})
    assert response.status_code == 409
    assert 'value="Mine"' in text_of(response)


def _create_rule(scope: Scope, identifier: str, message: str, *, is_enabled: bool = True) -> PolicyRule:
    return PolicyRule.objects.create(
        scope=scope,
        identifier=identifier,
        name=identifier,
        subject="Run",
        condition="attempt == 1",
        message=message,
        is_enabled=is_enabled,
    )
