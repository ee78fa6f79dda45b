"""Edits of managed resources that become commits of a branch, pushed to a real Git server."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from rest_framework.test import APIClient

from aws.errors import Undelivered
from catalog.models import Infrastructure, Service
from cli.resources.application import apply_plan
from cli.resources.plans import build_plan
from cli.resources.yaml_documents import parse_documents
from connectors.models import Connector, Secret
from delegates.access.site_calls import PUSH_FILE, SiteCaller
from gitsync.local_api import LocalApiClient
from gitsync.models import GitSync, GitSyncProposal
from gitsync.proposals import passes
from gitsync.proposals.recording import UNNAMEABLE_CONNECTOR
from ops.backups.restores import UNPUSHED_REASON, settle_restored_state
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, ServiceAccount, User
from tests.fixtures.git import PASSWORD, USERNAME, GitServer
from tests.fixtures.ssh import SshServer
from tests.gitsync.conftest import ENVIRONMENT, PIPELINE, SERVICE, RunPass
from tests.secret_watch.marker import planted
from web.clock import get_database_time

Browse = Callable[[User], Client]
Call = Callable[[User], APIClient]
pytestmark = pytest.mark.django_db
WEB = "slipway/services/web.yml"
COMMENTED = SERVICE.replace("  name: Web\n", "  # Shown in lists.\n  name: Web  # short\n")


@pytest.fixture
def client(run_pass: RunPass, git_sync: GitSync, git_server: GitServer, admin: User, call: Call) -> APIClient:
    """A client of the API, after a sync that commits edits to the branch it follows."""
    git_server.git("-C", str(git_server.bare), "config", "http.receivepack", "true")
    GitSync.objects.update(edits_branch="main")
    run_pass()
    return call(admin)


def change_service(client: APIClient, **values: Any) -> Any:
    address = f"/api/v1/services/{Service.objects.get().pk}"
    return client.put(address, client.get(address).json() | values, format="json")


def push() -> GitSyncProposal:
    """Make a pass over the newest proposal, as a worker makes it."""
    proposal = GitSyncProposal.objects.latest("created_at")
    now = max(get_database_time(), proposal.due_at or proposal.created_at)
    passes.advance_proposal(str(proposal.pk), now)
    proposal.refresh_from_db()
    return proposal


def read(git_server: GitServer, branch: str, path: str) -> str:
    return git_server.git("-C", str(git_server.bare), "show", f"{branch}:{path}")


def test_an_edit_becomes_a_commit_of_the_followed_branch_and_the_sync_applies_it(
    client: APIClient, run_pass: RunPass, git_server: GitServer, admin: User
) -> None:
    git_server.commit({WEB: f"# Ours\n{COMMENTED}---\n{SERVICE.replace('web', 'more')}"})
    run_pass()
    service = Service.objects.get(identifier="web")
    address = f"/api/v1/services/{service.pk}"

    answer = client.put(address, client.get(address).json() | {"name": "Site"}, format="json")

    assert answer.status_code == 202
    assert answer.json()["state"] == "PENDING"
    assert (answer.json()["branch"], answer.json()["file"]) == ("main", WEB)
    service.refresh_from_db()
    assert (service.name, service.version) == ("Web", 1)
    proposal = push()
    assert (proposal.state, proposal.reason) == ("PUSHED", "")
    expected = COMMENTED.replace("name: Web ", "name: Site ")
    assert read(git_server, "main", WEB) == f"# Ours\n{expected}---\n{SERVICE.replace('web', 'more')}".strip()
    log = git_server.git("-C", str(git_server.bare), "log", "-1", "--format=%H %an %cn%n%B", "main")
    assert log.startswith(f"{proposal.commit} {admin.username} Slipway\nUpdate Service web\n")
    assert f"Slipway-Change: {proposal.pk}" in log
    sync = run_pass()
    assert (sync.state, sync.runs.latest("pk").cause) == ("SYNCED", "PUSH")
    service.refresh_from_db()
    assert service.name == "Site"
    entry = AuditEntry.objects.get(action="gitsync.propose")
    assert (entry.actor, entry.after["file"] if entry.after else "") == (admin, WEB)


def test_a_prefix_gives_each_edit_a_branch_of_its_own(
    client: APIClient, git_server: GitServer, admin: User, browse: Browse
) -> None:
    GitSync.objects.update(edits_branch="slipway/")
    main = git_server.git("-C", str(git_server.bare), "rev-parse", "main")
    assert change_service(client, name="Site").status_code == 202
    proposal = push()
    assert (proposal.state, proposal.branch.startswith("slipway/service-web-")) == ("PUSHED", True)
    assert "name: Site" in read(git_server, proposal.branch, WEB)
    assert git_server.git("-C", str(git_server.bare), "rev-parse", "main") == main
    assert GitSync.objects.get().cause == "POLL"

    page = browse(admin).get(f"/git-syncs/{proposal.sync_id}/").content.decode()
    assert proposal.branch in page
    assert proposal.commit[:12] in page
    assert '<span class="line">+name: Site</span>' in page
    document = client.get(f"/api/v1/git-syncs/{proposal.sync_id}/proposals/{proposal.pk}").json()
    assert (document["state"], document["commit"]) == ("PUSHED", proposal.commit)


def test_forms_commit_an_infrastructure_and_a_pipeline(
    client: APIClient, run_pass: RunPass, git_server: GitServer, admin: User, browse: Browse
) -> None:
    pages, place = browse(admin), Infrastructure.objects.get()
    address = f"/environments/{place.environment_id}/infrastructures/{place.pk}/edit/"
    page = pages.get(address)
    assert "Commit change" in page.content.decode()
    assert "Edits are committed to <code>main</code>" in page.content.decode()
    form = page.context["form"]
    values = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    answer = pages.post(address, values | {"name": "Other"}, follow=True)
    assert (
        "The change is committed to slipway/environments.yaml of the branch main" in answer.content.decode()
    )
    assert push().state == "PUSHED"
    text = read(git_server, "main", "slipway/environments.yaml")
    first, _, second = ENVIRONMENT.partition("---")
    assert text.startswith(f"{first}---")
    assert "name: Other" in text.partition("---")[2]
    assert second not in text

    pipeline = Pipeline.objects.get()
    values = {"yaml": pipeline.yaml.replace("10m", "20m"), "version": pipeline.version}
    pages.post(f"/pipelines/{pipeline.pk}/edit/", values)
    assert push().state == "PUSHED"
    released = git_server.git("-C", str(git_server.bare), "show", "main:slipway/release.yaml")
    assert released == PIPELINE.replace("10m", "20m").strip()
    pipeline.refresh_from_db()
    assert pipeline.version == 1
    assert run_pass().state == "SYNCED"
    pipeline.refresh_from_db()
    assert "20m" in pipeline.yaml


@pytest.fixture
def account_connector(client: APIClient, account_of_git: ServiceAccount) -> Connector:
    """The connector of the infrastructure, which is in the account; the sync may use it."""
    connector = Connector.objects.get(identifier="aws")
    connector.scope = Scope.objects.account()
    connector.save()
    role = Role.objects.get(identifier="account_admin", scope=None)
    RoleAssignment.objects.create(user=account_of_git.user, role=role, scope=connector.scope)
    return connector


def create_nearer(connector: Connector, scope: Scope) -> Connector:
    return Connector.objects.create(
        scope=scope, identifier=connector.identifier, name="Nearer", spec=connector.spec
    )


@pytest.mark.parametrize(("written", "is_shadowed"), [("account.aws", False), ("aws", True)])
def test_an_edit_keeps_the_connector_as_the_file_spells_it(
    client: APIClient, run_pass: RunPass, git_server: GitServer, account_connector: Connector, project: Scope,
    written: str, is_shadowed: bool,
) -> None:  # fmt: skip
    path = "slipway/environments.yaml"
    git_server.commit({path: f"# Ours\n{ENVIRONMENT.replace('aws', written)}"})
    if is_shadowed:
        create_nearer(account_connector, project)
    assert run_pass().state == "SYNCED"
    place = Infrastructure.objects.get()
    address = f"/api/v1/environments/{place.environment_id}/infrastructures/{place.pk}"
    document = client.get(address).json()
    assert document["connector"] == ("account.aws" if is_shadowed else "aws")

    assert client.put(address, document | {"cluster": "other"}, format="json").status_code == 202

    proposal = push()
    assert (proposal.state, proposal.reason) == ("PUSHED", "")
    assert proposal.difference.count("connector") == proposal.difference.count(" connector: account.aws")
    text = read(git_server, "main", path)
    assert f"\n  connector: {written}\n" in text
    assert text.endswith("\n  cluster: other")
    assert run_pass().state == "SYNCED"
    place.refresh_from_db()
    assert (place.cluster, place.connector) == ("other", account_connector)


def post_connector(client: Client, connector: Connector) -> str:
    """Select a connector on the page of the infrastructure, and return the next page."""
    place = Infrastructure.objects.get()
    address = f"/environments/{place.environment_id}/infrastructures/{place.pk}/edit/"
    form = client.get(address).context["form"]
    values = {name: form[name].value() for name in form.fields if form[name].value() is not None}
    return client.post(address, values | {"connector": connector.pk}, follow=True).content.decode()


def test_a_move_to_a_connector_that_no_file_can_name_is_refused(
    account_connector: Connector, project: Scope, admin: User, browse: Browse
) -> None:
    page = post_connector(browse(admin), create_nearer(account_connector, project))
    assert UNNAMEABLE_CONNECTOR.format("aws") in page
    assert not GitSyncProposal.objects.exists()


def test_a_move_to_a_nearer_connector_names_its_level(
    account_connector: Connector, run_pass: RunPass, git_server: GitServer, project: Scope, admin: User,
    browse: Browse,
) -> None:  # fmt: skip
    organization = Scope.objects.get(path=project.path.rpartition("/")[0])
    nearer = create_nearer(account_connector, organization)
    post_connector(browse(admin), nearer)
    assert push().state == "PUSHED"
    assert "connector: org.aws\n" in read(git_server, "main", "slipway/environments.yaml")
    assert run_pass().state == "SYNCED"
    assert Infrastructure.objects.get().connector == nearer


def test_an_edit_of_a_document_that_changed_since_is_refused_with_the_difference(
    client: APIClient, git_server: GitServer
) -> None:
    assert change_service(client, name="Site").status_code == 202
    git_server.commit({WEB: SERVICE.replace("Web", "Theirs")})
    proposal = push()
    assert (proposal.state, proposal.commit) == ("FAILED", "")
    assert "Service web was changed in slipway/services/web.yml" in proposal.reason
    assert "-name: Web\n+name: Theirs" in proposal.difference
    assert "Theirs" in read(git_server, "main", WEB)


@pytest.mark.parametrize("name", ["Site", "Third"])
def test_an_edit_does_not_count_as_made_because_a_merged_branch_still_has_it(
    client: APIClient, run_pass: RunPass, git_server: GitServer, name: str
) -> None:
    GitSync.objects.update(edits_branch="slipway-edits")
    assert change_service(client, name="Site").status_code == 202
    assert push().state == "PUSHED"
    git_server.git("pull", "-q", str(git_server.bare), "slipway-edits")
    git_server.git("push", "-q", str(git_server.bare), "HEAD:refs/heads/main")
    run_pass()
    git_server.commit({WEB: SERVICE.replace("Web", "Shop")})
    run_pass()
    assert change_service(client, name=name).status_code == 202
    proposal = push()
    assert (proposal.state, proposal.commit) == ("FAILED", "")
    assert proposal.reason.startswith("slipway-edits has other values of the Service web than main: merge it")
    assert "-name: Shop\n+name: Site" in proposal.difference
    git_server.git("-C", str(git_server.bare), "branch", "-D", "slipway-edits")
    assert change_service(client, name=name).status_code == 202
    assert push().state == "PUSHED"
    assert f"name: {name}" in read(git_server, "slipway-edits", WEB)


def test_a_push_that_came_first_is_no_fault_if_it_changed_something_else(
    client: APIClient, git_server: GitServer
) -> None:
    assert change_service(client, name="Site").status_code == 202
    theirs = git_server.commit({"README.md": "Theirs"}, branch="theirs")
    hook = git_server.bare / "hooks" / "pre-receive"
    move = f"env -u GIT_QUARANTINE_PATH git update-ref refs/heads/main {theirs}"
    hook.write_text(f"#!/bin/sh\n[ -e moved ] && exit 0\ntouch moved\n{move}\n")
    hook.chmod(0o755)

    assert push().state == "PENDING"

    assert read(git_server, "main", WEB) == SERVICE.strip()
    proposal = push()
    assert (proposal.state, proposal.attempts) == ("PUSHED", 2)
    assert "name: Site" in read(git_server, "main", WEB)
    assert read(git_server, "main", "README.md") == "Theirs"


def test_an_edit_that_waited_in_a_backup_is_not_pushed_after_the_restore(
    client: APIClient, git_server: GitServer
) -> None:
    assert change_service(client, name="Site").status_code == 202
    now = get_database_time()
    assert settle_restored_state(now, {}).git_edits == 1
    assert passes.list_due_proposals(now + timedelta(days=1)) == []
    proposal = push()
    assert (proposal.state, proposal.reason) == ("FAILED", UNPUSHED_REASON)
    assert read(git_server, "main", WEB) == SERVICE.strip()


class Died(BaseException):
    """The end of a worker."""


def test_a_worker_that_dies_after_the_push_makes_no_second_commit(
    client: APIClient, git_server: GitServer
) -> None:
    assert change_service(client, name="Site").status_code == 202

    def die(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if sql.startswith('UPDATE "gitsync_gitsyncproposal"') and "PUSHED" in params:
            raise Died
        return execute(sql, params, many, context)

    with connection.execute_wrapper(die), pytest.raises(Died):
        push()
    pushed = git_server.git("-C", str(git_server.bare), "rev-parse", "main")
    git_server.git("fetch", "-q", str(git_server.bare), "main")
    git_server.git("reset", "-q", "--hard", "FETCH_HEAD")
    git_server.commit({WEB: SERVICE.replace("Web", "Later")})
    GitSyncProposal.objects.update(lease_expires_at=None)

    proposal = push()

    assert (proposal.state, proposal.commit) == ("PUSHED", pushed)
    count = git_server.git("-C", str(git_server.bare), "rev-list", "--count", "--grep=Slipway-Change", "main")
    assert count == "1"


def test_a_push_without_an_answer_is_looked_for_before_it_is_called_failed(
    client: APIClient, git_server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert change_service(client, name="Site").status_code == 202
    call = SiteCaller.call

    def lose_answer(self: SiteCaller, service: str, operation: str, params: Any) -> Any:
        answer = call(self, service, operation, params)
        if operation == PUSH_FILE:
            raise Undelivered("TimedOut", "git did not end within 25 s", service, operation)
        return answer

    with monkeypatch.context() as patch:
        patch.setattr(SiteCaller, "call", lose_answer)
        assert push().state == "PENDING"
    GitSyncProposal.objects.update(due_at=get_database_time())
    proposal = push()
    assert proposal.state == "PUSHED"
    assert proposal.commit == git_server.git("-C", str(git_server.bare), "rev-parse", "main")


def test_a_push_whose_connection_breaks_is_looked_for_until_the_server_can_be_asked(
    client: APIClient, git_server: GitServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    hook = git_server.bare / "hooks" / "post-receive"
    hook.write_text("#!/bin/sh\nkill -9 $PPID\n")
    hook.chmod(0o755)
    assert change_service(client, name="Site").status_code == 202
    proposal = push()
    pushed = git_server.git("-C", str(git_server.bare), "rev-parse", "main")
    assert proposal.state == "PENDING"
    assert "name: Site" in read(git_server, "main", WEB)

    def fail(self: SiteCaller, service: str, operation: str, params: Any) -> Any:
        raise Undelivered("GitFailed", "git ls-remote: the server returned error: 502", service, operation)

    with monkeypatch.context() as patch:
        patch.setattr(SiteCaller, "call", fail)
        assert push().state == "PENDING"
        GitSyncProposal.objects.update(attempts=passes.MOST_ATTEMPTS - 1)
        ended = push()
    assert (ended.state, ended.reason) == (
        "FAILED",
        f"git ls-remote: the server returned error: 502. {passes.LOOK_FIRST}",
    )
    GitSyncProposal.objects.update(state="PENDING", attempts=2, due_at=get_database_time())
    proposal = push()
    assert (proposal.state, proposal.commit) == ("PUSHED", pushed)


def test_the_words_of_a_server_that_refuses_are_the_reason(client: APIClient, git_server: GitServer) -> None:
    hook = git_server.bare / "hooks" / "pre-receive"
    hook.write_text("#!/bin/sh\necho 'GH006: Protected branch update failed' >&2\nexit 1\n")
    hook.chmod(0o755)
    assert change_service(client, name="Site").status_code == 202
    proposal = push()
    assert proposal.state == "FAILED"
    assert "GH006: Protected branch update failed" in proposal.reason
    assert "pre-receive hook declined" in proposal.reason
    hook.unlink()
    git_server.git("-C", str(git_server.bare), "config", "http.receivepack", "false")
    assert change_service(client, name="Site").status_code == 202
    assert "403" in push().reason


GITLAB_REFUSAL = """remote:
remote: ========================================================================
remote:
remote: ERROR: You are not allowed to push code to this project.
remote:
remote: ========================================================================
remote:
"""


@pytest.mark.parametrize(
    ("said", "state", "reason"),
    [
        (
            "ERROR: The key you are authenticating with has been marked as read only.\n",
            "FAILED",
            "ERROR: The key you are authenticating with has been marked as read only.",
        ),
        (
            "ERROR: Permission to team/app.git denied to deploy.\n",
            "FAILED",
            "ERROR: Permission to team/app.git denied to deploy.",
        ),
        (GITLAB_REFUSAL, "FAILED", "ERROR: You are not allowed to push code to this project."),
        ("", "PENDING", ""),
        ("Connection closed by remote host\n", "PENDING", ""),
    ],
)
def test_a_refusal_over_ssh_fails_at_once_and_a_lost_connection_is_tried_again(
    client: APIClient, git_sync: GitSync, ssh_server: SshServer, said: str, state: str, reason: str
) -> None:
    push_over_ssh(git_sync, ssh_server)
    ssh_server.refuse_pushes(said)
    assert change_service(client, name="Site").status_code == 202
    proposal = push()
    assert (proposal.state, proposal.reason) == (state, reason)


def test_the_words_of_a_server_are_kept_if_they_may_not_be_a_refusal(
    client: APIClient, git_sync: GitSync, ssh_server: SshServer
) -> None:
    push_over_ssh(git_sync, ssh_server)
    ssh_server.refuse_pushes(GITLAB_REFUSAL.replace("ERROR: ", ""))
    assert change_service(client, name="Site").status_code == 202
    GitSyncProposal.objects.update(attempts=passes.MOST_ATTEMPTS - 1)
    proposal = push()
    assert proposal.state == "FAILED"
    assert "You are not allowed to push code to this project." in proposal.reason
    assert proposal.reason.endswith(passes.LOOK_FIRST)


def push_over_ssh(git_sync: GitSync, ssh_server: SshServer) -> None:
    """Have the connector of a sync use SSH."""
    connector = git_sync.connector
    assert connector is not None
    connector.spec = {"url": ssh_server.url, "authentication": "SshKey"}
    # What follows the key is no part of it.
    key = f"{ssh_server.key}{planted('comment')}\n"
    connector.secret = Secret.objects.create(scope=connector.scope, identifier="key", name="Key", value=key)
    connector.save()


def test_the_credentials_of_the_connector_push_over_https_and_ssh(
    client: APIClient, git_sync: GitSync, git_server: GitServer, ssh_server: SshServer
) -> None:
    connector = git_sync.connector
    assert connector is not None
    ways = [
        (git_server.private_url, {"authentication": "UsernamePassword", "username": USERNAME}, PASSWORD),
        # What follows the key is no part of it.
        (ssh_server.url, {"authentication": "SshKey"}, f"{ssh_server.key}{planted('comment')}\n"),
    ]
    before = Service.objects.get().name
    for number, (url, spec, value) in enumerate(ways):
        connector.spec = {"url": url, **spec}
        connector.secret = Secret.objects.create(
            scope=connector.scope, identifier=f"s{number}", name="S", value=value
        )
        connector.save()
        GitSync.objects.update(edits_branch=f"edit-{number}")
        assert change_service(client, name=f"Site {number}").status_code == 202
        proposal = push()
        assert (proposal.state, proposal.reason) == ("PUSHED", "")
        assert f"name: Site {number}" in read(git_server, f"edit-{number}", WEB)
    assert Service.objects.get().name == before

    ssh_server.renew()
    assert change_service(client, name="Site 2").status_code == 202
    assert "host key of 127.0.0.1 has changed" in push().reason


def test_the_command_line_names_the_branch_of_a_committed_change(client: APIClient, admin: User) -> None:
    api = LocalApiClient(admin)
    documents = list(parse_documents(SERVICE.replace("Web", "Site"), "web.yml", "default/demo"))
    (applied,) = apply_plan(api, build_plan(api, documents))
    assert applied.branch == "main"
    assert Service.objects.get().name == "Web"


def test_who_may_not_edit_the_resource_proposes_nothing(
    client: APIClient, viewer: User, call: Call, git_sync: GitSync
) -> None:
    assert change_service(call(viewer), name="Site").status_code == 403
    assert client.delete(f"/api/v1/services/{Service.objects.get().pk}").json()["code"] == "managed_elsewhere"
    assert not GitSyncProposal.objects.exists()


def test_a_connector_with_delegates_cannot_push(client: APIClient, git_sync: GitSync) -> None:
    assert change_service(client, name="Site").status_code == 202
    connector = git_sync.connector
    assert connector is not None
    connector.spec |= {"connect_through": "Delegate", "delegate_selectors": ["net"]}
    connector.save(update_fields=["spec"])
    assert push().reason == passes.NO_DELEGATES
    rows = {"connector": connector.pk, "service_account": git_sync.service_account_id}
    body = {"name": "Demo", "branch": "main", "folder": "slipway", "edits_branch": "main", **rows}
    answer = client.put(f"/api/v1/git-syncs/{git_sync.pk}", body, format="json")
    assert answer.json()["errors"] == [{"path": "edits_branch", "message": passes.NO_DELEGATES}]


@pytest.mark.parametrize("branch", ["a..b", "/", "x//", "a b", "-x", "x.lock/"])
def test_the_branch_of_edits_has_a_name_that_git_accepts(
    client: APIClient, git_sync: GitSync, branch: str
) -> None:
    rows = {"connector": git_sync.connector_id, "service_account": git_sync.service_account_id}
    body = {"name": "Demo", "branch": "main", "folder": "slipway", "edits_branch": branch, **rows}
    answer = client.put(f"/api/v1/git-syncs/{git_sync.pk}", body, format="json")
    assert [error["path"] for error in answer.json()["errors"]] == ["edits_branch"]


def test_a_change_that_a_save_refuses_is_no_proposal(client: APIClient) -> None:
    assert change_service(client, name="").status_code == 400
    assert change_service(client, artifact={"image": "-", "tag": "1"}).status_code == 400
    assert change_service(client).status_code == 400
    assert not GitSyncProposal.objects.exists()
