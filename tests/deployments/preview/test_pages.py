"""The pages of previews and policies."""

import json
from collections.abc import Callable
from html import unescape

import pytest
import yaml
from django.test import Client

from aws.policies import POLICIES
from pipelines.models import InputSet
from rbac.models import User
from tests.fixtures.engine_driver import Drive

pytestmark = [pytest.mark.django_db(transaction=True)]
Browse = Callable[[User], Client]


def _read_page(drive: Drive, browse: Browse, query: str = "") -> str:
    response = browse(drive.deployer).get(f"/pipelines/{drive.pipeline.pk}/preview/{query}")
    assert response.status_code == 200
    return str(response.content.decode())


def test_the_page_shows_the_writes_their_changes_and_the_permissions(drive: Drive, browse: Browse) -> None:
    page = _read_page(drive, browse, "?tag=1.99")
    for text in ("ecs:RegisterTaskDefinition", "library/nginx:1.99", "Service myapp is created with 1 task."):
        assert text in page
    assert "/iam-policies/ecs.json" in page
    assert "/iam-policies/run-task.json" not in page


def test_the_page_says_which_permission_is_missing(drive: Drive, browse: Browse) -> None:
    drive.sandbox.fault("denied", service="ecs", operation="DescribeServices", count=1)
    page = _read_page(drive, browse)
    assert "A run would fail here" in page
    assert "Missing IAM action: <code>ecs:DescribeServices</code>" in page


def test_a_bad_tag_is_refused_where_it_was_entered(drive: Drive, browse: Browse) -> None:
    assert "Use up to 128 letters, digits" in _read_page(drive, browse, "?tag=a%20b")


def test_the_run_form_leads_to_the_preview_of_its_tag(drive: Drive, browse: Browse) -> None:
    path = f"/pipelines/{drive.pipeline.pk}/preview/"
    response = browse(drive.deployer).post(path, {"tag": "1.28"})
    assert "library/nginx:1.28" in response.content.decode()
    assert (
        f'formaction="{path}"'
        in browse(drive.deployer).get(f"/pipelines/{drive.pipeline.pk}/run/").content.decode()
    )


def test_every_policy_can_be_downloaded_as_iam_takes_it(account: object, admin: User, browse: Browse) -> None:
    page = unescape(browse(admin).get("/iam-policies/").content.decode())
    for policy in POLICIES:
        response = browse(admin).get(f"/iam-policies/{policy.identifier}.json")
        assert json.loads(response.content) == policy.document
        assert policy.title in page
    assert browse(admin).get("/iam-policies/none.json").status_code == 404


@pytest.mark.parametrize("query", ["?set=blue", "?set=blue&tag=1.28"])
def test_a_preview_by_address_takes_the_values_of_its_input_sets(
    query: str, drive: Drive, browse: Browse
) -> None:
    document = yaml.safe_load(drive.pipeline.yaml)
    document["pipeline"]["variables"] = {"color": "<+input>"}
    wait = {"identifier": "wait", "name": "Wait", "type": "Wait", "spec": {"duration": "1m"}}
    wait["when"] = {"condition": "<+pipeline.variables.color> == 'blue'"}
    stage = document["pipeline"]["stages"][0]["stage"]["spec"]
    stage["execution"] = {"steps": [{"step": wait}]}
    stage.pop("strategy", None)
    drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    drive.pipeline.save()
    for color in ("blue", "green"):
        InputSet.objects.create(
            pipeline=drive.pipeline, identifier=color, name=color, inputs={"color": color}
        )
    assert "Skipped because this is false" in _read_page(drive, browse, query.replace("blue", "green"))
    assert "Skipped because this is false" not in _read_page(drive, browse, query)


def test_the_preview_and_the_plan_take_the_inputs_that_were_entered(drive: Drive, browse: Browse) -> None:
    document = yaml.safe_load(drive.pipeline.yaml)
    document["pipeline"]["variables"] = {"color": "<+input>", "token": {"type": "Secret", "required": True}}
    wait = {"identifier": "wait", "name": "Wait", "type": "Wait", "spec": {"duration": "1m"}}
    wait["when"] = {"condition": "<+pipeline.variables.color> == 'blue'"}
    steps = [{"step": {"identifier": "deploy", "type": "EcsRollingDeploy"}}, {"step": wait}]
    document["pipeline"]["stages"][0]["stage"]["spec"]["execution"] = {
        "steps": steps,
        "rollbackSteps": [{"step": {"identifier": "back", "type": "EcsRollingRollback"}}],
    }
    document["pipeline"]["stages"][0]["stage"]["spec"].pop("strategy", None)
    drive.pipeline.yaml = yaml.safe_dump(document, sort_keys=False)
    drive.pipeline.save()
    client, address = browse(drive.deployer), f"/pipelines/{drive.pipeline.pk}"
    condition_text = "&lt;+pipeline.variables.color&gt; == &#x27;blue&#x27;"
    assert f"only if {condition_text}" in client.get(f"{address}/run/").content.decode()
    form = {"tag": "1.28", "input.color": "green", "input.token": "hush-hush"}
    plan_page = client.post(f"{address}/run/plan/", form).content.decode()
    assert f"skipped because this is false: {condition_text}" in plan_page
    preview_page = client.post(f"{address}/preview/", form).content.decode()
    assert f"Skipped because this is false: {condition_text}" in preview_page
    assert 'value="green"' in preview_page
    assert "hush-hush" not in plan_page + preview_page
