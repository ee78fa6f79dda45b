"""Configurations: a script and rules that many delegates share; the primary one is always there."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from catalog.models import Environment
from delegates.models import ConfigurationRun, Delegate, DelegateConfiguration
from delegates.operations.configurations import (
    apply_configuration,
    create_configuration,
    delete_configuration,
    update_configuration,
)
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden
from tests.fixtures.delegates import make_delegate, make_instance
from web.http.problems import BadInput, Conflict

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]
HERE = "?org=default&project=demo"


@pytest.fixture
def tools(project: Scope, admin: User) -> DelegateConfiguration:
    return create_configuration(
        actor=admin, scope=project, identifier="tools", name="Tools", script="echo ready"
    )


def read_text(response: Any) -> str:
    return str(response.content.decode())


def test_a_configuration_is_made_in_the_browser(project: Scope, admin: User, browse: Browse) -> None:
    Environment.objects.create(scope=project, identifier="prod", name="Production")
    client = browse(admin)
    assert "Production (account/default/demo/prod)" in read_text(client.get("/delegates/configurations/new/"))
    form = {
        "in_scope": project.path,
        "name": "Build tools",
        "script": "apt-get update\r\necho ready\r\n",
        "timeout_seconds": "90",
        "requires_approval": "on",
        "environments": ["account/default/demo/prod"],
        "task_kinds": ["shell", "aws"],
    }
    page = read_text(client.post("/delegates/configurations/new/", form, follow=True))
    configuration = DelegateConfiguration.objects.get(identifier="build_tools")
    assert configuration.script == "apt-get update\necho ready\n"
    assert (configuration.timeout_seconds, configuration.requires_approval) == (90, True)
    assert configuration.environments == ["account/default/demo/prod"]
    assert configuration.task_kinds == ["aws", "shell"]
    assert "AWS call, Shell script" in page
    assert "Configuration Build tools created" in page
    assert "Wait for approval" in page


def test_who_may_not_see_environments_keeps_those_that_are_chosen(
    project: Scope, admin: User, browse: Browse
) -> None:
    configuration = create_configuration(actor=admin, scope=project, identifier="old", name="Old")
    # Since then the environment was deleted.
    DelegateConfiguration.objects.update(environments=["account/default/demo/went-away"])
    page = read_text(browse(admin).get(f"/delegates/configurations/{configuration.pk}/edit/"))
    assert 'value="account/default/demo/went-away"' in page
    assert "checked" in page
    configuration.refresh_from_db()
    update_configuration(actor=admin, configuration=configuration, environments=configuration.environments)
    assert configuration.environments == ["account/default/demo/went-away"]


@pytest.mark.parametrize("path", ["account/default/demo/prdo", "account/other/elsewhere/prod"])
def test_an_environment_has_to_exist_in_the_scope(
    project: Scope, other_project: Scope, admin: User, call: Call, path: str
) -> None:
    for scope in (project, other_project):
        Environment.objects.create(scope=scope, identifier="prod", name="Production")
    address = f"/api/v1/delegate-configurations{HERE}"
    body = {"identifier": "x", "name": "X", "environments": ["account/default/demo/prod", path]}
    (error,) = call(admin).post(address, body, "json").json()["errors"]
    assert error["path"] == "environments"
    assert path in error["message"]
    assert "demo/prod" not in error["message"]
    assert not DelegateConfiguration.objects.filter(identifier="x").exists()


def test_one_configuration_applies_to_many_delegates(
    tools: DelegateConfiguration, admin: User, call: Call
) -> None:
    delegates = [make_delegate(tools.scope, name) for name in ("eu", "us")]
    body = {"delegates": [delegate.pk for delegate in delegates]}
    response = call(admin).post(f"/api/v1/delegate-configurations/{tools.pk}/apply", body, "json")
    assert (response.status_code, response.json()["delegates"]) == (200, 2)
    assert {delegate.configuration for delegate in Delegate.objects.filter(is_built_in=False)} == {tools}
    entries = AuditEntry.objects.filter(action="delegate.update").order_by("pk")
    assert [entry.after for entry in entries] == [{"configuration": "Tools"}] * 2


def test_ticked_delegates_get_a_configuration_in_the_browser(
    tools: DelegateConfiguration, admin: User, browse: Browse
) -> None:
    delegate = make_delegate(tools.scope, "eu")
    page = read_text(browse(admin).get(f"/delegates/configurations/{tools.pk}/"))
    assert "eu in account/default/demo, which has Primary" in page
    address = f"/delegates/configurations/{tools.pk}/apply/"
    page = read_text(browse(admin).post(address, {"delegates": [delegate.pk]}, follow=True))
    assert "1 delegate has Tools now." in page
    assert f'<a href="/delegates/{delegate.pk}/">eu</a>' in page


def test_a_delegate_that_lies_elsewhere_gets_none_and_nobody_else_does(
    tools: DelegateConfiguration, other_project: Scope, admin: User
) -> None:
    own_delegate, foreign_delegate = make_delegate(tools.scope, "eu"), make_delegate(other_project, "us")
    with pytest.raises(BadInput, match="or above"):
        apply_configuration(actor=admin, configuration=tools, delegates=[own_delegate, foreign_delegate])
    assert not tools.delegates.exists()


def test_an_unknown_delegate_is_named(tools: DelegateConfiguration, admin: User, call: Call) -> None:
    response = call(admin).post(
        f"/api/v1/delegate-configurations/{tools.pk}/apply", {"delegates": [99999]}, "json"
    )
    assert response.json()["errors"] == [{"path": "delegates", "message": "delegate 99999 does not exist"}]


def test_the_primary_configuration_cannot_be_deleted(admin: User, browse: Browse) -> None:
    primary = DelegateConfiguration.objects.get(is_primary=True)
    with pytest.raises(Conflict, match="cannot be deleted"):
        delete_configuration(actor=admin, configuration=primary)
    page = read_text(browse(admin).get(f"/delegates/configurations/{primary.pk}/"))
    assert ">Delete<" not in page
    assert browse(admin).post(f"/delegates/configurations/{primary.pk}/delete/").status_code == 409
    assert DelegateConfiguration.objects.filter(is_primary=True).exists()


def test_a_script_can_be_given_to_the_primary_one(admin: User, call: Call) -> None:
    primary = DelegateConfiguration.objects.get(is_primary=True)
    assert primary.script == ""
    address = f"/api/v1/delegate-configurations/{primary.pk}"
    assert call(admin).patch(address, {"script": "echo hello"}, "json").status_code == 200
    primary.refresh_from_db()
    assert primary.script == "echo hello"


def test_a_configuration_in_use_stays(tools: DelegateConfiguration, admin: User) -> None:
    make_delegate(tools.scope, "eu", configuration=tools)
    with pytest.raises(Conflict, match="1 delegate has Tools"):
        delete_configuration(actor=admin, configuration=tools)
    assert DelegateConfiguration.objects.filter(pk=tools.pk).exists()
    assert not AuditEntry.objects.filter(action="delegateconfiguration.delete").exists()


def test_the_audit_trail_says_that_a_script_changed_but_not_what_it_is(
    tools: DelegateConfiguration, admin: User
) -> None:
    update_configuration(actor=admin, configuration=tools, script="export PASSWORD=wonderful")
    entry = AuditEntry.objects.get(action="delegateconfiguration.update")
    assert entry.before is not None
    assert entry.after is not None
    assert entry.before["script_sha256"] != entry.after["script_sha256"]
    assert "wonderful" not in str(entry.after)


@pytest.mark.parametrize(
    ("values", "field"),
    [
        ({"name": " "}, "name"),
        ({"script": "echo \x07"}, "script"),
        ({"script": "x" * (64 * 1024 + 1)}, "script"),
        ({"timeout_seconds": 0}, "timeout_seconds"),
        ({"timeout_seconds": 3601}, "timeout_seconds"),
        ({"environments": ["account/other/elsewhere/prod"]}, "environments"),
        ({"task_kinds": ["aws", "doctor"]}, "task_kinds"),
    ],
)
def test_what_no_agent_could_use_is_refused(
    tools: DelegateConfiguration, admin: User, values: dict[str, Any], field: str
) -> None:
    with pytest.raises(BadInput) as error:
        update_configuration(actor=admin, configuration=tools, **values)
    assert error.value.errors[0]["path"] == field


def test_runs_are_shown_with_what_they_printed(
    tools: DelegateConfiguration, admin: User, browse: Browse, call: Call
) -> None:
    instance = make_instance(make_delegate(tools.scope, "eu", configuration=tools))
    for number, (code, output) in enumerate([(0, "ready"), (127, "<b>helm: not found</b>")]):
        ConfigurationRun.objects.create(
            configuration=tools,
            instance=instance,
            started_at=timezone.now() + timedelta(seconds=number),
            duration_ms=12,
            exit_code=code,
            output=output,
        )
    page = read_text(browse(admin).get(f"/delegates/configurations/{tools.pk}/"))
    assert "exit code 127" in page
    assert "&lt;b&gt;helm: not found" in page
    rows = call(admin).get(f"/api/v1/delegate-configurations/{tools.pk}/runs").json()["results"]
    assert [(row["delegate"], row["exit_code"]) for row in rows] == [("eu", 127), ("eu", 0)]


def test_permissions_of_configurations_are_their_own(
    tools: DelegateConfiguration, viewer: User, browse: Browse, call: Call
) -> None:
    assert browse(viewer).get(f"/delegates/configurations/{tools.pk}/").status_code == 200
    assert call(viewer).post(f"/api/v1/delegate-configurations{HERE}", {}, "json").status_code == 400
    body = {"identifier": "x", "name": "X"}
    assert call(viewer).post(f"/api/v1/delegate-configurations{HERE}", body, "json").status_code == 403
    with pytest.raises(Forbidden):
        update_configuration(actor=viewer, configuration=tools, name="Mine")
