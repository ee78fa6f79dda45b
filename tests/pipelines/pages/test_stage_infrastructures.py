"""An environment made from within a stage: there at once and chosen, or not there at all."""

import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client

from catalog.models import Environment, Infrastructure, Service
from connectors.models import Connector
from pipelines.editor.suggestions import build_suggestions
from pipelines.forms.pipelines import PipelineTemplateForm
from pipelines.pages.visual_editor import list_editor_choices
from rbac.models import AuditEntry, Scope, User
from tests.api.sample_project import World, make_world
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
STAGE = "pipeline.stages.0"
TEXT = """\
pipeline:
  identifier: shop
  name: Shop # ours
  stages:
    - stage:
        identifier: dev
        type: Deployment
        spec:
          deploymentType: ECS
"""
CHOSEN = """\
          environment:
            environmentRef: test
            infrastructureDefinitions:
              - identifier: eu
"""


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


def build_form(world: World, **more: Any) -> dict[str, Any]:
    return {
        "in_scope": world.pipeline.scope.path,
        "yaml": TEXT,
        "do": "create-place",
        "at": STAGE,
        "is": "dev",
        "new-environment_name": "Test",
        "new-kind": "Production",
        "new-in_scope": world.environment.scope.path,
        "new-name": "EU",
        "new-connector": Connector.objects.get(kind=Connector.Kind.AWS).pk,
        "new-region": "eu-west-1",
        "new-cluster": "main",
        **more,
    }


def post_form(client: Client, data: dict[str, Any]) -> tuple[str, str]:
    """The page's answer, and the text that it writes back."""
    response = client.post("/pipelines/visual/", data)
    assert response.status_code == 200
    return response.content.decode(), response.context.get("new_text") or ""


def test_a_new_environment_and_its_infrastructure_are_there_and_chosen(world: World, client: Client):
    answer, text = post_form(client, build_form(world))
    place = Infrastructure.objects.get(identifier="eu")
    assert (place.environment.identifier, place.environment.kind) == ("test", "Production")
    assert text == TEXT + CHOSEN
    assert "test/eu was created." in answer
    actions = AuditEntry.objects.values_list("action", flat=True)
    assert {"environment.create", "infrastructure.create"} <= set(actions)


def test_an_infrastructure_is_added_to_an_environment_that_is_there(world: World, client: Client):
    fields = {"new-environment": world.environment.pk, "new-environment_name": ""}
    _, text = post_form(client, build_form(world, **fields))
    assert Infrastructure.objects.get(identifier="eu").environment == world.environment
    assert f"environmentRef: {world.environment.identifier}" in text


def test_what_is_refused_leaves_nothing_behind(world: World, client: Client):
    refused: list[tuple[dict[str, Any], str]] = [
        ({"new-cluster": "arn:aws:ecs:x"}, "not the ARN"),
        ({"new-environment_name": ""}, "Enter a name for the new environment"),
        ({"new-environment_identifier": "two words"}, "identifier"),
        ({"new-identifier": "two words"}, "identifier"),
        ({"new-region": "nowhere"}, "nowhere"),
        ({"is": "another"}, "The YAML has changed"),
        ({"at": "pipeline"}, "The YAML has changed"),
        ({"yaml": "pipeline: [not closed"}, "The YAML is not valid"),
    ]
    for wrong, message in refused:
        answer, text = post_form(client, build_form(world, **wrong))
        assert message in answer
        assert not text
    assert not Environment.objects.filter(name="Test").exists()


def test_an_identifier_that_is_taken_is_said_beside_it(world: World, client: Client):
    fields = {"new-environment_identifier": world.environment.identifier}
    answer, _ = post_form(client, build_form(world, **fields))
    assert "There is already an environment with the identifier" in answer
    assert 'id="visual-new-environment_identifier_error"' in answer


@pytest.fixture
def shadowed(world: World, account: Scope) -> Infrastructure:
    """An infrastructure of the account; the project has an environment with the identifier of its own."""
    identifier = world.environment.identifier
    environment = Environment.objects.create(scope=account, identifier=identifier, name="Of the account")
    own = Infrastructure.objects.get(environment=world.environment)
    return Infrastructure.objects.create(
        environment=environment,
        identifier=own.identifier,
        name="Far",
        connector=own.connector,
        region="eu-west-1",
        cluster="far-away",
    )


def test_an_environment_that_a_nearer_one_hides_is_not_offered(
    world: World, client: Client, shadowed: Infrastructure
):
    answer, _ = post_form(
        client, {"in_scope": world.pipeline.scope.path, "yaml": TEXT, "do": "open", "at": STAGE}
    )
    assert world.environment.name in answer
    assert "Of the account" not in answer
    fields = {"new-environment": shadowed.environment.pk, "new-environment_name": ""}
    answer, text = post_form(client, build_form(world, **fields))
    assert "The environment was not created" in answer
    assert not text


def test_a_new_environment_that_a_nearer_one_hides_is_refused(world: World, client: Client, account: Scope):
    fields = {"new-environment_identifier": world.environment.identifier, "new-in_scope": account.path}
    answer, text = post_form(client, build_form(world, **fields))
    assert "The pipeline has a nearer environment with this identifier." in answer
    assert not text
    assert not Environment.objects.filter(scope=account).exists()


def test_services_and_targets_that_nearer_ones_hide_are_not_offered(
    world: World, admin: User, account: Scope, shadowed: Infrastructure
):
    scope = world.pipeline.scope
    Service.objects.create(scope=account, identifier=world.service.identifier, name="Of the account")
    choices = list_editor_choices(scope, admin)
    assert [name for _, name in choices.services] == [world.service.name]
    assert len(choices.infrastructures) == len(dict(choices.infrastructures)) == 1
    suggested = build_suggestions(scope, admin)["values"]
    assert [len(values) for values in suggested.values()] == [1, 1, 1]
    template = PipelineTemplateForm(None, person=admin, scope=scope)
    assert list(template.services) == [world.service]
    assert shadowed not in template.places


def test_who_may_not_edit_environments_makes_none(world: World, browse: Browse):
    person = make_person("runs-only", "pipeline_executor", world.pipeline.scope)
    answer, text = post_form(browse(person), build_form(world))
    assert "You cannot edit environments in this scope." in answer
    assert not text
    assert not Environment.objects.filter(name="Test").exists()


def test_an_identifier_in_the_text_changes_no_command_of_the_page(world: World, client: Client):
    hostile = TEXT.replace("identifier: dev", """identifier: 'x", "do": "delete'""")
    data = {"in_scope": world.pipeline.scope.path, "yaml": hostile, "do": "show"}
    answer, _ = post_form(client, data)
    commands = [json.loads(html.unescape(match)) for match in re.findall(r"hx-vals='(.*?)'", answer)]
    opening = [command for command in commands if command["do"] == "open" and command["at"] == STAGE]
    assert [command["is"] for command in opening] == ['x", "do": "delete']


TYPED = {"new_of": "dev", "form_at": STAGE, "form_is": "dev", "name": "Dev", "identifier": "dev"}


def is_form_open(answer: str) -> bool:
    return '<details class="visual-new-infrastructure" open>' in answer and 'value="Test"' in answer


def test_what_was_typed_of_a_new_place_is_there_after_its_stage_was_applied(world: World, client: Client):
    for do in ("apply", "show", "set-strategy"):
        fields = {**TYPED, "do": do, "strategy": "Rolling", "new-cluster": ""}
        answer, _ = post_form(client, build_form(world, **fields))
        assert is_form_open(answer), do
        assert 'value="EU"' in answer
        assert '<option value="Production" selected>' in answer
        assert "This field is required" not in answer
    renamed, text = post_form(client, build_form(world, **TYPED | {"do": "apply", "identifier": "devel"}))
    assert "identifier: devel" in text
    assert is_form_open(renamed)
    assert not Environment.objects.filter(name="Test").exists()


def test_what_was_typed_for_one_stage_is_not_in_the_form_of_another(world: World, client: Client):
    other = TEXT + TEXT.split("stages:\n")[1].replace("dev", "prod")
    fields = {**TYPED, "yaml": other, "do": "open", "at": "pipeline.stages.1", "is": "prod"}
    answer, _ = post_form(client, build_form(world, **fields))
    assert 'name="new_of" value="prod"' in answer
    assert not is_form_open(answer)


def test_a_form_in_which_nothing_was_typed_stays_closed(world: World, client: Client):
    fields = {**TYPED, "do": "apply"}
    fields |= dict.fromkeys(("new-environment_name", "new-name", "new-cluster"), "")
    answer, _ = post_form(client, build_form(world, **fields))
    assert '<details class="visual-new-infrastructure">' in answer


def test_once_created_the_form_is_empty_again(world: World, client: Client):
    answer, _ = post_form(client, build_form(world, **TYPED | {"do": "create-place"}))
    assert "test/eu was created." in answer
    assert '<details class="visual-new-infrastructure">' in answer
