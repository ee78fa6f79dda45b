"""Services and connectors that are created from within the pipeline editor."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from connectors.models import Connector
from rbac.models import Role, RoleAssignment, Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person
from tests.pipelines.pages.test_stage_infrastructures import TEXT
from web.models import FormDraft

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
STEP = """\
          execution:
            steps:
              - step:
                  identifier: STEP
                  type: TYPE
                  spec: {}
"""
SERVICE = {
    "name": "Web",
    "variables-TOTAL_FORMS": "0",
    "variables-INITIAL_FORMS": "0",
    "manifests-TOTAL_FORMS": "0",
    "manifests-INITIAL_FORMS": "0",
}
CONNECTOR = {"name": "Shop", "url": "https://site.example.com/shop", "authentication": "Anonymous"}
ACCOUNT = {
    "name": "Shop",
    "credentials": "AssumeRole",
    "role_arn": "arn:aws:iam::123456789012:role/deployer",
    "test_region": "eu-west-1",
}


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


def post_fragment(client: Client, world: World, page: str = "", **fields: str) -> Any:
    """Post the forms of the visual editor on a page of the editor."""
    page = page or reverse("edit-pipeline", args=[world.pipeline.pk])
    data = {"in_scope": world.scope.path, "yaml": TEXT, **fields}
    headers = {"HX-Request": "true", "HX-Current-URL": f"http://testserver{page}?tab=visual"}
    return client.post("/pipelines/visual/", data, headers=headers)


def open_stage(client: Client, world: World, **fields: str) -> str:
    opened = {"do": "open", "at": "pipeline.stages.0", "is": "dev"}
    return str(post_fragment(client, world, **opened | fields).content.decode())


def leave(client: Client, world: World, field: str, page: str = "", **fields: str) -> str:
    """Leave the editor to create a resource for a field, and return the address of its form."""
    stage = {"form_at": "pipeline.stages.0", "form_is": "dev", "version": "1"}
    response = post_fragment(client, world, page, **stage | fields | {"create_for": field})
    assert response.status_code == 200, response.content
    return str(response.headers["HX-Redirect"])


def create(client: Client, address: str, world: World, fields: dict[str, str]) -> str:
    """Create a resource, and return the address of the editor."""
    response = client.post(address, fields | {"in_scope": world.scope.path})
    assert response.status_code == 302, response.context["form"].errors
    return str(response["Location"])


def restore(client: Client, world: World, address: str) -> str:
    """Load the page of the editor, and return its forms as the page loads them."""
    page = client.get(address)
    assert page.status_code == 200
    (key,) = re.findall(r'name="restore" value="([^"]+)"', page.content.decode())
    path = address.partition("?")[0]
    yaml = page.context["form"]["yaml"].value()
    return str(post_fragment(client, world, path, yaml=yaml, do="show", restore=key).content.decode())


def read_text(fragment: str) -> str:
    """Return the changed text of the pipeline."""
    (text,) = re.findall(r"data-new-text[^>]*>\n(.*?)</textarea>", fragment, re.DOTALL)
    return html.unescape(text)


def test_a_stage_gets_the_new_service_and_keeps_what_was_typed(world: World, client: Client) -> None:
    assert 'name="create_for" value="service"' in open_stage(client, world)
    address = leave(client, world, "service", name="To the shop", identifier="dev")
    assert address.startswith("/services/new/?for=")
    back = create(client, address, world, SERVICE)
    assert back.startswith(f"/pipelines/{world.pipeline.pk}/edit/?tab=visual&draft=")
    text = read_text(restore(client, world, back))
    assert "serviceRef: web" in text
    assert "name: To the shop" in text
    assert "# ours" in text
    page = client.get(back).content.decode()
    assert "Service Web created and selected." in page
    assert 'name="version" value="1"' in page
    assert html.escape("name: Shop # ours") in page


def test_a_new_pipeline_is_kept_too(world: World, client: Client) -> None:
    address = leave(client, world, "service", reverse("new-pipeline"))
    back = create(client, address, world, SERVICE)
    assert back.startswith("/pipelines/new/?tab=visual&draft=")
    assert "serviceRef: web" in read_text(restore(client, world, back))


def test_cancel_leads_back_to_the_editor(world: World, client: Client) -> None:
    address = leave(client, world, "service", name="To the shop", identifier="dev")
    page = client.get(address).content.decode()
    back = html.unescape(re.findall(r'<a class="button ghost" href="([^"]+)">Cancel</a>', page)[-1])
    text = read_text(restore(client, world, back))
    assert "name: To the shop" in text
    assert "serviceRef" not in text


def test_an_infrastructure_of_a_stage_gets_the_new_connector(world: World, client: Client) -> None:
    assert 'name="create_for" value="new-connector"' in open_stage(client, world)
    typed = {"new_of": "dev", "identifier": "dev", "new-name": "EU", "new-region": "eu-west-1"}
    address = leave(client, world, "new-connector", **typed)
    fragment = restore(client, world, create(client, address, world, ACCOUNT))
    created = Connector.objects.get(identifier="shop")
    assert f'<option value="{created.pk}" selected>' in fragment
    assert 'name="new-name" value="EU"' in fragment
    assert '<details class="visual-new-infrastructure" open>' in fragment


@pytest.mark.parametrize(
    ("step", "field", "typed", "kind", "written"),
    [
        ("TerraformCloudRun", "spec.connectorRef", {}, "TerraformCloud", "connectorRef: shop"),
        (
            "EcsRunTask",
            "spec.taskDefinition.0.connector",
            {"spec.taskDefinition.rows": "1", "spec.taskDefinition.0.store": "Git"},
            "Git",
            "connector: shop",
        ),
    ],
)
def test_a_step_gets_the_new_connector(
    world: World, client: Client, step: str, field: str, typed: dict[str, str], kind: str, written: str
) -> None:
    stage = {"yaml": TEXT + STEP.replace("TYPE", step), "form_is": "STEP"}
    stage["form_at"] = "pipeline.stages.0.stage.spec.execution.steps.0"
    opened = {"do": "open", "at": stage["form_at"], "is": "STEP", "yaml": stage["yaml"]}
    fragment = post_fragment(client, world, **opened).content.decode()
    assert f'name="create_for" value="{field}"' in fragment
    address = leave(client, world, field, **stage | typed)
    assert f"kind={kind}" in address
    secret = {"secret": str(world.secret.pk)}
    token = {"authentication": "Token"} | secret if kind == "TerraformCloud" else {}
    fragment = restore(client, world, create(client, address, world, CONNECTOR | token))
    if kind == "TerraformCloud":
        assert written in read_text(fragment)
    else:
        # The other cells of the manifest are not filled yet, so the form shows their errors.
        assert re.search(
            r'value="shop" selected|name="spec\.taskDefinition\.0\.connector" value="shop"', fragment
        )


@pytest.mark.parametrize("field", ["", "place", "spec.connector", "spec.x.1.connector\n", "yaml"])
def test_other_fields_create_nothing(world: World, client: Client, field: str) -> None:
    assert post_fragment(client, world, create_for=field).status_code == 400
    assert not FormDraft.objects.exists()


@pytest.mark.parametrize("page", ["/services/new/", "//evil.example/", "/nowhere/", "/pipelines/visual/"])
def test_only_the_editor_is_an_address_to_return_to(world: World, client: Client, page: str) -> None:
    assert post_fragment(client, world, page, create_for="service").status_code == 400
    assert not FormDraft.objects.exists()


def test_a_missing_permission_hides_the_buttons(world: World, browse: Browse) -> None:
    writer, role = make_person("writer"), Role.objects.create(scope=world.scope, identifier="w", name="W")
    role.set_permissions({"core_pipeline_view", "core_pipeline_edit", "core_service_view"})
    RoleAssignment.objects.create(scope=world.scope, role=role, user=writer)
    client = browse(writer)
    assert "create_for" not in open_stage(client, world)
    assert post_fragment(client, world, create_for="service").status_code == 403


def test_a_saved_pipeline_needs_no_draft(world: World, client: Client) -> None:
    address = leave(client, world, "service")
    page = client.get(address).content.decode()
    back = html.unescape(re.findall(r'<a class="button ghost" href="([^"]+)">Cancel</a>', page)[-1])
    assert client.post(back, {"yaml": world.pipeline.yaml, "version": "1"}).status_code == 302
    assert not FormDraft.objects.exists()
