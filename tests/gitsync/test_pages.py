"""Pages and API of Git syncs."""

from collections.abc import Callable
from typing import Any

import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.models import Infrastructure, Service
from connectors.models import Connector
from gitsync.models import GitSync
from pipelines.models import Pipeline, Trigger
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, ServiceAccount, User
from tests.fixtures.git import GitServer
from tests.fixtures.people import make_person
from tests.gitsync.conftest import SERVICE, RunPass, change_while_disabled

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]
pytestmark = pytest.mark.django_db
SYNCS = "/api/v1/git-syncs"


def test_the_page_names_commit_faults_and_resources(
    run_pass: RunPass, git_server: GitServer, viewer: User, browse: Browse
) -> None:
    applied = run_pass().applied_commit
    seen = git_server.commit({"slipway/services/web.yml": SERVICE.replace("name", "nam")})
    sync = run_pass()

    page = browse(viewer).get(f"/git-syncs/{sync.pk}/").content.decode()

    assert "Nothing was changed" in page
    assert 'slipway/services/web.yml<span class="sub">line 4, column 3' in page
    assert "unknown key nam" in page
    assert seen[:12] in page
    assert applied[:12] in page
    service, infrastructure = Service.objects.get(), Infrastructure.objects.get()
    assert f'<a class="name" href="/services/{service.pk}/">Service web</a>' in page
    assert f'href="/environments/{infrastructure.environment_id}/">Infrastructure test/main</a>' in page
    assert f'href="/pipelines/{Pipeline.objects.get().pk}/">Pipeline release</a>' in page
    assert "Sync now" not in page
    GitSync.objects.update(branch="gone")
    run_pass()
    assert "The files could not be read" in browse(viewer).get(f"/git-syncs/{sync.pk}/").content.decode()


def test_the_page_shows_drift_and_syncs_now(run_pass: RunPass, admin: User, browse: Browse) -> None:
    sync = run_pass()
    change_while_disabled(sync, admin)
    run_pass()
    client = browse(admin)
    assert '<span class="line">-name: By hand</span>' in client.get(f"/git-syncs/{sync.pk}/").content.decode()

    answer = client.post(f"/git-syncs/{sync.pk}/sync/", follow=True)

    assert "Sync requested" in answer.content.decode()
    assert run_pass().state == "SYNCED"


def test_a_difference_is_hidden_without_permission_to_view_its_kind(
    run_pass: RunPass, admin: User, project: Scope, call: Call
) -> None:
    sync = run_pass()
    change_while_disabled(sync, admin)
    run_pass()
    reader = make_person("reader")
    role = Role.objects.create(scope=project, identifier="syncs", name="Syncs")
    role.permissions.create(permission="core_gitsync_view")
    RoleAssignment.objects.create(user=reader, role=role, scope=project)

    def read_difference(person: User) -> str:
        rows = call(person).get(f"{SYNCS}/{sync.pk}/resources").json()["results"]
        return next(str(row["difference"]) for row in rows if row["kind"] == "Environment")

    assert "By hand" in read_difference(admin)
    assert read_difference(reader) == ""


def test_roles_in_one_project_show_no_difference_of_another(
    run_pass: RunPass, git_sync: GitSync, admin: User, project: Scope, call: Call, browse: Browse
) -> None:
    # A sync of the organization, which manages resources of all its projects.
    organization = project.parent
    assert organization
    change_while_disabled(run_pass(), admin)
    run_pass()
    GitSync.objects.filter(pk=git_sync.pk).update(scope=organization)
    other = Scope.objects.create(
        kind=Scope.Kind.PROJECT, parent=organization, identifier="other", name="Other"
    )
    reader = make_person("reader")
    role = Role.objects.create(scope=organization, identifier="syncs", name="Syncs")
    role.permissions.create(permission="core_gitsync_view")
    RoleAssignment.objects.create(user=reader, role=role, scope=organization)
    viewer_role = Role.objects.get(identifier="viewer", scope=None)
    RoleAssignment.objects.create(user=reader, role=viewer_role, scope=other)

    rows = call(reader).get(f"{SYNCS}/{git_sync.pk}/resources").json()["results"]
    page = browse(reader).get(f"/git-syncs/{git_sync.pk}/").content.decode()

    assert [row["difference"] for row in rows if row["kind"] == "Environment"] == [""]
    assert "By hand" not in page
    assert f'href="/services/{Service.objects.get().pk}/"' not in page
    RoleAssignment.objects.create(user=reader, role=viewer_role, scope=organization)
    assert "By hand" in browse(reader).get(f"/git-syncs/{git_sync.pk}/").content.decode()


def build_body(sync: GitSync, **values: Any) -> dict[str, Any]:
    rows = {"connector": sync.connector_id, "service_account": sync.service_account_id}
    return {"name": "Demo", "branch": "main", "folder": "slipway", **rows, **values}


def test_a_sync_is_made_changed_requested_and_deleted(git_sync: GitSync, admin: User, call: Call) -> None:
    client = call(admin)
    new = build_body(git_sync, identifier="other", org="default", project="demo", folder="/other/")
    creation = client.post(SYNCS, new, format="json")
    assert creation.status_code == 201, creation.json()
    document = creation.json()
    assert (document["folder"], document["state"], document["is_enabled"]) == ("other", "PENDING", True)
    address = f"{SYNCS}/{document['id']}"
    assert client.post(f"{address}/sync").status_code == 202
    disabled = client.put(address, build_body(git_sync, folder="new", is_enabled=False), format="json")
    assert (disabled.status_code, disabled.json()["version"]) == (200, 2)
    assert client.post(f"{address}/sync").status_code == 409
    assert client.get(f"{address}/runs").json()["results"] == []
    assert client.delete(address).status_code == 204
    actions = AuditEntry.objects.filter(thing_name="other").order_by("pk").values_list("action", flat=True)
    assert list(actions) == ["gitsync.create", "gitsync.request", "gitsync.update", "gitsync.delete"]


def test_a_second_sync_of_the_same_folder_is_refused_unless_it_is_disabled(
    git_sync: GitSync, admin: User, call: Call
) -> None:
    client = call(admin)
    new = build_body(git_sync, identifier="other", org="default", project="demo")
    (error,) = client.post(SYNCS, new, format="json").json()["errors"]
    assert error["path"] == "folder"
    assert f"The Git sync {git_sync.name} reads this folder already" in error["message"]
    disabled = client.post(SYNCS, {**new, "is_enabled": False}, format="json")
    assert disabled.status_code == 201
    address = f"{SYNCS}/{disabled.json()['id']}"
    assert client.put(address, build_body(git_sync), format="json").status_code == 400
    assert client.put(f"{SYNCS}/{git_sync.pk}", build_body(git_sync), format="json").status_code == 200


def test_a_connector_of_another_project_is_refused_as_a_missing_one(
    git_sync: GitSync, admin: User, project: Scope, call: Call
) -> None:
    other = Scope.objects.create(
        kind=Scope.Kind.PROJECT, parent=project.parent, identifier="other", name="Other"
    )
    spec = {"url": "https://example.com/app.git", "connect_through": "Delegate"}
    foreign = Connector.objects.create(scope=other, identifier="git", name="Git", kind="Git", spec=spec)

    def send(connector: int) -> Any:
        body = build_body(git_sync, connector=connector, edits_branch="slipway/")
        return call(admin).put(f"{SYNCS}/{git_sync.pk}", body, format="json").json()

    assert send(foreign.pk)["errors"] == send(10**6)["errors"] != []


@pytest.mark.parametrize(
    ("values", "path"),
    [
        ({"branch": "a..b"}, "branch"),
        ({"branch": "--upload-pack=x"}, "branch"),
        ({"folder": "../etc"}, "folder"),
        ({"folder": "a/../../b"}, "folder"),
        ({"repository": "../other.git"}, "repository"),
        ({"service_account": 999}, "service_account"),
    ],
)
def test_an_invalid_sync_is_refused_with_its_field(
    git_sync: GitSync, admin: User, call: Call, values: dict[str, Any], path: str
) -> None:
    answer = call(admin).put(f"{SYNCS}/{git_sync.pk}", build_body(git_sync, **values), format="json")
    assert answer.status_code == 400
    assert [error["path"] for error in answer.json()["errors"]] == [path]


def test_who_may_not_act_as_the_account_cannot_turn_its_sync_elsewhere(
    git_sync: GitSync, project: Scope, account_of_git: ServiceAccount, call: Call
) -> None:
    editor = make_person("editor")
    role = Role.objects.create(scope=project, identifier="editor", name="Editor")
    for permission in (
        "core_gitsync_view",
        "core_gitsync_edit",
        "core_connector_view",
        "core_connector_access",
    ):
        role.permissions.create(permission=permission)
    RoleAssignment.objects.create(user=editor, role=role, scope=project)

    answer = call(editor).put(f"{SYNCS}/{git_sync.pk}", build_body(git_sync, folder="mine"), format="json")

    assert answer.status_code == 400
    assert "core_serviceaccount_manageapikey" in answer.json()["errors"][0]["message"]

    role.permissions.create(permission="core_serviceaccount_manageapikey")
    answer = call(editor).put(f"{SYNCS}/{git_sync.pk}", build_body(git_sync, folder="mine"), format="json")

    assert answer.status_code == 400
    assert "has permissions that you do not have" in answer.json()["errors"][0]["message"]


def test_a_sync_is_made_on_a_page(git_sync: GitSync, admin: User, project: Scope, browse: Browse) -> None:
    client = browse(admin)
    connector = Connector.objects.get(kind="Git")
    form = {
        "in_scope": project.path, "name": "Second sync", "connector": connector.pk, "branch": "main",
        "folder": "other", "service_account": git_sync.service_account_id, "is_enabled": "on",
    }  # fmt: skip
    answer = client.post("/git-syncs/new/", form, follow=True)
    assert "Git sync Second sync created" in answer.content.decode()
    edit = client.get(f"/git-syncs/{GitSync.objects.latest('pk').pk}/edit/").content.decode()
    assert f'<option value="{connector.pk}" selected>' in edit
    assert "Second sync" in client.get("/git-syncs/").content.decode()


def test_a_service_account_is_created_from_within_the_form(
    git_sync: GitSync, admin: User, project: Scope, browse: Browse
) -> None:
    client = browse(admin)
    form = {"in_scope": project.path, "name": "Mine", "branch": "main", "create_for": "service_account"}
    new = client.post("/git-syncs/new/", form)["Location"]
    back = client.post(new, {"name": "Syncs", "in_scope": project.path})["Location"]
    page = client.get(back).content.decode()
    assert "Service account Syncs created and selected." in page
    assert f'<option value="{ServiceAccount.objects.get(name="Syncs").pk}" selected>' in page


def test_a_list_without_the_right_to_view_does_not_claim_that_it_is_empty(
    git_sync: GitSync, project: Scope, browse: Browse
) -> None:
    page = browse(make_person("runner", "pipeline_executor", project)).get("/git-syncs/").content.decode()
    assert "No Git syncs to show in this scope" in page
    assert "core_gitsync_view" in page


def test_who_deletes_a_service_account_is_told_what_would_fail(
    git_sync: GitSync, admin: User, browse: Browse
) -> None:
    account = git_sync.service_account
    assert account is not None
    client, address = browse(admin), f"/access/service-accounts/{account.pk}/delete/"
    assert "1 Git sync uses its permissions. Without it they fail" in client.get(address).content.decode()
    pipeline = Pipeline.objects.create(scope=account.scope, identifier="nightly", name="Nightly", yaml="")
    trigger = Trigger.objects.create(
        pipeline=pipeline, identifier="night", name="Night", kind="schedule", service_account=account
    )
    page = client.get(address).content.decode()
    assert "1 trigger and 1 Git sync use its permissions." in page
    trigger.delete()
    git_sync.delete()
    assert "Still in use" not in client.get(address).content.decode()
