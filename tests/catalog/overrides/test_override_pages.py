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


def text_of(response: Any) -> str:
    return str(response.content.decode())


def form(content: str, **more: str) -> dict[str, Any]:
    row = {"kind": "EcsTaskDefinition", "store": "Inline", "mode": "merge", "content": content} | more
    return {"version": 0} | rows_of("variables") | rows_of("manifests", **row)


def in_environment(world: World) -> str:
    return f"/environments/{world.environment.pk}/services/{world.service.pk}/"


def in_infrastructure(world: World) -> str:
    return (
        f"/environments/{world.environment.pk}/infrastructures/{world.infrastructure.pk}"
        f"/services/{world.service.pk}/"
    )


@pytest.mark.django_db
def test_a_manifest_is_overridden_and_the_merged_page_says_where_each_line_comes_from(
    world: World, client: Client
):
    ServiceOverride.objects.all().delete()
    assert client.post(in_environment(world), form("memory: '512'\n")).status_code == 302
    assert client.post(in_infrastructure(world), form("memory: '1024'\ncpu: '256'\n")).status_code == 302
    page = text_of(client.get(in_infrastructure(world) + "manifests/"))
    lines = re.findall(r'<tr class="of-(\w+)">.*?<td class="text">(.*?)</td>', page)
    assert ("service", "family: Canary4711") in lines
    assert ("infrastructure", "memory: &quot;1024&quot;") in lines
    assert "task_definition of the infrastructure:1" in page
    assert "<code>512</code> of the environment" in page
    whole = text_of(client.get(in_environment(world) + "manifests/"))
    assert "memory: &quot;512&quot;" in whole
    assert "1024" not in whole


@pytest.mark.django_db
def test_what_is_wrong_with_an_override_is_told_and_what_was_entered_stays(world: World, client: Client):
    ServiceOverride.objects.all().delete()
    refused = client.post(in_environment(world), form("family:\n"))
    assert refused.status_code == 400
    assert "task_definition of the environment, line 1" in text_of(refused)
    assert "family:\n</textarea>" in text_of(refused)


@pytest.mark.django_db
def test_an_override_is_checked_with_what_it_overrides_while_it_is_written(world: World, client: Client):
    check = in_environment(world) + "check/?row=manifests-0"
    good = client.post(check, form("memory: '512'\n")).json()
    assert (good["errors"], good["note"]) == ([], "Valid together with the manifest it overrides.")
    bad = client.post(check, form("memory: '512'\nnetworkMode: magic\n")).json()
    assert [(one["line"], one["path"]) for one in bad["errors"]] == [(2, "networkMode")]
    no_yaml = client.post(check, form("memory: [\n")).json()
    assert no_yaml["errors"][0]["line"] == 2


@pytest.mark.django_db
def test_two_who_override_the_same_lose_nothing(world: World, client: Client):
    ServiceOverride.objects.all().delete()
    client.post(in_environment(world), form("memory: '512'\n"))
    refused = client.post(in_environment(world), form("memory: '1024'\n"))
    assert refused.status_code == 409
    assert "Someone else saved a newer version" in text_of(refused)
    assert "memory: &#x27;1024&#x27;" in text_of(refused)
    assert client.post(in_environment(world), form("memory: '1024'\n") | {"version": 1}).status_code == 302


@pytest.mark.django_db
def test_a_file_that_overrides_is_not_checked_as_a_whole_and_says_who_uses_it(
    world: World, client: Client, admin: User
):
    ServiceOverride.objects.all().delete()
    file = FileNode.objects.create(scope=world.scope, path="/bigger.yaml", content="memory: '512'\n")
    row = {"store": "FileStore", "paths": "/bigger.yaml"}
    assert client.post(in_infrastructure(world), form("", **row)).status_code == 302
    checked = check_file_text(FileText(world.scope, file.path, "containerDefinitions: []\n"))
    assert checked is not None
    assert (checked.errors, checked.note) == (
        (),
        "Valid syntax. It is validated with the manifest that it overrides.",
    )
    assert [one.title for one in find_overrides_using(file, admin).visible] == [
        f"override of {world.service.name} in {world.environment.name}"
    ]
    assert "/bigger.yaml:1" in text_of(client.get(in_infrastructure(world) + "manifests/"))


@pytest.mark.django_db
def test_the_page_of_an_infrastructure_leads_to_what_counts_there(world: World, client: Client):
    page = text_of(
        client.get(f"/environments/{world.environment.pk}/infrastructures/{world.infrastructure.pk}/edit/")
    )
    assert f'href="{in_infrastructure(world)}"' in page
    assert f'href="{in_infrastructure(world)}manifests/"' in page


@pytest.mark.django_db
def test_a_task_definition_is_given_by_its_arn(world: World, client: Client):
    arn = "arn:aws:ecs:us-east-1:123456789012:task-definition/web:7"
    row = {"kind": "EcsTaskDefinition", "store": "TaskDefinitionArn", "content": "left: over", "arn": arn}
    edited = {"name": "App", "version": 1} | rows_of("variables") | rows_of("manifests", **row)
    address = f"/services/{world.service.pk}/edit/"
    assert "ARN of a task definition" in text_of(client.post(address, edited | {"manifests-0-arn": "web:7"}))
    assert client.post(address, edited).status_code == 302
    stored = Service.objects.get().manifests.get()
    assert (stored.store, stored.content) == ("TaskDefinitionArn", arn)
    assert f'value="{arn}"' in text_of(client.get(address))
    assert f"<code>{arn}</code>" in text_of(client.get(f"/services/{world.service.pk}/"))


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
    found = merge_layers(
        "EcsTaskDefinition",
        [
            ManifestLayer("service", parse_document(SERVICE, "a")),
            ManifestLayer("environment", parse_document(OVERRIDE, "b")),
        ],
    )
    lines = render_lines(found)
    kept = "\n".join(line.text for line in lines if not line.is_removed)
    assert parse_document(kept, "again").value == found.document.value
    removed = [(line.text.strip(), line.level, line.line) for line in lines if line.is_removed]
    assert removed == [("A", "environment", 5), ("cpu", "environment", 1)]
