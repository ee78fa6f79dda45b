"""Pages of triggers: what is entered, what is shown once, and what a trial says."""

import re
from collections.abc import Callable
from html import unescape
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from deployments.models import Execution
from pipelines import tasks
from pipelines.models import Trigger, TriggerFiring
from rbac.models import AuditEntry, Role, RoleAssignment, ServiceAccount, User
from tests.api.sample_project import World
from tests.fixtures.people import make_person
from tests.pipelines.triggers.conftest import Send

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
VARIABLES = """\
  variables:
    replicas:
      type: Number
      value: <+input>.default(1)
    key:
      type: Secret
      value: <+input>
"""


def text_of(response: Any) -> str:
    return unescape(response.content.decode())


@pytest.fixture
def client(admin: User, browse: Browse) -> Client:
    return browse(admin)


@pytest.fixture
def asking(world: World) -> World:
    """A pipeline with inputs."""
    pipeline = world.pipeline
    pipeline.yaml = pipeline.yaml.replace("  stages:\n", f"{VARIABLES}  stages:\n")
    pipeline.save(update_fields=["yaml"])
    return world


def form(world: World, **more: Any) -> dict[str, Any]:
    account = world.service_account.pk
    return {"name": "After the build", "service_account": account, "is_enabled": "on"} | more


def test_an_input_keeps_its_line_ends_in_a_browser(asking: World, client: Client) -> None:
    asking.pipeline.yaml = asking.pipeline.yaml.replace(
        "    replicas:\n", "    note: <+input>\n    replicas:\n"
    )
    asking.pipeline.save(update_fields=["yaml"])
    stored = "-----BEGIN\nAB\n"
    trigger = asking.trigger
    Trigger.objects.filter(pk=trigger.pk).update(inputs={"note": stored, "replicas": 2})
    address = f"/triggers/{trigger.pk}/edit/"
    page = text_of(client.get(address))
    assert f">\n{stored}</textarea>" in page
    assert 'name="inputs.replicas" value="2"' in page
    # Browsers send the text of an area with these line ends.
    inputs = {"inputs.note": stored.replace("\n", "\r\n"), "inputs.replicas": "2", "version": trigger.version}
    response = client.post(address, form(asking, **inputs))
    assert response.status_code == 302, text_of(response)
    trigger.refresh_from_db()
    assert trigger.inputs == {"note": stored, "replicas": 2}


def test_a_certificate_whose_lines_the_browser_joined_is_refused(asking: World, client: Client) -> None:
    asking.pipeline.yaml = asking.pipeline.yaml.replace("type: Number", "type: String", 1)
    asking.pipeline.save(update_fields=["yaml"])
    joined = "-----BEGIN CERTIFICATE-----AB-----END CERTIFICATE-----"
    before = Trigger.objects.count()
    address = f"/pipelines/{asking.pipeline.pk}/triggers/new/webhook/"
    response = client.post(address, form(asking, **{"inputs.replicas": joined}))
    assert response.status_code == 400
    assert "has lost its line ends" in text_of(response)
    assert f">\n{joined}</textarea>" in text_of(response)
    assert Trigger.objects.count() == before
    # The area of this page joins nothing, so the text has no line ends.
    again = form(asking, **{"inputs.replicas": joined, "inputs.replicas:is_area": "1"})
    assert client.post(address, again).status_code == 200
    assert Trigger.objects.latest("pk").inputs["replicas"] == joined


def test_a_service_account_is_created_from_within_the_form(world: World, client: Client) -> None:
    address = f"/pipelines/{world.pipeline.pk}/triggers/new/webhook/"
    assert "New service account" in text_of(client.get(address))
    typed = form(world) | {"service_account": "", "tag": "v9", "create_for": "service_account"}
    new = client.post(address, typed)["Location"]
    back = client.post(new, {"name": "Builds", "in_scope": world.scope.path})["Location"]
    page = text_of(client.get(back))
    assert "Service account Builds created and selected." in page
    assert f'<option value="{ServiceAccount.objects.get(name="Builds").pk}" selected>' in page
    assert 'value="v9"' in page


def test_a_new_trigger_shows_its_secret_once(world: World, client: Client) -> None:
    Trigger.objects.all().delete()
    address = f"/pipelines/{world.pipeline.pk}/triggers/"
    assert "No triggers yet" in text_of(client.get(address))
    assert "signed JSON" in text_of(client.get(f"{address}new/"))
    made = text_of(client.post(f"{address}new/webhook/", form(world, tag="<+trigger.payload.tag>")))
    trigger = Trigger.objects.get()
    assert trigger.identifier == "after_the_build"
    assert trigger.secret.startswith("slp_hook_")
    assert trigger.secret in made
    assert f"/hooks/v1/{trigger.key}/" in made
    assert "openssl dgst -sha256" in made
    later = "".join(
        text_of(client.get(url))
        for url in (address, f"/triggers/{trigger.pk}/", f"/triggers/{trigger.pk}/edit/")
    )
    assert trigger.secret not in later
    assert trigger.secret not in str(AuditEntry.objects.get(action="trigger.create").after)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"service_account": ""}, "This field is required."),
        ({"service_account": "999999"}, "Select a valid choice."),
        ({"conditions": "<+trigger.tag> ="}, "cannot be read"),
        ({"conditions": '<+pipeline.name> == "x"'}, "<+pipeline.name> is not of the event"),
        ({"tag": "<+trigger.payload.tag"}, "An expression has no end"),
        ({"tag": '<+secrets.getValue("account.key")>'}, "is not of the event"),
        ({"inputs.replicas": "<+env.name>"}, "is not of the event"),
        ({"name": "a\u202eb"}, "changes the text direction"),
    ],
)
def test_what_cannot_be_saved_is_said_beside_its_field(
    asking: World, client: Client, fields: dict[str, Any], message: str
) -> None:
    response = client.post(f"/pipelines/{asking.pipeline.pk}/triggers/new/webhook/", form(asking, **fields))
    assert response.status_code == 400
    assert message in text_of(response)
    assert not Trigger.objects.filter(name="After the build").exists()


def test_an_account_that_cannot_run_the_pipeline_is_refused(world: World, client: Client) -> None:
    RoleAssignment.objects.filter(user=world.service_account.user).delete()
    response = client.post(f"/pipelines/{world.pipeline.pk}/triggers/new/webhook/", form(world))
    assert "needs the permission core_pipeline_execute on the pipeline" in text_of(response)


def test_who_may_not_act_as_an_account_cannot_choose_it(world: World, browse: Browse) -> None:
    role = Role.objects.create(scope=world.scope, identifier="editor", name="Editor")
    for permission in ("core_pipeline_view", "core_pipeline_edit", "core_serviceaccount_view"):
        role.permissions.create(permission=permission)
    editor = make_person("editor")
    RoleAssignment.objects.create(scope=world.scope, role=role, user=editor)
    response = browse(editor).post(f"/pipelines/{world.pipeline.pk}/triggers/new/webhook/", form(world))
    assert "Select a valid choice." in text_of(response)
    # Another field of a trigger that has it can be changed.
    fields = form(world, version=1, name="Renamed")
    assert browse(editor).post(f"/triggers/{world.trigger.pk}/edit/", fields).status_code == 302


def test_nobody_lends_an_account_that_may_do_more_than_they(world: World, browse: Browse) -> None:
    wide = Role.objects.create(scope=world.scope, identifier="wide", name="Wide")
    wide.permissions.create(permission="core_role_edit")
    RoleAssignment.objects.create(scope=world.scope, role=wide, user=world.service_account.user)
    editor = make_person("editor")
    role = Role.objects.create(scope=world.scope, identifier="editor", name="Editor")
    RoleAssignment.objects.create(scope=world.scope, role=role, user=editor)
    held = {
        *("core_pipeline_view", "core_pipeline_edit", "core_pipeline_execute"),
        *("core_serviceaccount_view", "core_serviceaccount_manageapikey"),
    }
    assignments = RoleAssignment.objects.filter(user=world.service_account.user)
    for assignment in assignments.exclude(role=wide):
        held |= set(assignment.role.permissions.values_list("permission", flat=True))
    role.set_permissions(sorted(held))
    address = f"/pipelines/{world.pipeline.pk}/triggers/new/webhook/"
    response = browse(editor).post(address, form(world))
    assert response.status_code == 400
    assert "permissions that you do not have. You need core_role_edit." in text_of(response)
    role.set_permissions(sorted({*held, "core_role_edit"}))
    assert browse(editor).post(address, form(world)).status_code == 200


def test_inputs_of_the_pipeline_are_fields_except_secrets(asking: World, client: Client) -> None:
    address = f"/triggers/{asking.trigger.pk}/edit/"
    page = text_of(client.get(address))
    assert 'name="inputs.replicas"' in page
    assert 'name="inputs.key"' not in page
    client.post(address, form(asking, version=1, **{"inputs.replicas": "3"}))
    assert Trigger.objects.get().inputs == {"replicas": 3}
    client.post(address, form(asking, version=2, **{"inputs.replicas": "<+trigger.payload.count>"}))
    assert Trigger.objects.get().inputs == {"replicas": "<+trigger.payload.count>"}


def test_who_saves_over_somebody_elses_change_is_told(world: World, client: Client) -> None:
    address = f"/triggers/{world.trigger.pk}/edit/"
    client.post(address, form(world, version=1, name="Theirs"))
    response = client.post(address, form(world, version=1, name="Mine"))
    assert response.status_code == 409
    assert 'value="Mine"' in text_of(response)
    assert client.post(address, form(world, version=2, name="Mine")).status_code == 302
    assert Trigger.objects.get().name == "Mine"


def test_a_rotated_secret_replaces_the_old_one_at_once(world: World, client: Client, send: Send) -> None:
    old = world.trigger.secret
    page = text_of(client.post(f"/triggers/{world.trigger.pk}/secret/"))
    world.trigger.refresh_from_db()
    assert world.trigger.secret in page
    assert send(secret=old).status_code == 401
    assert "1 request refused in the last hour" in text_of(client.get(f"/triggers/{world.trigger.pk}/"))
    assert send().status_code == 202


def test_a_trial_says_what_would_happen_and_starts_nothing(world: World, client: Client) -> None:
    Trigger.objects.update(conditions=['<+trigger.payload.branch> == "main"'])
    address, before = f"/triggers/{world.trigger.pk}/try/", Execution.objects.count()
    dev = text_of(client.post(address, {"payload": '{"tag": "v2", "branch": "dev"}'}))
    assert "webhook: would be ignored" in dev
    assert 'Does not hold: <+trigger.payload.branch> is "dev".' in dev
    main = text_of(client.post(address, {"payload": '{"tag": "v2", "branch": "main"}'}))
    assert "webhook: would start a run" in main
    bad_tag = text_of(client.post(address, {"payload": '{"tag": "a b", "branch": "main"}'}))
    assert "webhook: would be refused" in bad_tag
    assert "This is not a valid image tag." in bad_tag
    assert "not usable JSON" in text_of(client.post(address, {"payload": "{"}))
    stored = text_of(client.get(f"{address}?firing={world.firing.pk}"))
    assert "<+trigger.payload.branch> is unknown here" in stored
    assert Execution.objects.count() == before
    assert TriggerFiring.objects.count() == 1


def test_firings_are_listed_with_their_result_and_filtered(world: World, client: Client, send: Send) -> None:
    send({"tag": "v3"}, Slipway_Delivery="build-3")
    tasks.process_firings()
    address = f"/triggers/{world.trigger.pk}/"
    page = text_of(client.get(address))
    assert "Run started" in page
    assert "The trigger is disabled." in page
    assert "The trigger is disabled." not in text_of(client.get(f"{address}?status=STARTED"))
    firing = TriggerFiring.objects.get(delivery_id="build-3")
    detail = text_of(client.get(f"/trigger-firings/{firing.pk}/"))
    assert 'data-go="p" aria-current="true"' in detail
    assert '"tag": "v3"' in detail
    assert f"Execution {firing.execution_number}" in detail
    assert "Run started" in text_of(client.get(f"/pipelines/{world.pipeline.pk}/triggers/"))


def test_disabling_and_deleting(world: World, client: Client) -> None:
    address = f"/triggers/{world.trigger.pk}/"
    client.post(f"{address}enable/", {"enabled": "false"})
    assert not Trigger.objects.get().is_enabled
    client.post(f"{address}enable/", {"enabled": "true"})
    assert Trigger.objects.get().is_enabled
    assert client.post(f"{address}delete/").status_code == 302
    assert not Trigger.objects.exists()


def test_the_lists_take_the_same_number_of_queries_for_any_length(world: World, client: Client) -> None:
    def count(url: str) -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(url)
        return len(queries)

    addresses = [f"/pipelines/{world.pipeline.pk}/triggers/", f"/triggers/{world.trigger.pk}/"]
    # The first request of a session has more to read.
    client.get("/")
    before = [count(url) for url in addresses]
    accounts = ServiceAccount.objects.all()
    for number in range(3):
        trigger = Trigger.objects.create(
            pipeline=world.pipeline,
            identifier=f"t{number}",
            name="T",
            kind="webhook",
            service_account=accounts[0],
        )
        for target in (trigger, world.trigger):
            TriggerFiring.objects.create(
                trigger=target,
                delivery_id=f"d{number}",
                event_key=f"k{number}",
                received_at=trigger.created_at,
                summary="webhook",
                status="IGNORED",
            )
    assert [count(url) for url in addresses] == before


def test_a_program_does_the_same_by_api(world: World, admin: User, call: Any) -> None:
    api, body = call(admin), {"name": "By API", "service_account": world.service_account.pk}
    new = {**body, "pipeline": world.pipeline.pk, "identifier": "by_api", "kind": "webhook"}
    made = api.post("/api/v1/triggers", {**new, "kind": "carrier_pigeon"}, format="json")
    assert made.json()["errors"][0]["path"] == "kind"
    made = api.post("/api/v1/triggers", new, format="json")
    secret = made.json()["secret"]
    address = f"/api/v1/triggers/{made.json()['id']}"
    assert secret not in api.get(address).content.decode()
    rotated = api.post(f"{address}/secret").json()["secret"]
    assert rotated == Trigger.objects.get(identifier="by_api").secret != secret
    trial = api.post(f"{address}/try", {"payload": {"tag": "v2"}}, format="json").json()["trials"][0]
    assert (trial["starts_run"], trial["refusal"]) == (True, "")
    changed = api.put(address, {**body, "conditions": ["false"]}, format="json").json()
    assert changed["conditions"] == ["false"]
    trial = api.post(f"{address}/try", {"payload": {}}, format="json").json()["trials"][0]
    assert trial["checks"] == [{"text": "false", "reason": "Does not hold."}]
    firing = f"/api/v1/trigger-firings/{world.firing.pk}"
    again = api.post(f"{firing}/redeliver").json()
    assert (again["status"], again["payload"]) == ("WAITING", world.firing.payload)
    listed = api.get(f"/api/v1/triggers/{world.trigger.pk}/firings?status=WAITING").json()
    assert [row["id"] for row in listed["results"]] == [again["id"]]
    assert api.delete(address).status_code == 204


def test_fields_for_expressions_take_more_than_a_few_characters(asking: World, client: Client) -> None:
    page = text_of(client.get(f"/pipelines/{asking.pipeline.pk}/triggers/new/webhook/"))
    for name in ("tag", "inputs.replicas"):
        field = re.search(rf'<input[^>]* name="{re.escape(name)}"[^>]*>', page)
        assert field is not None
        assert 'maxlength="4096"' in field[0]
