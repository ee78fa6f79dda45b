"""Connectors that are created from within the forms of services and overrides."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import Artifact, Manifest, Service, ServiceOverride
from rbac.models import Scope, User
from tests.api.sample_project import World, make_world

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
ROWS = {
    "variables-TOTAL_FORMS": "1",
    "variables-INITIAL_FORMS": "0",
    "variables-0-name": "size",
    "variables-0-kind": "Number",
    "variables-0-value": "not a number yet",
    "manifests-TOTAL_FORMS": "2",
    "manifests-INITIAL_FORMS": "0",
    "manifests-0-kind": "EcsTaskDefinition",
    "manifests-0-store": "Inline",
    "manifests-0-content": "family: half-writ",
    "manifests-1-kind": "EcsServiceDefinition",
    "manifests-1-store": "Git",
    "manifests-1-connector": "",
    "manifests-1-ref_kind": "branch",
    "manifests-1-ref": "main",
    "manifests-1-paths": "service.yaml",
}
SITE = {"name": "Shop", "url": "https://site.example.com/shop", "authentication": "Anonymous"}


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


def leave(client: Client, form: str, typed: dict[str, str], field: str) -> str:
    """Leave a form to create a connector for a field, and return the address of the next form."""
    response = client.post(form, typed | {"create_for": field})
    assert response.status_code == 302, response.content
    return str(response["Location"])


def create(client: Client, address: str, scope: Scope) -> Any:
    """Create a connector, and load the page that follows."""
    response = client.post(address, SITE | {"in_scope": scope.path})
    assert response.status_code == 302, response.context["form"].errors
    return client.get(response["Location"])


@pytest.mark.parametrize(
    ("field", "source", "kinds"),
    [
        ("source_connector", "DockerRegistry", ["DockerRegistry"]),
        ("source_connector", "Ecr", ["Aws"]),
        ("source_connector", "", ["DockerRegistry", "Aws"]),
        ("manifests-1-connector", "", ["Git"]),
    ],
)
def test_a_field_offers_the_kinds_that_it_takes(
    project: Scope, client: Client, field: str, source: str, kinds: list[str]
) -> None:
    form = reverse("new-service")
    typed = ROWS | {"name": "Web", "in_scope": project.path, "source_type": source}
    context = client.get(leave(client, form, typed, field)).context
    assert [kind for kind, _, _ in context["kind_links"]] == kinds
    assert context["kind"] == kinds[0]


@pytest.mark.parametrize("field", ["manifests-0-connector", "manifests-9-connector", "manifests-1-paths"])
def test_other_fields_of_a_manifest_offer_nothing_or_every_kind(
    project: Scope, client: Client, field: str
) -> None:
    typed = ROWS | {"name": "Web", "in_scope": project.path}
    response = client.post(reverse("new-service"), typed | {"create_for": field})
    assert response.status_code == (400 if field.endswith("paths") else 302)


def test_a_service_keeps_its_rows_and_gets_the_connector(project: Scope, client: Client) -> None:
    typed = ROWS | {"name": "Web", "in_scope": project.path, "image": "shop/web", "tag": "1"}
    response = create(client, leave(client, "/services/new/", typed, "manifests-1-connector"), project)
    page = response.content.decode()
    assert response.status_code == 200
    for value in ("not a number yet", "family: half-writ", 'value="Web"', 'value="shop/web"'):
        assert value in page
    assert 'name="manifests-1-connector" value="shop"' in page
    assert "Connector Shop created and selected." in page
    assert 'class="error"' not in page
    saved = client.post(
        response.wsgi_request.get_full_path(),
        typed | {"variables-0-value": "3", "manifests-1-connector": "shop", "manifests-0-content": ""},
    )
    assert saved.status_code == 302
    assert Manifest.objects.get(service__name="Web").place["connector"] == "shop"


def test_an_image_source_gets_the_connector(project: Scope, client: Client) -> None:
    typed = {
        "name": "Web",
        "in_scope": project.path,
        "image": "shop/web",
        "source_type": "DockerRegistry",
        "source_path": "shop/web",
        "variables-TOTAL_FORMS": "0",
        "variables-INITIAL_FORMS": "0",
        "manifests-TOTAL_FORMS": "0",
        "manifests-INITIAL_FORMS": "0",
    }
    response = create(client, leave(client, "/services/new/", typed, "source_connector"), project)
    assert 'name="source_connector" value="shop"' in response.content.decode()
    address = response.wsgi_request.get_full_path()
    assert client.post(address, typed | {"source_connector": "shop"}).status_code == 302
    assert Artifact.objects.get(service__name="Web").source["connector"] == "shop"


def test_an_edited_service_keeps_what_was_typed(world: World, client: Client) -> None:
    form = reverse("edit-service", args=[world.service.pk])
    typed = ROWS | {"name": "Renamed", "version": str(world.service.version)}
    response = create(client, leave(client, form, typed, "manifests-1-connector"), world.scope)
    assert 'value="Renamed"' in response.content.decode()
    assert Service.objects.get().name != "Renamed"


def test_an_override_keeps_its_rows_and_gets_the_connector(world: World, client: Client) -> None:
    ServiceOverride.objects.all().delete()
    form = reverse("service-in-environment", args=[world.environment.pk, world.service.pk])
    assert 'value="manifests-__prefix__-connector"' in client.get(form).content.decode()
    response = create(
        client, leave(client, form, ROWS | {"version": "0"}, "manifests-1-connector"), world.scope
    )
    page = response.content.decode()
    assert "not a number yet" in page
    assert "family: half-writ" in page
    assert 'name="manifests-1-connector" value="shop"' in page
    assert "created and selected" in page
    assert not ServiceOverride.objects.exists()


def test_a_viewer_of_overrides_can_create_nothing(world: World, viewer: User, browse: Browse) -> None:
    form = reverse("service-in-environment", args=[world.environment.pk, world.service.pk])
    client = browse(viewer)
    assert "create_for" not in client.get(form).content.decode()
    assert client.post(form, ROWS | {"create_for": "manifests-1-connector"}).status_code == 403
