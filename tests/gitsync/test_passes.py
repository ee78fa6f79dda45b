"""Passes over a Git sync, against a real Git server."""

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.db.models import F

from catalog.models import Environment, Service
from connectors.operations import delete_connector
from gitsync.models import GitSync, GitSyncResource, GitSyncRun
from gitsync.operations import GitSyncSpec, request_sync, update_git_sync
from gitsync.passes import LeaseLost, SyncPass, advance_sync
from notifications.models import NotificationRule
from pipelines.models import Pipeline
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from tests.fixtures.git import GitServer
from tests.gitsync.conftest import ENVIRONMENT, SERVICE, RunPass, change_while_disabled
from web.clock import get_database_time
from web.http.problems import ResourceInUse

pytestmark = pytest.mark.django_db


def list_states(sync: GitSync) -> dict[str, str]:
    return {str(row): row.state for row in sync.resources.order_by("path", "line")}


def get_last_run(sync: GitSync) -> GitSyncRun:
    return sync.runs.latest("pk")


def test_a_commit_brings_its_resources_in_once(run_pass: RunPass, git_server: GitServer) -> None:
    sync = run_pass()

    commit = git_server.git("rev-parse", "HEAD")
    assert (sync.state, sync.seen_commit, sync.applied_commit) == ("SYNCED", commit, commit)
    assert Service.objects.get().artifact.tag == "1.28"
    assert Pipeline.objects.get().identifier == "release"
    assert list_states(sync) == {
        "Environment test": "SYNCED",
        "Infrastructure test/main": "SYNCED",
        "Pipeline release": "SYNCED",
        "Service web": "SYNCED",
    }
    assert sync.resources.get(kind="Service").path == "slipway/services/web.yml"
    entry = AuditEntry.objects.get(action="service.create")
    assert (entry.source, entry.actor) == ("git", sync.service_account.user if sync.service_account else None)
    run_pass()
    assert sync.runs.count() == 1


def test_a_fault_in_one_file_changes_nothing_and_names_its_place(
    run_pass: RunPass, git_server: GitServer, rule_of_git_syncs: NotificationRule
) -> None:
    applied = run_pass().applied_commit
    git_server.commit(
        {
            "slipway/environments.yaml": ENVIRONMENT.replace("Test}", "Renamed}"),
            "slipway/services/web.yml": SERVICE.replace("image: nginx", "image: -"),
        }
    )

    sync = run_pass()

    assert (sync.state, sync.applied_commit) == ("FAILED", applied)
    assert Environment.objects.get().name == "Test"
    fault = get_last_run(sync).faults[0]
    assert (fault["file"], fault["line"]) == ("slipway/services/web.yml", 5)
    assert "artifact.image" in fault["message"]
    run_pass()
    assert sync.runs.count() == 2
    git_server.commit({"slipway/services/web.yml": SERVICE})
    assert run_pass().state == "SYNCED"
    assert Environment.objects.get().name == "Renamed"
    events = rule_of_git_syncs.notifications.order_by("created_at").values_list("event", flat=True)
    assert list(events) == ["gitsync.failed", "gitsync.recovered"]


def test_a_change_in_slipway_is_shown_as_drift_until_someone_syncs(run_pass: RunPass, admin: User) -> None:
    sync = run_pass()
    change_while_disabled(sync, admin)

    assert run_pass().state == "OUT_OF_SYNC"
    row = sync.resources.get(kind="Environment")
    assert (row.state, "-name: By hand\n+name: Test" in row.difference) == ("OUT_OF_SYNC", True)
    assert Environment.objects.get().name == "By hand"

    request_sync(actor=admin, sync=sync)
    assert run_pass().state == "SYNCED"
    assert Environment.objects.get().name == "Test"
    run = get_last_run(sync)
    assert (run.requested_by, run.cause) == (admin, "PERSON")
    assert sync.cause == "POLL"


def test_true_and_the_number_1_are_two_values(run_pass: RunPass, git_server: GitServer) -> None:
    run_pass()
    for written, value in (("true", True), ("1", 1), ("false", False), ("0", 0)):
        text = ENVIRONMENT.replace("{name: Test}", f"{{name: Test, variables: {{debug: {written}}}}}")
        git_server.commit({"slipway/environments.yaml": text})
        assert run_pass().state == "SYNCED"
        assert Environment.objects.get().variables["debug"] is value


def test_who_syncs_during_a_pass_is_named_by_the_next_one(
    run_pass: RunPass, git_sync: GitSync, admin: User
) -> None:
    under_way = GitSync.objects.select_related("scope", "connector", "service_account__user").get()
    request_sync(actor=admin, sync=git_sync)
    SyncPass(under_way, get_database_time()).perform()
    assert get_last_run(git_sync).requested_by is None
    run = get_last_run(run_pass())
    assert (git_sync.runs.count(), run.requested_by, run.cause) == (2, admin, "PERSON")


def test_a_removed_document_deletes_its_resource_only_with_pruning(
    run_pass: RunPass, git_server: GitServer
) -> None:
    sync = run_pass()
    git_server.git("rm", "-q", "slipway/release.yaml")
    git_server.commit({"slipway/more.yaml": SERVICE.replace("web", "more")})

    assert run_pass().state == "SYNCED"
    assert list_states(sync)["Pipeline release"] == "REMOVED"
    assert Pipeline.objects.filter(deleted_at=None).exists()

    GitSync.objects.update(prunes=True, is_requested=True)
    run_pass()
    assert not Pipeline.objects.filter(deleted_at=None).exists()
    assert get_last_run(sync).deleted == 1
    assert "Pipeline release" not in list_states(sync)
    assert Service.objects.count() == 2


def test_the_rights_are_those_of_the_service_account(run_pass: RunPass) -> None:
    RoleAssignment.objects.filter(user__kind="SERVICE_ACCOUNT").delete()

    sync = run_pass()

    assert sync.state == "FAILED"
    fault = get_last_run(sync).faults[0]["message"]
    assert "The service account needs core_connector_access on the connector repository." in fault
    assert not Service.objects.exists()


def test_a_permission_that_is_missing_is_told_of_the_service_account(run_pass: RunPass) -> None:
    role = Role.objects.get(identifier="pipeline_executor", scope=None)
    RoleAssignment.objects.filter(user__kind="SERVICE_ACCOUNT").update(role=role)

    run = get_last_run(run_pass())

    messages = [fault["message"] for fault in run.faults]
    assert any(
        f"The service account {run.sync.service_account} needs core_service_edit. Give it a role" in message
        for message in messages
    )
    assert not any("whoami" in message or "You need" in message for message in messages)
    assert not Service.objects.exists()


def test_two_workers_exclude_each_other_and_a_late_one_changes_nothing(git_sync: GitSync) -> None:
    now = get_database_time() + timedelta(minutes=1)
    GitSync.objects.update(lease_expires_at=now + timedelta(seconds=30))
    assert not advance_sync(git_sync.pk, now)
    # This worker was claimed before the lease of the other one ended.
    late = GitSync.objects.select_related("scope", "connector", "service_account__user").get()
    GitSync.objects.update(fence=F("fence") + 1)

    with pytest.raises(LeaseLost):
        SyncPass(late, now).perform()

    assert not Environment.objects.exists()
    assert not git_sync.runs.exists()
    assert advance_sync(git_sync.pk, now + timedelta(minutes=1))
    assert git_sync.runs.count() == 1
    assert Environment.objects.count() == 1


class Died(BaseException):
    """The end of a worker."""


def test_a_worker_that_dies_within_the_plan_leaves_nothing_and_is_repeated(
    git_sync: GitSync, run_pass: RunPass
) -> None:
    def die(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        # One of the last statements of the plan: all resources were written before it.
        if sql.startswith('INSERT INTO "gitsync_gitsyncrun"'):
            raise Died
        return execute(sql, params, many, context)

    with connection.execute_wrapper(die), pytest.raises(Died):
        run_pass()

    assert not Environment.objects.exists()
    assert not GitSyncResource.objects.exists()
    GitSync.objects.update(lease_expires_at=None)
    assert run_pass().state == "SYNCED"
    assert Environment.objects.count() == 1


def test_a_connector_of_a_sync_cannot_be_deleted(git_sync: GitSync, admin: User) -> None:
    assert git_sync.connector is not None
    with pytest.raises(ResourceInUse, match="Git sync Demo"):
        delete_connector(actor=admin, connector=git_sync.connector)


def test_a_resource_follows_one_sync(
    run_pass: RunPass, git_sync: GitSync, admin: User, project: Scope
) -> None:
    run_pass()
    other = GitSync.objects.create(
        scope=project, identifier="other", name="Other", connector=git_sync.connector, branch="main",
        folder="slipway", service_account=git_sync.service_account, due_at=get_database_time(),
    )  # fmt: skip

    advance_sync(other.pk, get_database_time())

    assert "the Git sync Demo manages" in get_last_run(other).faults[0]["message"]
    assert not GitSyncResource.objects.filter(sync=other).exists()


def test_an_unreachable_repository_is_named_with_the_next_step(run_pass: RunPass, git_sync: GitSync) -> None:
    GitSync.objects.update(branch="gone")
    sync = run_pass()
    assert sync.state == "FAILED"
    assert "gone" in get_last_run(sync).faults[0]["message"]


def test_an_edit_during_a_pass_takes_it_away(git_sync: GitSync, admin: User) -> None:
    now = get_database_time() + timedelta(minutes=1)
    under_way = GitSync.objects.select_related("scope", "connector", "service_account__user").get()
    spec = GitSyncSpec("Demo", git_sync.connector, git_sync.service_account, branch="main", folder="other")
    update_git_sync(actor=admin, sync=GitSync.objects.get(), spec=spec)

    with pytest.raises(LeaseLost):
        SyncPass(under_way, now).perform()

    assert not Environment.objects.exists()
    assert GitSync.objects.get().applied_commit == ""
