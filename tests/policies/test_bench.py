"""The test bench: conditions on stored and pasted documents, without any effect."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from deployments.execution.policy_documents import load_execution_documents
from deployments.models import Execution
from policies import bench
from policies.models import PolicyRule
from policies.subjects import EXAMPLES
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person
from tests.policies.document_keys import collect_keys

Call = Callable[[User], APIClient]
Browse = Callable[[User], Client]
pytestmark = pytest.mark.django_db
EVALUATION = "/api/v1/policy-rules/evaluate"


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


def evaluate(client: APIClient, **body: Any) -> list[dict[str, Any]]:
    response = client.post(EVALUATION, {"subject": "Run", **body}, format="json")
    assert response.status_code == 200, response.json()
    return list(response.json()["results"])


def test_a_past_execution_shows_the_result_and_the_values_used(world: World, admin: User, call: Call) -> None:
    condition = "artifact.tag == 'v2' || stages.exists(s, s.environment.kind == 'Production')"
    (result,) = evaluate(call(admin), condition=condition, resource=str(world.execution.pk))
    assert (result["is_met"], result["reason"]) == (False, "")
    assert result["values"][0] == {"name": "artifact.tag", "value": '"v1"'}
    assert [value["name"] for value in result["values"]] == ["artifact.tag", "stages"]


def test_a_pipeline_and_a_manifest_are_evaluated(world: World, admin: User, call: Call) -> None:
    client = call(admin)
    condition = "stages.all(s, s.approvals.size() == 0)"
    (result,) = evaluate(client, subject="Pipeline", condition=condition, resource=str(world.pipeline.pk))
    assert result["is_met"]
    pair = f"{world.service.pk}/{world.environment.pk}"
    results = evaluate(client, subject="Manifest", condition="has(manifest.family)", resource=pair)
    assert {result["title"]: result["is_met"] for result in results} == {
        "EcsTaskDefinition": True,
        "EcsServiceDefinition": False,
    }


def test_a_pasted_document_may_lack_what_the_condition_names(project: Scope, admin: User, call: Call) -> None:
    condition = "artifact.tag.startsWith(prefix)"
    (result,) = evaluate(call(admin), condition=condition, document={"artifact": {"tag": "v1"}})
    assert (result["is_met"], result["values"]) == (False, [{"name": "artifact.tag", "value": '"v1"'}])
    assert "undeclared reference to 'prefix'" in result["reason"]


@pytest.mark.parametrize(
    "body",
    [
        {"condition": "true"},
        {"condition": "true", "document": {}, "resource": "1"},
        {"condition": "true &&", "document": {}},
    ],
)
def test_an_incomplete_request_is_refused(
    project: Scope, admin: User, call: Call, body: dict[str, Any]
) -> None:
    assert call(admin).post(EVALUATION, {"subject": "Run", **body}, format="json").status_code == 400


def test_a_resource_that_the_user_cannot_view_is_not_found(world: World, call: Call) -> None:
    other = Scope.objects.account()
    stranger = make_person("stranger", "delegate_manager", other)
    client = call(stranger)
    assert client.post(EVALUATION, {"subject": "Run"}, format="json").status_code == 403
    viewer = call(make_person("viewer", "viewer", world.scope))
    assert evaluate(viewer, condition="true", resource=str(world.execution.pk))
    for subject, resource in (("Run", "x"), ("Pipeline", "0"), ("Manifest", f"{world.service.pk}/0")):
        body = {"subject": subject, "condition": "true", "resource": resource}
        assert viewer.post(EVALUATION, body, format="json").status_code == 404


def test_the_document_of_an_execution_has_the_names_of_the_example(world: World, admin: User) -> None:
    (named,) = load_execution_documents(admin, str(world.execution.pk))
    keys = collect_keys(named.document)
    assert keys < collect_keys(EXAMPLES["Run"])
    missing = collect_keys(EXAMPLES["Run"]) - keys
    assert all(key.startswith((".freezes.", ".stages.approvals.")) for key in missing)


def test_the_page_evaluates_a_stored_execution(world: World, admin: User, browse: Browse) -> None:
    client = browse(admin)
    fields = {"condition": "artifact.tag == 'v1'", "resource": f"Run:{world.execution.pk}", "document": ""}
    page = client.post("/policy-rules/test/", fields).content.decode()
    assert "Met" in page
    assert "artifact.tag: &quot;v1&quot;" in page
    start = client.get(f"/policy-rules/test/?rule={world.policy_rule.pk}").content.decode()
    assert "artifact.tag != &#x27;latest&#x27;" in start
    assert f'value="Run:{world.execution.pk}"' in start
    assert f'value="Pipeline:{world.pipeline.pk}"' not in start
    assert client.post("/policy-rules/test/", {"condition": "true"}).status_code == 400


def test_saving_a_rule_tells_how_many_recent_executions_meet_it(
    world: World, admin: User, browse: Browse
) -> None:
    Execution.objects.filter(pk=world.execution.pk).update(artifact={"image": "myapp", "tag": "latest"})
    rule = PolicyRule.objects.get()
    fields = {"name": "X", "subject": "Run", "condition": rule.condition, "message": "M", "effect": "WARN"}
    address = f"/policy-rules/{rule.pk}/edit/"
    page = browse(admin).post(address, {**fields, "version": 1}, follow=True).content.decode()
    assert "Executions in its scope that meet it: 0 of the last 1." in page


def test_a_slow_condition_is_evaluated_on_as_many_executions_as_there_is_time_for(
    world: World, admin: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    rule = PolicyRule.objects.get()
    assert bench.count_recent_runs(admin, rule) == bench.RecentRuns(1, 1)
    monkeypatch.setattr(bench, "POLICY_TOTAL_MILLISECONDS", -1)
    assert bench.count_recent_runs(admin, rule) is None
