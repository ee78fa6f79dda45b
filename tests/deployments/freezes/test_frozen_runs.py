"""A run in a freeze window: held back with a reason, overridden by who may, and never for a rollback."""

from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.models import Service
from deployments.execution.operations import run_pipeline
from deployments.freezes.operations import RunFrozen
from deployments.models import Execution, FreezeWindow
from inventory.operations.redeployments import redeploy
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from rbac.operations.api_keys import create_api_key
from rbac.policy import Forbidden
from tests.deployments.conftest import _full_buckets, drive
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person

__all__ = ["_full_buckets", "drive"]

pytestmark = pytest.mark.django_db(transaction=True)

OVERRIDE = "core_deploymentfreeze_override"


def _create_window(scope: Scope, **fields: object) -> FreezeWindow:
    return FreezeWindow.objects.create(
        scope=scope,
        **{
            "identifier": "holidays",
            "name": "Holidays",
            "description": "Nobody is there",
            "begins": "2020-01-01T00:00",
            "ends": "2999-01-01T00:00",
            **fields,
        },
    )


def _create_api_client(person: User) -> APIClient:
    _, token = create_api_key(actor=person, user=person, name="a program")
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_X_API_KEY=token)
    return client


def _create_admin(scope: Scope, role: str = "account_admin") -> User:
    return make_person(f"admin of {scope.pk}".replace(" ", "."), role, scope)


def test_a_run_is_held_back_with_the_reason_until_when_and_who_may_override(drive: Drive) -> None:
    _create_window(Scope.objects.account(), environment_kind="PreProduction")
    address = f"/api/v1/pipelines/{drive.pipeline.pk}/executions"
    client = _create_api_client(drive.deployer)
    response = client.post(address, {}, format="json")
    assert (response.status_code, response.json()["code"]) == (409, "frozen")
    for part in ("until 2999-01-01 00:00 UTC", "Holidays: Nobody is there", OVERRIDE, "account"):
        assert part in response.json()["detail"]
    FreezeWindow.objects.update(description="Nobody is there. Call us.")
    assert "Call us. Wait" in client.post(address, {}, format="json").json()["detail"]
    assert client.post(address, {"override_freeze": True}, format="json").status_code == 403
    FreezeWindow.objects.update(environment_kind="Production")
    assert client.post(address, {}, format="json").status_code == 201


def test_who_may_override_it_does_so_and_it_is_written_down(drive: Drive) -> None:
    account = Scope.objects.account()
    window = _create_window(account)
    admin = _create_admin(account)
    with pytest.raises(RunFrozen, match=r"Wait, or override the freeze\.$"):
        run_pipeline(actor=admin, pipeline=drive.pipeline)
    execution = run_pipeline(actor=admin, pipeline=drive.pipeline, override_freeze=True)
    entry = AuditEntry.objects.get(action="freezewindow.override")
    assert (entry.actor, entry.thing_id) == (admin, str(execution.pk))
    assert entry.after["window"] == window.identifier


def test_a_freeze_of_the_account_is_not_overridden_from_a_project(drive: Drive) -> None:
    _create_window(Scope.objects.account())
    scope = drive.pipeline.scope
    admin = make_person("project.admin", "project_admin", scope)
    _create_window(scope, identifier="longer", name="Longer", ends="2999-02-01T00:00")
    with pytest.raises(RunFrozen, match=f"by Longer.*{OVERRIDE} in account to override"):
        run_pipeline(actor=admin, pipeline=drive.pipeline)
    with pytest.raises(Forbidden):
        run_pipeline(actor=admin, pipeline=drive.pipeline, override_freeze=True)
    assert not Execution.objects.exists()


def test_what_runs_goes_on_and_a_rollback_is_always_possible(drive: Drive) -> None:
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.pass_time(2)
    _create_window(drive.pipeline.scope)
    drive.until_over(execution)
    assert execution.status == "SUCCESS"
    response = _create_api_client(drive.deployer).post(f"/api/v1/executions/{execution.pk}/rollback")
    assert response.status_code == 202, response.json()
    drive.reconcile()
    drive.until_over(execution)
    assert execution.outcome == "ROLLED_BACK"


def test_only_who_may_freeze_everything_makes_a_window_of_the_account(drive: Drive) -> None:
    account = Scope.objects.account()
    role = Role.objects.create(scope=account, identifier="freezer", name="Freezer")
    role.permissions.create(permission="core_deploymentfreeze_manage")
    person = make_person("freezer")
    RoleAssignment.objects.create(user=person, role=role, scope=account)
    body = {"identifier": "all", "name": "All", "begins": "2030-01-01T00:00", "ends": "2030-01-02T00:00"}
    client = _create_api_client(person)
    response = client.post("/api/v1/freeze-windows", body, format="json")
    assert (response.status_code, response.json()["errors"][0]["message"]) == (
        403,
        "core_deploymentfreeze_global",
    )
    scope = drive.pipeline.scope
    project_body = {**body, "org": scope.org, "project": scope.project}
    assert client.post("/api/v1/freeze-windows", project_body, format="json").status_code == 201
    invalid_response = client.post(
        "/api/v1/freeze-windows",
        {**project_body, "identifier": "b", "time_zone": "Mars/Olympus", "ends": "2029-01-01T00:00"},
        format="json",
    )
    assert sorted(error["path"] for error in invalid_response.json()["errors"]) == ["ends", "time_zone"]


def test_a_window_at_the_end_of_the_calendar_is_refused(drive: Drive) -> None:
    scope, client = drive.pipeline.scope, _create_api_client(_create_admin(Scope.objects.account()))
    body = {"identifier": "ever", "name": "Ever", "org": scope.org, "project": scope.project}
    for begins, ends, zone, path in (
        ("0001-01-01T00:00", "2030-01-01T00:00", "Asia/Tokyo", "begins"),
        ("2030-01-01T00:00", "9999-12-31T23:59", "America/New_York", "ends"),
    ):
        window_body = {**body, "begins": begins, "ends": ends, "time_zone": zone}
        response = client.post("/api/v1/freeze-windows", window_body, format="json")
        assert response.status_code == 400
        assert [error["path"] for error in response.json()["errors"]] == [path]


def test_a_page_says_that_it_is_frozen_before_anybody_runs(drive: Drive) -> None:
    _create_window(drive.pipeline.scope)
    browser = Client()
    browser.force_login(drive.deployer)
    page = browser.get(f"/pipelines/{drive.pipeline.pk}/run/").content.decode()
    assert "Frozen until" in page
    assert "core_deploymentfreeze_override" in page


def test_a_pipeline_that_cannot_run_is_shown_as_frozen_too(drive: Drive) -> None:
    _create_window(drive.pipeline.scope)
    Service.objects.update(required_variables=["LOG_LEVEL"])
    browser = Client()
    browser.force_login(drive.deployer)
    page = browser.get(f"/pipelines/{drive.pipeline.pk}/run/").content.decode()
    assert "the variable LOG_LEVEL of service" in page
    assert "Frozen until" in page


def test_an_override_stays_selected_when_the_run_is_refused_for_another_reason(drive: Drive) -> None:
    _create_window(drive.pipeline.scope)
    browser, address = Client(), f"/pipelines/{drive.pipeline.pk}/run/"
    browser.force_login(_create_admin(Scope.objects.account()))
    box = 'name="override_freeze" value="1"'
    assert f"{box}>" in browser.get(address).content.decode()
    page = browser.post(address, {"tag": "a b", "override_freeze": "1"}).content.decode()
    assert f"{box} checked>" in page


def test_a_window_that_names_nothing_says_so_when_it_is_saved(drive: Drive) -> None:
    browser = Client()
    browser.force_login(_create_admin(Scope.objects.account()))
    form = {
        "name": "Typo",
        "in_scope": drive.pipeline.scope.path,
        "begins": "2030-01-01T00:00",
        "ends": "2030-01-02T00:00",
        "time_zone": "UTC",
        "services": "my_app, myapp",
        "environments": "dev",
    }
    page = browser.post("/freezes/new/", form, follow=True).content.decode()
    assert "Freeze window Typo created. Check these identifiers" in page
    assert "that you can view has: my_app." in page
    assert "Only environments dev, services my_app, myapp</span>" in page, "a narrow screen shows it too"
    window = FreezeWindow.objects.get()
    edit = form | {"services": "myapp", "version": window.version}
    page = browser.post(f"/freezes/{window.pk}/edit/", edit, follow=True).content.decode()
    assert "Check these identifiers" not in page
    window.refresh_from_db()
    assert window.services == ["myapp"]


def test_two_who_edit_a_window_lose_nothing(drive: Drive) -> None:
    window = _create_window(Scope.objects.account())
    browser = Client()
    browser.force_login(_create_admin(Scope.objects.account()))
    address = f"/freezes/{window.pk}/edit/"
    form = {"name": "Mine", "begins": window.begins, "ends": window.ends, "time_zone": "UTC", "version": 1}
    assert browser.post(address, form | {"name": "Theirs"}).status_code == 302
    response = browser.post(address, form)
    assert response.status_code == 409
    for part in ("Someone else saved a newer version", "name: Theirs", "name: Mine", 'value="Mine"'):
        assert part in response.content.decode()
    assert browser.post(address, form | {"version": 2}).status_code == 302
    window.refresh_from_db()
    assert window.name == "Mine"


def test_another_try_in_a_window_needs_who_may_override_it(drive: Drive) -> None:
    account = Scope.objects.account()
    execution = drive.start("1.27")
    Execution.objects.update(status="FAILED", due_at=None)
    _create_window(account)
    address = f"/api/v1/executions/{execution.pk}/retry"
    program = _create_api_client(drive.deployer)
    assert program.post(address, {}, format="json").json()["code"] == "frozen"
    assert program.post(address, {"override_freeze": True}, format="json").status_code == 403
    browser = Client()
    browser.force_login(_create_admin(account))
    page = f"/deployments/{execution.pk}/retry/"
    assert 'name="override_freeze"' in browser.get(page).content.decode()
    assert "Frozen until" in browser.get(page).content.decode()
    browser.post(page, {"start": "step", "override_freeze": "1"})
    assert execution.interrupts.get().kind == "RETRY"
    assert AuditEntry.objects.get(action="freezewindow.override").thing_id == str(execution.pk)


def test_a_rollback_that_failed_is_retried_in_a_window(drive: Drive) -> None:
    first = drive.run("1.27")
    drive.run("1.28")
    stage = first.stages.select_related("service").get()
    rollback = redeploy(actor=drive.deployer, service=stage.service, deployment=stage)
    assert rollback.rerun_of_id == first.pk
    Execution.objects.filter(pk=rollback.pk).update(status="FAILED", due_at=None)
    _create_window(drive.pipeline.scope)
    browser = Client()
    browser.force_login(drive.deployer)
    page = browser.get(f"/deployments/{rollback.pk}/retry/")
    assert "Frozen until" not in page.content.decode()
    response = _create_api_client(drive.deployer).post(
        f"/api/v1/executions/{rollback.pk}/retry", {}, format="json"
    )
    assert response.status_code == 202, response.json()


def test_a_list_shows_the_windows_of_the_scope_and_those_above_to_whom_they_hold_back(
    drive: Drive, browse: Callable[[User], Client]
) -> None:
    project = Scope.objects.get(path="account/default/demo")
    other_project = Scope.objects.create(
        identifier="other", name="Other", parent=project.parent, kind="PROJECT"
    )
    account_window = _create_window(Scope.objects.account(), name="Everybody rests")
    _create_window(other_project, identifier="theirs", name="Theirs alone")
    own_window = _create_window(project, identifier="own", name="Ours")
    manager, runner, reader = (
        _create_admin(project, "project_admin"),
        make_person("runner", "pipeline_executor", project),
        make_person("reader", "viewer", project),
    )
    page = browse(manager).get("/freezes/", {"scope": project.path}).content.decode()
    assert "Everybody rests" in page.split("From scopes above")[1]
    assert "Ours" in page.split("From scopes above")[0]
    assert f"/freezes/{account_window.pk}/" not in page
    assert "Theirs alone" not in page
    runner_page = browse(runner).get("/freezes/").content.decode()
    assert "Everybody rests" in runner_page.split("From scopes above")[1]
    assert "Ours" in runner_page.split("From scopes above")[0]
    assert f"/freezes/{own_window.pk}/" not in runner_page
    reader_page = browse(reader).get("/freezes/").content.decode()
    assert "Everybody rests" not in reader_page
    assert "Ours" not in reader_page
    assert "No freeze windows to show in this scope" in reader_page
    address = "/api/v1/freeze-windows?org=default&project=demo"
    program = _create_api_client(manager)
    for client, names in (
        (program, ["holidays", "own"]),
        (_create_api_client(runner), ["holidays", "own"]),
        (_create_api_client(reader), []),
    ):
        rows = client.get(f"{address}&shared=true").json()["results"]
        assert sorted(row["identifier"] for row in rows) == names
    (own_row,) = program.get(address).json()["results"]
    assert own_row["id"] == own_window.pk
    named_rows = program.get(f"{address}&shared=true&identifier=holidays").json()["results"]
    assert [row["identifier"] for row in named_rows] == ["holidays"]
