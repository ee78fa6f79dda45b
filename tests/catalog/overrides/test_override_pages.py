"""The pages of overrides: what is entered, what is merged, and where each line of it comes from."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from catalog.manifests.documents import parse_document
from catalog.manifests.layers import ManifestLayer, merge_layers
from catalog.manifests.manifest_files import check_file_text, find_overrides_using
from catalog.models import Service, ServiceOverride
from catalog.overrides.yaml_lines import render_lines
from connectors.file_kinds import FileText
from connectors.models import FileNode
from rbac.models import Scope, User
from tests.api.requests import rows_of
from tests.api.sample_project import World, make_world

Browse = Callable[[User], Client]


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


def read_text(response: Any) -> str:
    return str(response.content.decode())


def build_form(content: str, **values: str) -> dict[str, Any]:
    row = {"kind": "EcsTaskDefinition", "store": "Inline", "mode": "merge", "content": content} | values
    return {"version": 0} | rows_of("variables") | rows_of("manifests", **row)


def get_environment_path(world: World) -> str:
    return f"/environments/{world.environment.pk}/services/{world.service.pk}/"


def get_infrastructure_path(world: World) -> str:
    return (
        f"/environments/{world.environment.pk}/infrastructures/{world.infrastructure.pk}"
        f"/services/{world.service.pk}/"
    )


@pytest.mark.django_db
def test_a_manifest_is_overridden_and_the_merged_page_says_where_each_line_comes_from(
    world: World, client: Client
):
    ServiceOverride.objects.all().delete()
    assert client.post(get_environment_path(world), build_form("memory: '512'\n")).status_code == 302
    assert (
        client.post(get_infrastructure_path(world), build_form("memory: '1024'\ncpu: '256'\n")).status_code
        == 302
    )
    page = read_text(client.get(get_infrastructure_path(world) + "manifests/"))
    lines = re.findall(r'<tr class="of-(\w+)">.*?<td class="text">(.*?)</td>', page)
    assert ("service", "family: Canary4711") in lines
    assert ("infrastructure", "memory: &quot;1024&quot;") in lines
    assert "task_definition of the infrastructure:1" in page
    assert "<code>512</code> of the environment" in page
    merged_page = read_text(client.get(get_environment_path(world) + "manifests/"))
    assert "memory: &quot;512&quot;" in merged_page
    assert "1024" not in merged_page


@pytest.mark.django_db
def test_what_is_wrong_with_an_override_is_told_and_what_was_entered_stays(world: World, client: Client):
    ServiceOverride.objects.all().delete()
    response = client.post(get_environment_path(world), build_form("family:\n"))
    assert response.status_code == 400
    assert "task_definition of the environment, line 1" in read_text(response)
    assert "family:\n</textarea>" in read_text(response)


@pytest.mark.django_db
def test_an_override_is_checked_with_what_it_overrides_while_it_is_written(world: World, client: Client):
    check = get_environment_path(world) + "check/?row=manifests-0"
    valid_body = client.post(check, build_form("memory: '512'\n")).json()
    assert (valid_body["errors"], valid_body["note"]) == (
        [],
        "Valid together with the manifest it overrides.",
    )
    invalid_body = client.post(check, build_form("memory: '512'\nnetworkMode: magic\n")).json()
    assert [(error["line"], error["path"]) for error in invalid_body["errors"]] == [(2, "networkMode")]
    unreadable_body = client.post(check, build_form("memory: [\n")).json()
    assert unreadable_body["errors"][0]["line"] == 2


@pytest.mark.django_db
def test_two_who_override_the_same_lose_nothing(world: World, client: Client):
    ServiceOverride.objects.all().delete()
    client.post(get_environment_path(world), build_form("memory: '512'\n"))
    response = client.post(get_environment_path(world), build_form("memory: '1024'\n"))
    assert response.status_code == 409
    assert "Someone else saved a newer version" in read_text(response)
    assert "memory: &#x27;1024&#x27;" in read_text(response)
    assert (
        client.post(get_environment_path(world), build_form("memory: '1024'\n") | {"version": 1}).status_code
        == 302
    )


@pytest.mark.django_db
def test_a_file_that_overrides_is_not_checked_as_a_whole_and_says_who_uses_it(
    world: World, client: Client, admin: User
):
    ServiceOverride.objects.all().delete()
    file = FileNode.objects.create(scope=world.scope, path="/bigger.yaml", content="memory: '512'\n")
    row = {"store": "FileStore", "paths": "/bigger.yaml"}
    assert client.post(get_infrastructure_path(world), build_form("", **row)).status_code == 302
    check_result = check_file_text(FileText(world.scope, file.path, "containerDefinitions: []\n"))
    assert check_result is not None
    assert (check_result.errors, check_result.note) == (
        (),
        "Valid syntax. It is validated with the manifest that it overrides.",
    )
    assert [usage.title for usage in find_overrides_using(file, admin).visible] == [
        f"override of {world.service.name} in {world.environment.name}"
    ]
    assert "/bigger.yaml:1" in read_text(client.get(get_infrastructure_path(world) + "manifests/"))


@pytest.mark.django_db
def test_the_page_of_an_infrastructure_leads_to_what_counts_there(world: World, client: Client):
    page = read_text(
        client.get(f"/environments/{world.environment.pk}/infrastructures/{world.infrastructure.pk}/edit/")
    )
    assert f'href="{get_infrastructure_path(world)}"' in page
    assert f'href="{get_infrastructure_path(world)}manifests/"' in page


@pytest.mark.django_db
def test_a_task_definition_is_given_by_its_arn(world: World, client: Client):
    arn = "arn:aws:ecs:us-east-1:123456789012:task-definition/web:7"
    row = {"kind": "EcsTaskDefinition", "store": "TaskDefinitionArn", "content": "left: over", "arn": arn}
    form_values = {"name": "App", "version": 1} | rows_of("variables") | rows_of("manifests", **row)
    address = f"/services/{world.service.pk}/edit/"
    assert "ARN of a task definition" in read_text(
        client.post(address, form_values | {"manifests-0-arn": "web:7"})
    )
    assert client.post(address, form_values).status_code == 302
    manifest = Service.objects.get().manifests.get()
    assert (manifest.store, manifest.content) == ("TaskDefinitionArn", arn)
    assert f'value="{arn}"' in read_text(client.get(address))
    assert f"<code>{arn}</code>" in read_text(client.get(f"/services/{world.service.pk}/"))


SERVICE = """\
family: web
command: []
cpu: '256'
containerDefinitions:
  - name: app
    portMappings: [{containerPort: 80}]
    environment:
      - {name: A, value: 'yes'}
      - {name: B, value: two words}
"""
OVERRIDE = """\
cpu: null
containerDefinitions:
  - name: app
    environment:
      - {name: A, $remove: true}
"""


def test_the_lines_of_a_merged_manifest_read_back_as_the_manifest():
    merged = merge_layers(
        "EcsTaskDefinition",
        [
            ManifestLayer("service", parse_document(SERVICE, "a")),
            ManifestLayer("environment", parse_document(OVERRIDE, "b")),
        ],
    )
    lines = render_lines(merged)
    kept_text = "\n".join(line.text for line in lines if not line.is_removed)
    assert parse_document(kept_text, "again").value == merged.document.value
    removed_lines = [(line.text.strip(), line.level, line.line) for line in lines if line.is_removed]
    assert removed_lines == [("A", "environment", 5), ("cpu", "environment", 1)]
