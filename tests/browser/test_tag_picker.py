"""The list of tags under the fields for one: asked of the registry, by keyboard and by mouse."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Locator, Page, expect

from catalog.models import Artifact, Service
from connectors.operations import create_connector, create_secret
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.browser.conftest import Visit
from tests.browser.test_accessibility import violations
from tests.catalog.artifacts.registry import Registry, start_registry
from tests.fixtures.git import PASSWORD

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
MANY = {f"v1_{number}": f"sha256:{number:064d}" for number in range(60)}


@pytest.fixture
def hub(demo: Pipeline, deployer: User) -> Iterator[Registry]:
    """A registry with sixty tags that the demo's image comes from; the deployer may change services."""
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=deployer, role=role, scope=demo.scope)
    with start_registry(**MANY) as registry:
        registry.page = 100
        secret = create_secret(
            actor=deployer, scope=demo.scope, identifier="word", name="Word", value=PASSWORD
        )
        create_connector(
            actor=deployer,
            scope=demo.scope,
            identifier="hub",
            name="Hub",
            kind="DockerRegistry",
            spec={"url": registry.url, "authentication": "UsernamePassword", "username": "me"},
            secret=secret,
        )
        source = {"type": "DockerRegistry", "connector": "hub", "imagePath": "shop/web"}
        Artifact.objects.filter(service__identifier="myapp").update(source=source)
        yield registry


@pytest.fixture
def options(page: Page) -> Locator:
    return page.get_by_role("listbox", name="Tags").get_by_role("option")


def test_a_tag_is_found_and_chosen_by_keyboard(
    visit: Visit, page: Page, hub: Registry, demo: Pipeline, options: Locator
) -> None:
    visit(f"/pipelines/{demo.pk}/run/")
    field = page.get_by_role("combobox", name="Image tag")
    expect(field).to_be_focused()
    field.press("ArrowDown")
    expect(options).to_have_count(50)
    expect(page.get_by_text("50 of 60 tags.").first).to_be_visible()
    assert violations(page) == []
    field.fill("v1.4")
    expect(options).to_have_count(11)
    field.press("ArrowDown")
    field.press("ArrowDown")
    expect(options.nth(1)).to_have_attribute("aria-selected", "true")
    tag = options.nth(1).inner_text().strip()
    field.press("Enter")
    expect(field).to_have_value(tag)
    expect(field).to_have_attribute("aria-expanded", "false")
    expect(options.first).to_be_hidden()
    field.press("Enter")
    expect(page).to_have_url(re.compile(r"/deployments/[0-9a-f-]{36}/"))


def test_further_tags_come_as_the_list_is_scrolled(
    visit: Visit, page: Page, hub: Registry, options: Locator
) -> None:
    visit(f"/services/{Service.objects.get(identifier='myapp').pk}/deploy/")
    page.get_by_role("button", name="Show tags").click()
    expect(options).to_have_count(50)
    page.get_by_role("listbox", name="Tags").evaluate("list => { list.scrollTop = list.scrollHeight; }")
    expect(options).to_have_count(60)
    options.filter(has_text=re.compile(r"^v1\.0$")).click()
    expect(page.get_by_role("combobox", name="Image tag")).to_have_value("v1.0")


def test_the_form_of_a_service_lists_tags_of_what_it_says_and_is_not_saved_yet(
    visit: Visit, page: Page, hub: Registry, options: Locator
) -> None:
    hub.tags = {"9.9": f"sha256:{9:064d}"}
    Artifact.objects.filter(service__identifier="myapp").update(source={})
    visit(f"/services/{Service.objects.get(identifier='myapp').pk}/edit/")
    page.get_by_label("Registry for tag lookup").select_option("DockerRegistry")
    page.get_by_label("Connector of the registry").fill("hub")
    page.get_by_label("Image path").fill("shop/web")
    field = page.get_by_role("combobox", name="Default tag")
    field.press("ArrowDown")
    expect(options).to_have_text(["9.9"])
    options.click()
    expect(field).to_have_value("9.9")
