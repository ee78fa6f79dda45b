"""The list of connectors: kind in words, last test, number of users, filters in the address."""

import re
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone

from catalog.models import Environment, Infrastructure, Manifest, Service
from connectors.models import Connector
from connectors.usages import count_connector_usages, find_usages
from rbac.models import Scope, User

Browse = Callable[[User], Client]
pytestmark = pytest.mark.django_db


def add_connector(scope: Scope, identifier: str, kind: str = "Aws", **values: object) -> Connector:
    return Connector.objects.create(
        scope=scope, identifier=identifier, name=identifier.title(), kind=kind, **values
    )


def add_service(scope: Scope, identifier: str, connector: str, store: str = "Git") -> Service:
    """Add a service with two manifests behind a connector."""
    service = Service.objects.create(scope=scope, identifier=identifier, name=identifier)
    for name in ("task", "definition"):
        Manifest.objects.create(
            service=service,
            identifier=name,
            kind="EcsTaskDefinition",
            store=store,
            paths=["task.yaml"],
            place={"connector": connector},
        )
    return service


def load_page(client: Client, query: str = "") -> str:
    return client.get(f"/connectors/{query}").content.decode()


def list_names(client: Client, query: str = "") -> list[str]:
    return re.findall(r'<a class="name" href="/connectors/\d+/">([^<]+)</a>', load_page(client, query))


def test_authentication_and_route_are_written_in_words(project: Scope, admin: User, browse: Browse) -> None:
    role = "arn:aws:iam::123456789012:role/deployer"
    spec = {"credentials": "AssumeRole", "role_arn": role, "test_region": "eu-central-1"}
    add_connector(project, "aws", spec=spec)
    route = {"connect_through": "Delegate", "delegate_selectors": ["prod", "eu"]}
    spec = {"url": "https://git.example.com/acme", "authentication": "SshKey"}
    add_connector(project, "source", "Git", spec=spec | route)
    page = load_page(browse(admin))
    for text in (f"Assumed role <code>{role}</code>", "https://git.example.com/acme", "SSH key"):
        assert text in page
    assert "Connects through delegates with prod, eu" in page
    for field in ("AssumeRole", "role_arn", "test_region", "connect_through", "delegate_selectors", "SshKey"):
        assert field not in page


def test_a_failed_test_shows_when_and_a_short_error(project: Scope, admin: User, browse: Browse) -> None:
    add_connector(
        project, "aws", last_tested_at=timezone.now(), last_test_ok=False, last_test_message="Denied. " * 50
    )
    page = load_page(browse(admin))
    assert "Test failed" in page
    assert "<time" in page
    assert "Denied. Denied." in page
    assert "Denied. " * 20 not in page


def test_filters_by_result_kind_and_name_narrow_the_list(project: Scope, admin: User, browse: Browse) -> None:
    tested = {"last_tested_at": timezone.now()}
    add_connector(project, "good", last_test_ok=True, **tested)
    add_connector(project, "bad", last_test_ok=False, **tested)
    add_connector(project, "new")
    add_connector(project, "source", "Git", last_test_ok=False, **tested)
    client = browse(admin)
    assert list_names(client, "?sort=name") == ["Bad", "Good", "New", "Source"]
    assert list_names(client, "?show=failed&sort=name") == ["Bad", "Source"]
    assert list_names(client, "?show=untested") == ["New"]
    assert list_names(client, "?kind=Git") == ["Source"]
    assert list_names(client, "?show=failed&kind=Aws") == ["Bad"]
    assert list_names(client, "?q=GOO") == ["Good"]
    assert list_names(client, "?show=unknown&kind=Unknown&sort=name") == ["Bad", "Good", "New", "Source"]
    assert "Clear filters" in load_page(client, "?kind=TerraformCloud")


def test_infrastructures_and_services_are_counted(project: Scope, admin: User, browse: Browse) -> None:
    aws, git = add_connector(project, "aws"), add_connector(project, "source", "Git", spec={"url": "x"})
    environment = Environment.objects.create(scope=project, identifier="dev", name="Dev")
    for name in ("a", "b"):
        Infrastructure.objects.create(
            environment=environment, identifier=name, name=name, connector=aws, region="x", cluster="c"
        )
    add_service(project, "web", git.identifier)
    assert count_connector_usages([aws, git]) == {aws.pk: "2 infrastructures", git.pk: "1 service"}
    page = load_page(browse(admin))
    assert "2 infrastructures" in page
    assert "1 service<" in page
    Manifest.objects.all().delete()
    assert ">Nothing<" in load_page(browse(admin))


def test_a_service_counts_for_the_nearest_connector_of_its_identifier_and_kind(
    project: Scope, admin: User
) -> None:
    assert project.parent is not None
    above = add_connector(project.parent, "source", "Git")
    near = add_connector(project, "source", "Git")
    add_service(project, "web", "source")
    add_service(project.parent, "shared", "source")
    add_service(project.parent, "missing", "nothing")
    connectors = [above, near]
    assert count_connector_usages(connectors) == {above.pk: "1 service", near.pk: "1 service"}
    for connector in connectors:
        assert len(find_usages(connector, admin).visible) == 1
    near.delete()
    assert count_connector_usages([above]) == {above.pk: "2 services"}
