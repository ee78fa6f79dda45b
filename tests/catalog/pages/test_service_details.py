"""The page of a service in words, with its definition behind a disclosure."""

import html
import json
import re
from collections.abc import Callable

import pytest
from django.test import Client

from catalog.models import Artifact, Manifest, Service
from connectors.models import Connector
from rbac.models import Scope, User

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
TASK = """\
family: shop
cpu: 256
memory: <+serviceVariables.memory>
containerDefinitions:
  - name: web
    image: <+primary.artifact.image>
  - {name: "<b>log</b>"}
"""


@pytest.fixture
def service(project: Scope) -> Service:
    service = Service.objects.create(scope=project, identifier="web", name="Web")
    source = {"type": "Ecr", "connector": "aws", "imagePath": "shop/web", "region": "eu-west-1"}
    Artifact.objects.create(service=service, image="shop/web", source=source)
    rows = {
        "task": ("EcsTaskDefinition", "Inline", {}, [], TASK),
        "definition": ("EcsServiceDefinition", "Git", {"connector": "git", "branch": "main"}, ["a.yaml"], ""),
        "target": ("EcsScalableTargetDefinition", "Inline", {}, [], "{not: [valid"),
    }
    for identifier, (kind, store, place, paths, content) in rows.items():
        Manifest.objects.create(
            service=service,
            identifier=identifier,
            kind=kind,
            store=store,
            place=place,
            paths=paths,
            content=content,
        )
    return service


def load_page(client: Client, service: Service) -> str:
    return re.sub(r"<[^>]+>", "", client.get(f"/services/{service.pk}/").content.decode())


def test_stores_locations_and_manifests_are_written_in_words(
    service: Service, admin: User, browse: Browse
) -> None:
    page = load_page(browse(admin), service)
    for text in ("Git repository", "Connector: git", "Branch: main", "Family: shop", "CPU: 256"):
        assert text in page
    assert "Memory: &lt;+serviceVariables.memory&gt;" in page
    assert "Containers: web (&lt;+primary.artifact.image&gt;), &lt;b&gt;log&lt;/b&gt;" in page
    assert "Amazon ECR" in page
    assert "Image path" in page


def test_the_definition_is_behind_a_disclosure(service: Service, admin: User, browse: Browse) -> None:
    page = browse(admin).get(f"/services/{service.pk}/").content.decode()
    outside = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert "containerDefinitions" not in outside
    assert "imagePath" not in outside
    (text,) = re.findall(r'data-copy="([^"]*)" aria-label="Copy Definition as JSON"', page)
    assert json.loads(html.unescape(text))["source"]["imagePath"] == "shop/web"


def test_settings_of_a_connector_are_behind_a_disclosure(project: Scope, admin: User, browse: Browse) -> None:
    spec = {"url": "https://git.example.com", "authentication": "Anonymous"}
    connector = Connector.objects.create(scope=project, identifier="git", name="Git", kind="Git", spec=spec)
    page = browse(admin).get(f"/connectors/{connector.pk}/").content.decode()
    outside = re.sub(r"<details.*?</details>", "", page, flags=re.DOTALL)
    assert "authentication" not in outside
    (text,) = re.findall(r'data-copy="([^"]*)" aria-label="Copy Settings as JSON"', page)
    assert json.loads(html.unescape(text)) == spec
