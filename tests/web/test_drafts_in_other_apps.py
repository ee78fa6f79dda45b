"""Creation of resources from within freeze windows, forms of delegates, and templates of pipelines."""

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from catalog.models import Environment, Service
from delegates.models import Delegate, DelegateConfiguration
from deployments.models import FreezeWindow
from rbac.models import Scope, User
from tests.fixtures.people import make_person
from web.models import FormDraft

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
ROWS = {f"{name}-{count}_FORMS": "0" for name in ("variables", "manifests") for count in ("TOTAL", "INITIAL")}
ENVIRONMENT = {"name": "Production", "kind": "Production", **ROWS}
SERVICE = {"name": "Web", **ROWS}
WINDOW = {
    "name": "Holidays",
    "begins": "2030-12-24T12:00",
    "ends": "2030-12-27T00:00",
    "time_zone": "UTC",
    "enabled": "on",
    "environments": "",
    "services": "api,",
}
DELEGATE = {"name": "builder", "target": "EC2", "flavour": "v3", "region": "us-east-1", "tags": "eu, prod"}


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


def post(client: Client, address: str, **data: Any) -> str:
    """Post a form, and return the address that follows."""
    response = client.post(address, data)
    assert response.status_code == 302, response.content.decode()
    return str(response["Location"])


def read(client: Client, address: str) -> str:
    response = client.get(address)
    assert response.status_code == 200
    return str(response.content.decode())


def list_scopes(page: str) -> list[str]:
    """Return the scopes that a form offers."""
    (choices,) = re.findall(r'<select name="in_scope".*?</select>', page, re.DOTALL)
    return re.findall(r'value="([^"]+)"', choices)


def test_a_freeze_window_gets_a_new_service_and_a_new_environment(client: Client, project: Scope) -> None:
    form = reverse("new-freeze")
    address = post(client, form, **WINDOW, in_scope=project.path, create_for="services")
    page = read(client, post(client, address, **SERVICE, in_scope=project.path))
    assert "Service Web created and selected." in page
    assert 'value="api, web"' in page
    typed = WINDOW | {"in_scope": project.path, "services": "api, web"}
    address = post(client, form, **typed, create_for="environments")
    back = post(client, address, **ENVIRONMENT, in_scope=project.path)
    assert 'value="production"' in read(client, back)
    post(client, back, **typed | {"environments": "production"})
    window = FreezeWindow.objects.get()
    assert (window.services, window.environments) == (["api", "web"], ["production"])
    assert FormDraft.objects.count() == 1, "the first draft was left behind, the last one is gone"


def test_a_window_of_an_organization_names_resources_of_its_projects(client: Client, project: Scope) -> None:
    organization = project.parent
    assert organization is not None
    form = reverse("new-freeze")
    address = post(client, form, **WINDOW, in_scope=organization.path, create_for="environments")
    scopes = list_scopes(read(client, address))
    assert project.path in scopes
    assert organization.path in scopes
    assert "account" not in scopes


def test_a_configuration_gets_a_new_environment_besides_the_selected_ones(
    client: Client, project: Scope
) -> None:
    Environment.objects.create(scope=project, identifier="dev", name="Dev")
    form = f"{reverse('new-delegate-configuration')}?scope={project.path}"
    typed = {"name": "Shell", "timeout_seconds": "60", "script": "true", "in_scope": project.path}
    typed["environments"] = f"{project.path}/dev"
    assert "New environment" in read(client, form)
    address = post(client, form, **typed, create_for="environments")
    back = post(client, address, **ENVIRONMENT, in_scope=project.path)
    page = read(client, back)
    assert "Environment Production created and selected." in page
    assert len(re.findall(r'name="environments"[^>]*checked', page)) == 2
    paths = [f"{project.path}/{name}" for name in ("dev", "production")]
    post(client, back, **typed | {"environments": paths})
    assert DelegateConfiguration.objects.get(name="Shell").environments == paths


def test_the_delegate_wizard_gets_a_new_configuration(client: Client, project: Scope) -> None:
    form = reverse("delegate-new")
    address = post(client, form, **DELEGATE, in_scope=project.path, create_for="configuration")
    configuration = {"name": "Shell", "timeout_seconds": "60", "in_scope": project.path}
    assert "Create configuration and return" in read(client, address)
    back = post(client, address, **configuration)
    page = read(client, back)
    made = DelegateConfiguration.objects.get(name="Shell")
    assert f'<option value="{made.pk}" selected>' in page
    assert 'value="builder"' in page
    typed = DELEGATE | {"in_scope": project.path, "configuration": str(made.pk), "secret_kind": "PLAINTEXT"}
    post(client, back, **typed, proxy_scheme="http", size="laptop")
    assert Delegate.objects.get(name="builder").configuration == made
    assert not FormDraft.objects.exists()


def test_a_template_of_a_pipeline_gets_a_new_service(client: Client, project: Scope) -> None:
    Service.objects.create(scope=project, identifier="api", name="API")
    form = f"{reverse('new-pipeline')}?scope={project.path}"
    client.get(form)
    address = post(client, reverse("new-pipeline"), strategy="Canary", service="", create_for="service")
    page = read(client, post(client, address, **SERVICE, in_scope=project.path))
    made = Service.objects.get(identifier="web")
    assert "Service Web created and selected." in page
    assert f'<option value="{made.pk}" selected>' in page
    assert '<option value="Canary" selected>' in page
    assert "serviceRef: web" in page


def test_a_template_is_chosen_by_an_address_that_can_be_shared(client: Client, project: Scope) -> None:
    service = Service.objects.create(scope=project, identifier="api", name="API")
    client.get(f"{reverse('new-pipeline')}?scope={project.path}")
    address = post(client, reverse("new-pipeline"), strategy="Canary", service=str(service.pk))
    assert address == f"{reverse('new-pipeline')}?service={service.pk}&strategy=Canary"
    assert "serviceRef: api" in read(client, address)


def test_without_the_permission_nothing_is_offered(project: Scope, browse: Browse) -> None:
    manager = make_person("manager", "delegate_manager", project)
    client = browse(manager)
    form = reverse("new-delegate-configuration")
    assert "New environment" not in read(client, form)
    typed = {"name": "Shell", "timeout_seconds": "60", "in_scope": project.path}
    response = client.post(form, typed | {"create_for": "environments"})
    assert response.status_code == 403
