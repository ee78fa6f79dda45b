"""Documents that move to the folder of another sync: it takes their resources over."""

import pytest

from catalog.models import Environment, Service, ServiceOverride
from catalog.operations import OverrideSpec, override_service
from gitsync.models import GitSync
from gitsync.operations import GitSyncSpec, create_git_sync
from gitsync.passes import advance_sync
from rbac.models import Scope, ServiceAccount, User
from tests.fixtures.git import GitServer
from tests.gitsync.conftest import SERVICE, RunPass
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
API = SERVICE.replace("web", "api").replace("Web", "Api")


@pytest.fixture
def second_sync(
    run_pass: RunPass,
    git_sync: GitSync,
    git_server: GitServer,
    admin: User,
    project: Scope,
    account_of_git: ServiceAccount,
) -> GitSync:
    """A sync of a second folder, and an override of the service api in the first one; both delete."""
    git_server.commit({"slipway/services/api.yml": API, "second/readme.yaml": "# nothing\n"})
    run_pass()
    api, environment = Service.objects.get(identifier="api"), Environment.objects.get()
    spec = OverrideSpec(variables={"level": "debug"})
    override_service(actor=admin, service=api, environment=environment, infrastructure=None, spec=spec)
    sync_spec = GitSyncSpec("Second", git_sync.connector, account_of_git, branch="main", folder="second")
    second = create_git_sync(actor=admin, scope=project, identifier="second", spec=sync_spec)
    GitSync.objects.update(prunes=True)
    advance(second)
    return second


def advance(*syncs: GitSync) -> None:
    for sync in syncs:
        GitSync.objects.filter(pk=sync.pk).update(due_at=get_database_time())
        advance_sync(sync.pk, get_database_time())


@pytest.mark.parametrize("is_reversed", [False, True])
def test_a_folder_that_is_split_into_two_syncs_keeps_resources_and_their_overrides(
    git_sync: GitSync, second_sync: GitSync, git_server: GitServer, is_reversed: bool
) -> None:
    before = Service.objects.get(identifier="api")
    git_server.git("mv", "slipway/services/api.yml", "second/api.yml")
    git_server.commit({})

    for _ in range(2):
        advance(*((second_sync, git_sync) if is_reversed else (git_sync, second_sync)))
    advance(git_sync)

    assert [sync.state for sync in GitSync.objects.order_by("pk")] == ["SYNCED", "SYNCED"]
    assert Service.objects.get(identifier="api").pk == before.pk
    assert ServiceOverride.objects.count() == 1
    assert second_sync.resources.get().resource == "api"
    assert not git_sync.resources.filter(resource="api").exists()


@pytest.mark.parametrize("obstacle", ["account", "disabled"])
def test_a_sync_that_cannot_read_the_commit_holds_no_deletion_back(
    git_sync: GitSync, second_sync: GitSync, git_server: GitServer, obstacle: str
) -> None:
    git_server.git("mv", "slipway/services/api.yml", "second/api.yml")
    git_server.commit({})
    if obstacle == "disabled":
        GitSync.objects.filter(pk=second_sync.pk).update(is_enabled=False, due_at=None)
    else:
        GitSync.objects.filter(pk=second_sync.pk).update(service_account=None)
        advance(git_sync)
        assert Service.objects.filter(identifier="api").exists(), "it waits for the other sync"
        advance(second_sync)

    advance(git_sync)

    assert not Service.objects.filter(identifier="api").exists()


def test_a_claim_ends_with_the_document(
    git_sync: GitSync, second_sync: GitSync, git_server: GitServer
) -> None:
    git_server.commit({"second/api.yml": API})
    advance(second_sync)
    second_sync.refresh_from_db()
    assert (second_sync.state, len(second_sync.claims)) == ("FAILED", 1)

    git_server.git("rm", "-q", "second/api.yml", "slipway/services/api.yml")
    git_server.commit({})
    advance(second_sync, git_sync)

    second_sync.refresh_from_db()
    assert (second_sync.state, second_sync.claims) == ("SYNCED", [])
    assert not Service.objects.filter(identifier="api").exists()
