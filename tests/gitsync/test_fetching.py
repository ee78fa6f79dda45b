"""Fetching of a followed folder: hostile repositories, other files, and delegates."""

import pytest

from catalog.models import Environment
from delegates.models import LookupRequest
from gitsync.models import GitSync, GitSyncRun
from gitsync.operations import request_sync, set_up_hook
from gitsync.passes import SyncPass
from guards.limits import GIT_FILE_BYTES
from rbac.models import User
from rbac.operations.scopes import archive_scope
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import GitServer
from tests.gitsync.conftest import ENVIRONMENT, RunPass, send_push
from web.clock import get_database_time

pytestmark = pytest.mark.django_db


def get_fault(sync: GitSync) -> str:
    return str(sync.runs.latest("pk").faults[0]["message"])


def test_links_and_other_files_are_left_out(run_pass: RunPass, git_server: GitServer) -> None:
    (git_server.work / "slipway" / "passwd.yaml").symlink_to("/etc/passwd")
    (git_server.work / "slipway" / "logo.png").write_bytes(b"\x89PNG\0" * 100_000)
    git_server.commit({"slipway/escape.yaml.md": "kind: ["})

    sync = run_pass()

    assert sync.state == "SYNCED", get_fault(sync)
    assert not sync.resources.filter(path__contains="passwd").exists()


def test_a_huge_file_is_refused_before_it_is_parsed(run_pass: RunPass, git_server: GitServer) -> None:
    git_server.commit({"slipway/huge.yaml": "a: b\n" * (GIT_FILE_BYTES // 5 + 1)})

    sync = run_pass()

    assert (sync.state, sync.applied_commit) == ("FAILED", "")
    assert "slipway/huge.yaml is too large" in get_fault(sync)
    assert not Environment.objects.exists()


def test_a_file_in_another_encoding_is_refused_with_its_name(
    run_pass: RunPass, git_server: GitServer
) -> None:
    (git_server.work / "slipway" / "latin.yaml").write_bytes(
        ENVIRONMENT.replace("Test", "Größe").encode("latin-1")
    )
    git_server.commit({})

    sync = run_pass()

    assert (sync.state, sync.applied_commit) == ("FAILED", "")
    assert "slipway/latin.yaml is not UTF-8" in get_fault(sync)
    assert not Environment.objects.exists()


def use_delegates(git_sync: GitSync) -> None:
    """Have the repository fetched by delegates with the tag net."""
    connector = git_sync.connector
    assert connector is not None
    connector.spec |= {"connect_through": "Delegate", "delegate_selectors": ["net"]}
    connector.save(update_fields=["spec"])


def test_a_delegate_fetches_the_files_if_the_connector_says_so(
    run_pass: RunPass, git_sync: GitSync, git_server: GitServer
) -> None:
    use_delegates(git_sync)
    agent = hand("net-1", tags=("net",))

    assert run_pass().state == "PENDING"
    assert not GitSyncRun.objects.exists()
    agent.serve()
    assert run_pass().state == "SYNCED"
    assert Environment.objects.count() == 1

    git_server.commit({"slipway/environments.yaml": ENVIRONMENT.replace("Test}", "Renamed}")})
    run_pass()
    agent.serve()
    run_pass()
    assert Environment.objects.get().name == "Renamed"
    assert LookupRequest.objects.count() == 2

    git_sync.refresh_from_db()
    GitSync.objects.update(branch="gone")
    run_pass()
    agent.serve()
    assert run_pass().state == "FAILED"
    assert "gone" in get_fault(git_sync)


def test_a_request_uses_no_fetch_of_a_delegate_from_before_it(
    run_pass: RunPass, git_sync: GitSync, git_server: GitServer, admin: User
) -> None:
    use_delegates(git_sync)
    agent = hand("net-1", tags=("net",))
    run_pass()
    agent.serve()
    git_server.commit({"slipway/environments.yaml": ENVIRONMENT.replace("Test}", "Renamed}")})
    request_sync(actor=admin, sync=git_sync)
    assert run_pass().state == "PENDING", "it fetches again"
    agent.serve()
    assert run_pass().state == "SYNCED"
    assert Environment.objects.get().name == "Renamed"

    under_way = GitSync.objects.select_related("scope", "connector", "service_account__user").get()
    request_sync(actor=admin, sync=git_sync)
    SyncPass(under_way, get_database_time()).perform()
    assert GitSync.objects.get().lookup is None, "the pass began its fetch before the request"


def test_a_branch_that_is_pushed_during_each_fetch_is_synced_and_fetched_again(
    run_pass: RunPass, git_sync: GitSync, git_server: GitServer, admin: User
) -> None:
    use_delegates(git_sync)
    agent = hand("net-1", tags=("net",))
    hook, secret = set_up_hook(actor=admin, sync=git_sync, provider="github")
    run_pass()
    for number in range(3):
        commit = git_server.commit({"slipway/note.md": str(number)})
        assert send_push(hook.key, secret).status_code == 202
        assert run_pass().cause == "PUSH"
        assert LookupRequest.objects.filter(finished_at=None).count() == 1
        agent.serve()
        assert run_pass().seen_commit == commit
        sync = run_pass()
        assert (sync.cause, sync.lookup is None) == ("PUSH", False), "the push may have come too late"
    agent.serve()
    sync = run_pass()
    assert (sync.cause, sync.lookup, sync.seen_commit) == ("POLL", None, commit)
    assert LookupRequest.objects.count() == 4


def test_a_push_to_a_sync_of_an_archived_scope_makes_no_further_passes(
    run_pass: RunPass, git_sync: GitSync, admin: User
) -> None:
    use_delegates(git_sync)
    hand("net-1", tags=("net",))
    hook, secret = set_up_hook(actor=admin, sync=git_sync, provider="github")
    run_pass()
    archive_scope(actor=admin, scope=git_sync.scope)
    send_push(hook.key, secret)
    assert run_pass().cause == "POLL"


def test_a_push_during_a_pass_keeps_the_fetch_that_the_pass_begins(
    run_pass: RunPass, git_sync: GitSync, admin: User
) -> None:
    use_delegates(git_sync)
    agent = hand("net-1", tags=("net",))
    hook, secret = set_up_hook(actor=admin, sync=git_sync, provider="github")
    under_way = GitSync.objects.select_related("scope", "connector", "service_account__user").get()
    send_push(hook.key, secret)
    SyncPass(under_way, get_database_time()).perform()
    assert GitSync.objects.get().lookup == LookupRequest.objects.get()
    agent.serve()
    assert run_pass().state == "SYNCED"
