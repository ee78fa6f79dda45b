"""The forms of services, environments and infrastructures: what is entered is kept, whatever happens."""

import html
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from catalog.forms.variables import build_variable_formset
from catalog.models import Environment, Infrastructure, Manifest, Service, ServiceOverride
from catalog.operations import OverrideSpec, override_service
from catalog.usages import describe_takeover
from connectors.models import Connector
from connectors.operations import save_file
from deployments.execution.operations import run_pipeline
from pipelines.models import InputSet, Pipeline
from rbac.models import AuditEntry, Scope, User
from tests.api.requests import INLINE, environment_form, override_form, rows_of, service_form
from tests.api.sample_project import CANARY, World, make_world
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


def read_text(response: Any) -> str:
    return str(response.content.decode())


@pytest.mark.parametrize("text", ["0.00001", "-0.0000001", "123456789012345.5", "3"])
def test_a_number_is_shown_as_it_was_entered(text: str) -> None:
    row = {"variables-0-name": "rate", "variables-0-kind": "Number", "variables-0-value": text}
    counts = {"variables-TOTAL_FORMS": "1", "variables-INITIAL_FORMS": "0"}
    entered = build_variable_formset(row | counts)
    assert entered.is_valid()
    (shown, _) = build_variable_formset(None, entered.variables()).forms
    assert shown["value"].value() == text


def test_pages_show_true_as_runs_write_it(world: World, client: Client) -> None:
    service, environment = world.service, world.environment
    for owner in (service, environment):
        owner.variables = {"on": True, "rate": 0.00001}
        owner.save(update_fields=["variables"])
    variables = "{on: {type: Boolean, default: false}}"
    yaml = world.pipeline.yaml.replace("  stages:", f"  variables: {variables}\n  stages:", 1)
    Pipeline.objects.filter(pk=world.pipeline.pk).update(yaml=yaml)
    InputSet.objects.create(pipeline=world.pipeline, identifier="on", name="On", inputs={"on": True})
    for path in (
        f"/services/{service.pk}/",
        f"/environments/{environment.pk}/",
        f"/environments/{environment.pk}/services/{service.pk}/",
    ):
        text = read_text(client.get(path, follow=True))
        assert "<code>true</code>" in text, path
        assert "<code>0.00001</code>" in text, path
        assert "<code>True</code>" not in text, path
    assert "on: true" in read_text(client.get(f"/pipelines/{world.pipeline.pk}/input-sets/"))


def test_an_environment_is_made_from_a_name_and_typed_variables(project: Scope, client: Client):
    form = {"in_scope": project.path, "name": "Blue green", "kind": "Production"}
    rows = rows_of("variables", name="size", kind="Number", value="3") | {
        "variables-TOTAL_FORMS": "4",
        "variables-2-name": "on",
        "variables-2-kind": "Boolean",
        "variables-2-value": "True",
    }
    response = client.post("/environments/new/", form | rows, follow=True)
    environment = Environment.objects.get()
    assert (environment.identifier, environment.kind) == ("blue_green", "Production")
    assert environment.variables == {"size": 3, "on": True}
    assert "Deployments to this environment need at least one" in read_text(response)


def test_a_new_environment_that_takes_over_pipelines_names_them(
    world: World, project: Scope, account: Scope, admin: User, client: Client
) -> None:
    identifier = world.environment.identifier
    form = {"in_scope": project.path, "name": "Mine", "identifier": identifier, "kind": "Production"}
    form |= rows_of("variables") | {"variables-TOTAL_FORMS": "0"}
    Environment.objects.update(scope=account)
    text = read_text(client.post("/environments/new/", form, follow=True))
    message = f"Used from now on in place of {identifier} of a scope above: pipeline {world.pipeline.name}."
    assert message in text
    # Without one above, nothing is taken over; a service is told in the same words.
    Service.objects.update(scope=project)
    assert describe_takeover(world.service, admin) == ""
    Service.objects.create(scope=account, identifier=world.service.identifier, name="Above")
    assert describe_takeover(world.service, admin).endswith(f"pipeline {world.pipeline.name}.")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"name": "two words", "kind": "String", "value": "x"}, "A name must have up to 128 letters"),
        ({"name": "size", "kind": "Number", "value": "three"}, "Enter a number."),
        ({"name": "on", "kind": "Boolean", "value": "maybe"}, "Enter true or false."),
        ({"name": "", "kind": "String", "value": "lost?"}, "Enter a name for the variable."),
    ],
)
def test_a_bad_variable_is_explained_beside_its_row(
    project: Scope, client: Client, row: dict[str, str], message: str
):
    form = {"in_scope": project.path, "name": "Dev", "kind": "PreProduction"}
    response = client.post("/environments/new/", form | rows_of("variables", **row))
    assert response.status_code == 400
    assert message in read_text(response)
    assert f'value="{row["value"]}"' in read_text(response)
    assert not Environment.objects.exists()


def test_a_variable_keeps_its_line_ends_in_a_browser(world: World, client: Client):
    world.environment.variables = {"certificate": "-----BEGIN\nAB\n"}
    world.environment.save()
    address = f"/environments/{world.environment.pk}/edit/"
    assert ">\n-----BEGIN\nAB\n</textarea>" in read_text(client.get(address))
    # Browsers send the text of an area with these line ends.
    row = rows_of("variables", name="certificate", kind="String", value="-----BEGIN\r\nAB\r\n")
    assert client.post(address, environment_form(world) | row | {"version": 1}).status_code == 302
    world.environment.refresh_from_db()
    assert world.environment.variables == {"certificate": "-----BEGIN\nAB\n"}


@pytest.mark.parametrize("line_end", ["", " "])
def test_a_certificate_whose_lines_the_browser_joined_can_be_pasted_again(
    world: World, client: Client, line_end: str
):
    lines, pages = ["-----BEGIN CERTIFICATE-----", "AB", "-----END CERTIFICATE-----"], []
    environment, service = world.environment, world.service
    for address, form in (
        (f"/environments/{environment.pk}/edit/", environment_form(world)),
        (f"/services/{service.pk}/edit/", service_form(world)),
        (f"/environments/{environment.pk}/services/{service.pk}/", override_form(world)),
    ):
        for text in (line_end.join(lines), "\r\n".join(lines)):
            row = rows_of("variables", name="certificate", kind="String", value=text)
            pages.append(client.post(address, form | row))
    for refused, saved in zip(pages[::2], pages[1::2], strict=True):
        assert refused.status_code == 400
        assert "has lost its line ends" in read_text(refused)
        assert f">\n{line_end.join(lines)}</textarea>" in read_text(refused)
        assert saved.status_code == 302
    environment.refresh_from_db()
    assert environment.variables == {"certificate": "\n".join(lines)}


def test_a_certificate_that_is_stored_on_one_line_can_be_saved_again(world: World, client: Client):
    joined = "-----BEGIN CERTIFICATE-----AB-----END CERTIFICATE-----"
    world.environment.variables = {"certificate": joined}
    world.environment.save()
    address = f"/environments/{world.environment.pk}/edit/"
    mark = 'name="variables-0-value:is_area" value="1"'
    assert mark in read_text(client.get(address))
    row = rows_of("variables", name="certificate", kind="String", value=joined)
    unmarked = client.post(address, environment_form(world) | row | {"version": 1})
    assert mark in read_text(unmarked)
    row["variables-0-value:is_area"] = "1"
    assert client.post(address, environment_form(world) | row | {"version": 1}).status_code == 302
    world.environment.refresh_from_db()
    assert world.environment.variables == {"certificate": joined}


def test_enter_saves_a_variable_of_one_line(world: World, client: Client):
    # In an area, Enter would add a line end to the value.
    world.environment.variables = {"level": "info"}
    world.environment.save()
    page = read_text(client.get(f"/environments/{world.environment.pk}/edit/"))
    assert 'value="info"' in page
    assert "<textarea" not in page.partition('data-rows="variables"')[2].partition("</fieldset>")[0]


def test_two_who_edit_an_environment_lose_nothing(world: World, client: Client):
    address = f"/environments/{world.environment.pk}/edit/"
    form = environment_form(world) | {"version": 1}
    assert client.post(address, form | {"name": "Theirs"}).status_code == 302
    response = client.post(address, form)
    assert response.status_code == 409
    assert "Someone else saved a newer version" in read_text(response)
    assert "name: Theirs" in read_text(response)
    assert 'value="info"' in read_text(response)
    assert Environment.objects.get().name == "Theirs"
    assert client.post(address, form | {"version": 2}).status_code == 302
    assert Environment.objects.get().name == "New"


def test_two_who_edit_a_service_lose_nothing(world: World, client: Client):
    address = f"/services/{world.service.pk}/edit/"
    form = service_form(world) | {"version": 1}
    assert client.post(address, form | {"name": "Theirs"}).status_code == 302
    response = client.post(address, form)
    assert response.status_code == 409
    assert "name: Theirs" in read_text(response)
    assert client.post(address, form | {"version": 2}).status_code == 302
    service = Service.objects.get()
    assert (service.name, service.manifests.get().content) == ("New", INLINE)


def test_a_service_begins_with_manifests_that_can_be_deployed(project: Scope, client: Client):
    page = read_text(client.get("/services/new/"))
    assert "&lt;+primary.artifact.image&gt;" in page
    assert "serviceName: my-service" in page


def test_an_inline_manifest_is_checked_while_it_is_written(world: World, client: Client):
    form = service_form(world) | {"manifests-0-content": "family: app\ncontainerDefinitions: 3\n"}
    body = client.post("/services/check/?row=manifests-0", form).json()
    assert [(error["line"], error["column"]) for error in body["errors"]] == [(2, 1)]
    assert body["note"] == "Checked as a task definition."


def test_paths_with_commas_survive_a_save(world: World, client: Client, admin: User):
    paths = ["/a,b.yaml", "/c.yaml", '/d "e", f.yaml']
    for path in paths:
        save_file(actor=admin, scope=world.scope, path=path, content=INLINE)
    Manifest.objects.filter(service=world.service).delete()
    Manifest.objects.create(
        service=world.service, identifier="task", kind="EcsTaskDefinition", store="FileStore", paths=paths
    )
    address = f"/services/{world.service.pk}/edit/"
    (shown,) = re.findall(r'name="manifests-0-paths" value="([^"]*)"', read_text(client.get(address)))
    form = service_form(world) | {"manifests-0-store": "FileStore", "manifests-0-identifier": "task"}
    response = client.post(address, form | {"manifests-0-paths": html.unescape(shown)})
    assert response.status_code == 302, read_text(response)
    assert Manifest.objects.get(service=world.service).paths == paths
    version = Service.objects.get(pk=world.service.pk).version
    lines = {"manifests-0-paths": "/c.yaml,\n/c.yaml\r/a.yaml", "version": version}
    assert client.post(address, form | lines).status_code < 500


def test_a_service_says_who_uses_it_and_asks_before_it_goes(world: World, client: Client):
    address = f"/services/{world.service.pk}/"
    assert world.pipeline.name in read_text(client.get(address))
    response = client.post(f"{address}delete/")
    assert "Select this checkbox to delete it anyway" in read_text(response)
    assert Service.objects.exists()
    assert client.post(f"{address}delete/", {"although_used": "on"}).status_code == 302
    assert not Service.objects.exists()
    assert AuditEntry.objects.filter(action="service.delete").exists()


def test_a_nearer_service_of_the_same_name_is_the_one_that_is_used(world: World, client: Client):
    parent_service = Service.objects.create(
        scope=world.scope.parent, identifier="myapp", name="The one above"
    )
    assert "no pipelines" in read_text(client.get(f"/services/{parent_service.pk}/"))
    world.service.delete()
    assert world.pipeline.name in read_text(client.get(f"/services/{parent_service.pk}/"))


def test_an_infrastructure_without_a_connector_says_where_to_make_one(project: Scope, client: Client):
    environment = Environment.objects.create(scope=project, identifier="dev", name="Dev")
    page = read_text(client.get(f"/environments/{environment.pk}/infrastructures/new/"))
    assert "No connectors" in page
    assert 'href="/connectors/"' in page


def test_clusters_that_cannot_be_listed_leave_the_field_and_a_next_step(world: World, client: Client):
    Connector.objects.update(spec={"credentials": "AccessKey"}, secret=None)
    query = f"?connector={world.connector.pk}&region=us-east-1&cluster=demo"
    page = read_text(client.get(f"/environments/{world.environment.pk}/clusters/{query}"))
    assert "Could not list clusters" in page
    assert "Test the connector" in page
    assert 'name="cluster" value="demo"' in page
    invalid_response = client.get(
        f"/environments/{world.environment.pk}/clusters/?connector=x&region=evil.example"
    )
    assert "Choose a connector first" in read_text(invalid_response)


def test_a_place_is_changed_and_an_arn_refused(world: World, client: Client):
    address = f"/environments/{world.environment.pk}/infrastructures/{world.infrastructure.pk}/edit/"
    form = {"name": "New", "connector": world.connector.pk, "region": "eu-west-1", "version": 1}
    response = client.post(address, form | {"cluster": "arn:aws:ecs:eu-west-1:123456789012:cluster/demo"})
    assert "not the ARN" in read_text(response)
    assert client.post(address, form | {"cluster": "other"}).status_code == 302
    stale_response = client.post(address, form | {"cluster": "third"})
    assert stale_response.status_code == 409
    infrastructure = Infrastructure.objects.get()
    assert (infrastructure.region, infrastructure.cluster, infrastructure.version) == (
        "eu-west-1",
        "other",
        2,
    )


def test_the_page_of_a_service_in_an_environment_says_which_value_counts_and_why(
    world: World, client: Client
):
    ServiceOverride.objects.all().delete()
    world.service.variables = {"level": "info", "host": "", "size": 3}
    world.service.required_variables = ["host"]
    world.service.save()
    Environment.objects.update(variables={"level": "warn"})
    address = f"/environments/{world.environment.pk}/services/{world.service.pk}/"
    page = read_text(client.get(address))
    assert "Environment value, overrides the service." in page
    assert "Required: deployments are refused until you set a value." in page
    rows = rows_of("manifests") | rows_of("variables", name="host", kind="String", value="db.internal")
    assert client.post(address, rows | {"version": 0}).status_code == 302
    page = read_text(client.get(address))
    assert "Override of this service in this environment." in page
    assert "deployments are refused" not in page
    response = client.post(address, rows | {"version": 0})
    assert response.status_code == 409
    assert client.post(address, rows | {"version": 1, "variables-0-name": ""}).status_code == 400
    assert (
        client.post(address, {"version": 1} | rows_of("variables") | rows_of("manifests")).status_code == 302
    )
    assert not ServiceOverride.objects.exists()


def test_an_override_wins_in_a_run_of_that_service_there(world: World, admin: User):
    Environment.objects.update(variables={"who": "everybody", "level": "warn"})
    values = run_pipeline(actor=admin, pipeline=world.pipeline).stages.get().values
    assert values["serviceVariables"] == {"who": CANARY, "level": "warn"}


def test_a_program_learns_which_value_counts(world: World, admin: User, call: Callable[[User], Any]):
    address = f"/api/v1/environments/{world.environment.pk}/overrides/{world.service.pk}"
    Service.objects.update(variables={"level": "info"}, required_variables=["level"])
    body = call(admin).put(address, {"variables": {"level": "debug"}}, format="json").json()
    assert body["effective"] == [
        {
            "name": "level",
            "value": "debug",
            "winner": "override",
            "values": {"service": "info", "environment": None, "override": "debug"},
            "is_required": True,
            "is_missing": False,
        }
    ]
    assert body["version"] == 2
    reset_body = call(admin).delete(address, headers={"if-match": '"2"'}).json()
    assert (reset_body["version"], reset_body["effective"][0]["winner"]) == (0, "service")


def test_a_service_that_no_pipeline_could_bring_there_is_refused(
    world: World, admin: User, other_project: Scope
):
    foreign_service = Service.objects.create(scope=other_project, identifier="x", name="X")
    with pytest.raises(BadInput):
        override_service(
            actor=admin, environment=world.environment, service=foreign_service, spec=OverrideSpec({"a": 1})
        )
