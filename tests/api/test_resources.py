"""Connectors, secrets, files, services, environments and pipelines through the API."""

from collections.abc import Callable

import pytest
from rest_framework.test import APIClient

from catalog.models import Infrastructure, Service, ServiceOverride
from connectors.models import Connector, Secret
from deployments.models import Execution
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Scope, User
from tests.api.sample_project import PIPELINE, TASK_DEFINITION, World
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]
HERE = {"org": "default", "project": "demo"}
VALUE = planted("a-very-secret-value")


@pytest.fixture
def client(admin: User, project: Scope, call: Call) -> APIClient:
    client = call(admin)
    client.default_format = "json"
    return client


def post(client: APIClient, address: str, **body: object):
    return client.post(f"/api/v1/{address}", body, format="json")


def test_everything_that_a_run_needs_can_be_made_through_the_api(client: APIClient):
    assert post(client, "secrets", identifier="key", name="Key", value=VALUE, **HERE).status_code == 201
    spec = {"credentials": "AccessKey", "access_key_id": "AKIAIOSFODNN7EXAMPLE"}
    connector = post(client, "connectors", identifier="aws", name="AWS", spec=spec, secret="key", **HERE)
    assert connector.json()["secret"] == "key"
    assert post(client, "files", path="/a/task.yaml", content=TASK_DEFINITION, **HERE).status_code == 201
    service = post(
        client,
        "services",
        identifier="myapp",
        name="My app",
        variables={"port": 80, "debug": False},
        artifact={"image": "registry.example:5000/my/app"},
        manifests=[
            {"identifier": "task", "kind": "EcsTaskDefinition", "paths": ["/a/task.yaml"]},
            {"identifier": "svc", "kind": "EcsServiceDefinition", "store": "Inline", "content": "a: 1\n"},
        ],
        **HERE,
    )
    assert service.json()["artifact"] == {
        "image": "registry.example:5000/my/app",
        "tag": "latest",
        "source": {},
    }
    assert service.json()["manifests"][1]["content"] == "a: 1\n"
    environment = post(client, "environments", identifier="dev", name="Dev", **HERE).json()
    assert environment["kind"] == "PreProduction"
    place = {
        "identifier": "sandbox",
        "name": "S",
        "connector": "aws",
        "region": "us-east-1",
        "cluster": "demo",
    }
    response = post(client, f"environments/{environment['id']}/infrastructures", **place)
    own = {"id": response.json()["id"], "connector_scope": "account/default/demo"}
    assert response.json() == {**place, **own, "is_dynamic": False, "version": 1}
    mapped = {
        "identifier": "made",
        "region": "<+provisioner.region>",
        "cluster": "<+provisioner.cluster>",
        "is_dynamic": True,
    }
    dynamic = post(client, f"environments/{environment['id']}/infrastructures", **place | mapped).json()
    assert {name: dynamic[name] for name in mapped} == mapped
    pipeline = post(client, "pipelines", yaml=PIPELINE, **HERE)
    assert pipeline.json()["identifier"] == "rolling"
    run = post(client, f"pipelines/{pipeline.json()['id']}/executions")
    assert run.status_code == 201
    assert run.json()["number"] == 1


def test_no_answer_and_no_audit_entry_holds_a_secret_value(client: APIClient):
    creation = post(client, "secrets", identifier="key", name="Key", value=VALUE, **HERE)
    address = f"/api/v1/secrets/{creation.json()['id']}"
    update = client.patch(address, {"value": VALUE + "2"}, format="json")
    answers = [
        creation,
        update,
        client.get(address),
        client.get("/api/v1/secrets"),
        client.get("/api/v1/audit"),
    ]
    assert not [answer for answer in answers if VALUE.encode() in answer.content]
    assert Secret.objects.get().value == VALUE + "2"
    assert VALUE not in str(list(AuditEntry.objects.values()))


@pytest.mark.parametrize(
    ("address", "body", "path"),
    [
        ("secrets", {"identifier": "key", "name": "Key", "value": "short"}, "value"),
        ("secrets", {"identifier": "a-b", "name": "Key", "value": VALUE}, "identifier"),
        ("secrets", {"identifier": "key\n", "name": "\x07", "value": VALUE}, "name"),
        ("secrets", {"name": "Key", "value": VALUE}, "identifier"),
        ("connectors", {"identifier": "x", "name": "X", "spec": {"password": "y"}}, "password"),
        ("connectors", {"identifier": "x", "name": "X", "spec": {}, "kind": "Moon"}, "kind"),
        ("connectors", {"identifier": "x", "name": "X", "spec": {}, "secret": "nothing"}, "secret"),
        ("files", {"path": "no-slash", "content": ""}, "path"),
        ("files", {"path": "/a/../b", "content": ""}, "path"),
        ("files", {"path": "/a", "content": "x", "is_folder": True}, "content"),
        ("services", {"identifier": "x", "name": "X", "variables": {"a": []}}, "variables.a"),
        ("services", {"identifier": "x", "name": "X", "artifact": {"image": "a b"}}, "artifact.image"),
        (
            "services",
            {"identifier": "x", "name": "X", "manifests": [{"identifier": "m", "kind": "EcsTaskDefinition"}]},
            "manifests.0",
        ),
        (
            "services",
            {"identifier": "x", "name": "X", "manifests": [{"identifier": "m", "kind": "Moon"}]},
            "manifests.0.kind",
        ),
        ("environments", {"identifier": "x", "name": "X", "kind": "Moon"}, "kind"),
        ("pipelines", {"yaml": "pipeline: ["}, ""),
        ("pipelines", {}, "yaml"),
    ],
)
def test_bad_input_is_refused_and_the_place_is_named(
    client: APIClient, address: str, body: dict[str, object], path: str
):
    response = post(client, address, **body, **HERE)
    problem = response.json()
    assert response.status_code == 400, problem
    assert response["Content-Type"] == "application/problem+json"
    assert path in [error["path"] for error in problem["errors"]]


@pytest.mark.parametrize(
    ("address", "body"),
    [
        ("secrets", {"identifier": "key", "name": "Key", "value": VALUE}),
        ("connectors", {"identifier": "aws", "name": "X", "spec": {"credentials": "DefaultChain"}}),
        ("files", {"path": "/task.yaml", "content": ""}),
        ("services", {"identifier": "myapp", "name": "X"}),
        ("environments", {"identifier": "dev", "name": "X"}),
        ("pipelines", {"yaml": PIPELINE}),
    ],
)
def test_what_exists_already_is_a_conflict(
    world: World, client: APIClient, address: str, body: dict[str, object]
):
    assert post(client, address, **body, **HERE).status_code in (409, 412)


@pytest.mark.parametrize(
    "scope_fields",
    [{"org": "default", "project": "nowhere"}, {"org": "nowhere"}, {"org": "other", "project": "demo"}],
)
def test_a_scope_that_is_not_there_is_404(client: APIClient, scope_fields: dict[str, str]):
    assert post(client, "environments", identifier="x", name="X", **scope_fields).status_code == 404


def test_a_project_without_its_org_is_bad_input(client: APIClient):
    assert post(client, "environments", identifier="x", name="X", project="demo").status_code == 404
    assert client.get("/api/v1/environments?project=demo").status_code == 404


def test_the_scope_can_be_named_in_the_address(client: APIClient):
    response = post(client, "environments?org=default&project=demo", identifier="x", name="X")
    assert response.json()["scope"] == "account/default/demo"


def test_lists_are_narrowed_by_identifier_and_scope(world: World, other_world: World, client: APIClient):
    def scopes(query: str) -> list[str]:
        return [row["scope"] for row in client.get(f"/api/v1/services{query}").json()["results"]]

    assert len(scopes("")) == 2
    assert len(scopes("?identifier=myapp")) == 2
    assert scopes("?identifier=nothing") == []
    assert scopes("?org=default") == ["account/default/demo"]
    assert scopes("?org=other&project=elsewhere") == ["account/other/elsewhere"]
    assert scopes("?org=default&project=elsewhere") == []
    assert scopes("?org=DEFAULT") == []


def test_a_list_goes_on_at_its_next_address(client: APIClient):
    for number in range(5):
        post(client, "environments", identifier=f"e{number}", name="E", **HERE)
    identifiers, address = [], "/api/v1/environments?page_size=2"
    while address:
        page = client.get(address).json()
        assert set(page) == {"results", "next"}
        identifiers += [row["identifier"] for row in page["results"]]
        address = page["next"]
    assert identifiers == ["e4", "e3", "e2", "e1", "e0"]


@pytest.mark.parametrize(
    ("kind", "method", "body"),
    [
        ("connector", "patch", {"name": "Changed"}),
        ("service", "put", {"name": "Changed"}),
        ("environment", "put", {"name": "Changed"}),
        ("pipeline", "put", {"yaml": PIPELINE + "# changed\n"}),
        ("role", "put", {"name": "Changed", "permissions": ["core_delegate_view"]}),
        ("resource_group", "patch", {"name": "Changed"}),
    ],
)
def test_a_change_of_an_old_version_is_refused(
    world: World, client: APIClient, kind: str, method: str, body: dict[str, object]
):
    address = f"/api/v1/{kind.replace('_', '-')}s/{getattr(world, kind).pk}"
    tag = client.get(address)["ETag"]
    change = getattr(client, method)
    first = change(address, body, format="json", HTTP_IF_MATCH=tag)
    assert first.status_code == 200, first.json()
    assert first["ETag"] != tag
    late = change(address, body, format="json", HTTP_IF_MATCH=tag)
    assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
    assert change(address, body, format="json", HTTP_IF_MATCH="*").status_code == 200
    assert change(address, body, format="json").status_code == 200


@pytest.mark.parametrize(
    "kind",
    [
        "connector",
        "delegate",
        "environment",
        "infrastructure",
        "input_set",
        "pipeline",
        "resource_group",
        "role",
        "service",
        "trigger",
    ],
)
def test_an_old_version_is_not_deleted(world: World, client: APIClient, kind: str):
    row = getattr(world, kind)
    above = f"environments/{world.environment.pk}/" if kind == "infrastructure" else ""
    address = f"/api/v1/{above}{kind.replace('_', '-')}s/{row.pk}"
    tag = client.get(address)["ETag"]
    late = client.delete(f"{address}?although_used=true", HTTP_IF_MATCH='"0"')
    assert (late.status_code, late.json()["code"]) == (412, "changed_meanwhile")
    assert client.get(address).status_code == 200
    # What is in use is refused for that reason.
    assert client.delete(f"{address}?although_used=true", HTTP_IF_MATCH=tag).status_code in (204, 409)


def test_a_new_file_replaces_no_other(client: APIClient):
    assert post(client, "files", path="/a.yaml", content="a: 1\n", **HERE).status_code == 201
    again = post(client, "files", path="/a.yaml", content="a: 2\n", **HERE)
    assert (again.status_code, again.json()["code"]) == (409, "conflict")
    assert again.json()["detail"] == "A file /a.yaml already exists."
    assert client.get("/api/v1/files/a.yaml?org=default&project=demo").json()["content"] == "a: 1\n"


def test_a_file_is_written_read_and_deleted_by_its_path(client: APIClient):
    address = "/api/v1/files/ECS Tutorial/task.yaml?org=default&project=demo"
    creation = client.put(address, {"content": "a: 1\n"}, format="json")
    assert creation.json()["path"] == "/ECS Tutorial/task.yaml"
    assert creation["ETag"] == '"1"'
    update = client.put(address, {"content": "a: 2\n"}, format="json", HTTP_IF_MATCH='"1"')
    assert update["ETag"] == '"2"'
    late = client.put(address, {"content": "a: 3\n"}, format="json", HTTP_IF_MATCH='"1"')
    assert late.status_code == 412
    assert client.get(address).json()["content"] == "a: 2\n"
    assert client.get(address).json()["updated_by"] == "admin"
    folder = "/api/v1/files/ECS Tutorial?org=default&project=demo"
    assert client.get(folder).json()["is_folder"] is True
    assert client.delete(folder).status_code == 409
    assert client.delete(f"{folder}&with_content=1").status_code == 204
    assert client.get(address).status_code == 404


def test_files_are_listed_without_their_content(world: World, client: APIClient):
    post(client, "files", path="/a/b.yaml", content="x", **HERE)
    files = client.get("/api/v1/files?org=default&project=demo&folder=/a").json()["results"]
    assert [file["path"] for file in files] == ["/a/b.yaml"]
    assert "content" not in files[0]
    by_path = client.get("/api/v1/files?path=/task.yaml").json()["results"]
    assert [file["path"] for file in by_path] == ["/task.yaml"]


def test_replacing_a_service_replaces_its_manifests_and_its_artifact(world: World, client: APIClient):
    address = f"/api/v1/services/{world.service.pk}"
    body = {"name": "New", "artifact": None, "manifests": []}
    answer = client.put(address, body, format="json").json()
    assert (answer["artifact"], answer["manifests"], answer["version"]) == (None, [], 2)
    assert Service.objects.get(pk=world.service.pk).manifests.count() == 0


@pytest.mark.parametrize("kind", ["service", "infrastructure", "environment"])
def test_what_a_pipeline_uses_is_deleted_only_by_saying_so(world: World, client: APIClient, kind: str):
    environment = f"/api/v1/environments/{world.environment.pk}"
    address = {
        "service": f"/api/v1/services/{world.service.pk}",
        "infrastructure": f"{environment}/infrastructures/{world.infrastructure.pk}",
        "environment": environment,
    }[kind]
    refused = client.delete(address)
    assert (refused.status_code, refused.json()["code"]) == (409, "still_used")
    assert f"pipeline {world.pipeline.name}" in refused.json()["detail"]
    assert client.get(address).status_code == 200
    assert client.delete(f"{address}?although_used=true").status_code == 204
    assert client.get(address).status_code == 404


def test_an_infrastructure_needs_a_connector_from_here_or_above(
    world: World, other_world: World, client: APIClient
):
    Infrastructure.objects.filter(pk=world.infrastructure.pk).delete()
    other_world.connector.identifier = "foreign"
    other_world.connector.save(update_fields=["identifier"])
    address = f"environments/{world.environment.pk}/infrastructures"
    body = {"identifier": "p", "name": "P", "region": "us-east-1", "cluster": "demo"}
    assert post(client, address, connector="foreign", **body).status_code == 400
    assert post(client, address, connector="aws", **{**body, "region": "us-moon-1"}).status_code == 400
    assert post(client, address, connector="aws", **{**body, "cluster": "a/b"}).status_code == 400
    assert post(client, address, connector="aws", **body).status_code == 201


def test_an_infrastructure_keeps_its_connector_beside_a_nearer_one_of_the_same_name(
    world: World, client: APIClient
):
    account = Scope.objects.account()
    Connector.objects.filter(pk=world.connector.pk).update(scope=account)
    address = f"/api/v1/environments/{world.environment.pk}/infrastructures/{world.infrastructure.pk}"
    document = client.get(address).json()
    assert document["connector"] == "aws"
    nearer = Connector.objects.create(
        scope=world.scope, identifier="aws", name="Nearer", spec=world.connector.spec, secret=world.secret
    )
    for _ in range(2):
        changed = client.put(address, document, format="json")
        assert changed.status_code == 200, changed.json()
        assert Infrastructure.objects.get(pk=world.infrastructure.pk).connector == world.connector
        document = changed.json()
        assert (document["connector"], document["connector_scope"]) == ("account.aws", "account")
    (row,) = client.get(address.rpartition("/")[0]).json()["results"]
    assert row == document
    Infrastructure.objects.filter(pk=world.infrastructure.pk).update(connector=nearer)
    assert client.get(address).json()["connector"] == "aws"


def test_an_infrastructure_is_found_in_its_own_environment_only(world: World, client: APIClient):
    other = post(client, "environments", identifier="prod", name="P", **HERE).json()["id"]
    assert client.get(f"/api/v1/environments/{other}/infrastructures").json()["results"] == []
    foreign = f"/api/v1/environments/{other}/infrastructures/{world.infrastructure.pk}"
    assert client.get(foreign).status_code == 404


@pytest.mark.parametrize(
    "media_type", ["application/yaml", "application/x-yaml", "application/yaml; charset=utf-8"]
)
def test_a_pipeline_can_be_sent_as_yaml(world: World, client: APIClient, media_type: str):
    text = PIPELINE.replace("identifier: rolling", "identifier: yaml_one")
    response = client.post(
        "/api/v1/pipelines?org=default&project=demo", text.encode(), content_type=media_type
    )
    assert response.status_code == 201, response.json()
    assert Pipeline.objects.get(identifier="yaml_one").yaml == text


def test_a_bad_pipeline_names_path_and_line(world: World, client: APIClient):
    text = PIPELINE.replace("serviceRef: myapp", "serviceRef: ghost")
    missing = post(client, "pipelines", yaml=text.replace("rolling", "x", 1), **HERE).json()
    assert missing["code"] == "pipeline_not_runnable"
    assert "ghost" in missing["errors"][0]["message"]
    wrong = post(client, "pipelines", yaml=PIPELINE.replace("ECS", "Moon"), **HERE).json()
    assert wrong["errors"][0]["line"] == 10
    assert wrong["errors"][0]["path"] == "pipeline.stages.0.stage.spec.deploymentType"


def test_a_deleted_pipeline_leaves_its_executions_readable_and_its_identifier_free(
    world: World, client: APIClient
):
    address = f"/api/v1/pipelines/{world.pipeline.pk}"
    assert client.delete(address).status_code == 204
    assert client.get(address).status_code == 404
    assert client.post(f"{address}/executions", {}, format="json").status_code == 404
    execution = client.get(f"/api/v1/executions/{world.execution.pk}").json()
    assert execution["pipeline"]["deleted"] is True
    assert execution["pipeline"]["version"] == 1
    response = post(client, "pipelines", yaml=PIPELINE, **HERE)
    assert response.status_code == 201
    assert client.delete(f"/api/v1/pipelines/{response.json()['id']}").status_code == 204
    assert not Pipeline.with_deleted.filter(pk=response.json()["id"]).exists()


def test_every_version_of_a_pipeline_is_kept_and_can_come_back(world: World, client: APIClient):
    address = f"/api/v1/pipelines/{world.pipeline.pk}"
    new_yaml = PIPELINE.replace("name: Deploy", "name: Another  # with a comment")
    assert client.put(address, {"yaml": new_yaml}, format="json").json()["version"] == 2
    versions = client.get(f"{address}/versions").json()["results"]
    assert [(version["number"], version["saved_by"]) for version in versions] == [(2, "admin"), (1, None)]
    assert client.get(f"{address}/versions/2").json()["yaml"] == new_yaml
    stale = client.post(f"{address}/versions/1/restore", headers={"if-match": '"1"'})
    assert stale.status_code == 412
    restored_version = client.post(f"{address}/versions/1/restore", headers={"if-match": '"2"'}).json()
    assert (restored_version["version"], restored_version["yaml"]) == (3, PIPELINE)
    assert client.get(f"{address}/versions/9").status_code == 404


def test_variables_are_frozen_when_a_run_starts_and_the_environment_wins(world: World, client: APIClient):
    ServiceOverride.objects.all().delete()
    service = client.get(f"/api/v1/services/{world.service.pk}").json()
    body = {"name": service["name"], "manifests": service["manifests"], "artifact": service["artifact"]}
    body |= {"variables": {"level": "info", "host": ""}, "required_variables": ["host"]}
    assert client.put(f"/api/v1/services/{world.service.pk}", body, format="json").status_code == 200
    run = f"/api/v1/pipelines/{world.pipeline.pk}/executions"
    refused = client.post(run, {}, format="json")
    assert refused.status_code == 400
    assert "host of service myapp is required" in refused.json()["errors"][0]["message"]

    place = f"/api/v1/environments/{world.environment.pk}"
    environment = {"name": "Dev", "variables": {"level": "debug", "host": "db.internal"}}
    assert client.put(place, environment, format="json").json()["variables"] == environment["variables"]
    execution = Execution.objects.get(pk=client.post(run, {}, format="json").json()["id"])
    client.put(place, {"name": "Dev", "variables": {}}, format="json")
    values = execution.stages.get().values
    assert values["serviceVariables"] == {"level": "debug", "host": "db.internal"}
    assert values["service"]["variables"] == {"level": "info", "host": ""}
    assert values["env"]["variables"] == environment["variables"]


def test_a_variable_that_no_expression_could_name_is_refused(world: World, client: APIClient):
    answer = post(client, "environments", identifier="x", name="X", variables={"two words": "1"}, **HERE)
    assert answer.status_code == 400
    assert answer.json()["errors"][0]["path"] == "variables.two words"


def test_the_schema_of_pipelines_and_the_regions_are_served(client: APIClient):
    assert client.get("/api/v1/pipeline-schema").json()["type"] == "object"
    names = [region["name"] for region in client.get("/api/v1/aws-regions").json()["results"]]
    assert "us-east-1" in names


def test_testing_a_connector_says_what_is_wrong(world: World, client: APIClient):
    answer = client.post(f"/api/v1/connectors/{world.connector.pk}/test", {}, format="json")
    assert answer.status_code == 200
    assert answer.json()["ok"] is False
    assert answer.json()["message"]
    connector = client.get(f"/api/v1/connectors/{world.connector.pk}").json()
    assert connector["last_test_ok"] is False
    clusters = client.get(f"/api/v1/connectors/{world.connector.pk}/clusters?region=us-east-1")
    assert clusters.status_code == 409
