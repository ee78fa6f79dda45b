"""Deployments whose manifests lie in Git: fetched when the run comes there, pinned to one commit."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from pytest_django import Settings

from catalog.manifests.fetching import fetch_groups
from catalog.models import Environment
from catalog.operations import ManifestSpec, OverrideSpec, override_service
from connectors.models import Connector
from connectors.operations import delete_connector
from connectors.required_access import MissingAccess
from delegates.access.site_calls import run_site_call_locally
from delegates.models import DelegateTask, LookupRequest
from delegates.task_owners import register_task_owner
from deployments.execution.operations import retry_execution
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.call_owner import CallOwner
from deployments.journal.runtime import set_hook
from deployments.models import Execution, PreviewRequest, StageExecution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from guards.address_policy import AddressPolicy
from policies.models import PolicyRule
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.permissions import PERMISSIONS
from steps.actions.base import ActionFailed
from tests.catalog.manifests.stores.conftest import TASK, Move, create_git_connector, texts
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import GitServer
from tests.fixtures.people import make_person
from tests.fixtures.worker_crashes import Countdown
from web.http.problems import BadInput, Conflict

pytestmark = pytest.mark.django_db(transaction=True)
MAIN = {"connector": "shop", "branch": "main"}


def list_commits(execution: Execution) -> set[str]:
    """Return the commits to which the stages of an execution are pinned."""
    stages = StageExecution.objects.filter(execution=execution)
    return {source.get("commit", "") for stage in stages for source in stage.sources}


def get_failure(execution: Execution) -> dict[str, str]:
    """Return the failure of an execution."""
    assert execution.failure is not None, execution.status
    return dict(execution.failure)


def test_a_service_is_deployed_from_a_repository(drive: Drive, git_server: GitServer, move: Move) -> None:
    commit = git_server.commit(texts())
    create_git_connector(git_server.private_url, is_private=True)
    move("Git", MAIN)
    execution = drive.run("1.27")
    log = drive.log(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), log[-5:]
    for line in (
        "Fetching EcsTaskDefinition from Git",
        "Fetching EcsTaskDefinition files with identifier: task def",
        f"Using commit {commit[:12]} of the branch main of shop",
        "- /ecs/task.yaml",
        "Fetched all manifests from Git",
    ):
        assert line in log, line
    # One fetch for both: they are of one commit.
    assert execution.calls.filter(operation="FetchFiles").count() == 1
    assert list_commits(execution) == {commit}


def test_a_retry_goes_on_with_the_commit_that_the_run_began_with(
    drive: Drive, git_server: GitServer, move: Move
) -> None:
    files = texts()
    first = git_server.commit(files | {"ecs/service.yaml": files["ecs/service.yaml"] + "\nnonsense: 1\n"})
    create_git_connector(git_server.url)
    move("Git", MAIN)
    execution = drive.run("1.27")
    assert get_failure(execution)["code"] == "BAD_MANIFEST"
    assert "ecs/service.yaml, line" in get_failure(execution)["message"]
    git_server.commit(files)
    retry_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert get_failure(execution)["code"] == "BAD_MANIFEST"
    assert list_commits(execution) == {first}
    second_execution = drive.run("1.27")
    assert second_execution.status == "SUCCESS"
    assert list_commits(second_execution) != {first}


def test_a_policy_rule_refuses_files_that_only_the_run_can_see(
    drive: Drive, git_server: GitServer, move: Move
) -> None:
    git_server.commit(texts())
    create_git_connector(git_server.url)
    service = move("Git", MAIN)
    PolicyRule.objects.create(
        scope=service.scope,
        identifier="families",
        name="Families",
        subject="Manifest",
        condition="kind != 'EcsTaskDefinition' || manifest.family == 'other'",
        message="Rename the family.",
        effect="REFUSE",
    )
    failure = get_failure(drive.run("1.27"))
    assert failure["code"] == "POLICY_VIOLATED"
    assert failure["message"].endswith("Rename the family.")


def test_a_tag_may_be_chosen_by_a_variable(drive: Drive, git_server: GitServer, move: Move) -> None:
    git_server.commit(texts())
    git_server.tag("v1")
    git_server.commit({"ecs/task.yaml": "broken: true\n"})
    create_git_connector(git_server.url)
    service = move("Git", {"connector": "shop", "tag": "<+serviceVariables.release>"})
    service.variables = {"release": "v1"}
    service.save()
    execution = drive.run("1.27")
    assert execution.status == "SUCCESS", execution.failure


@pytest.mark.parametrize(
    ("location", "path", "code", "message"),
    [
        ({"branch": "nowhere"}, "/ecs/task.yaml", "GIT_FAILED", "Push this branch or tag"),
        ({"branch": "main"}, "/ecs/tusk.yaml", "GIT_FAILED", "here is no file ecs/tusk.yaml in commit"),
        ({"tag": "<+serviceVariables.nothing>"}, "/ecs/task.yaml", "UNKNOWN_EXPRESSION", "task def"),
    ],
)
def test_what_cannot_be_fetched_is_named(
    drive: Drive,
    git_server: GitServer,
    move: Move,
    location: dict[str, str],
    path: str,
    code: str,
    message: str,
) -> None:
    git_server.commit(texts())
    create_git_connector(git_server.url)
    move("Git", {"connector": "shop", **location}, task=path)
    failure = get_failure(drive.run("1.27"))
    assert failure["code"] == code
    assert message in failure["message"]


def test_nothing_private_is_asked_from_here_unless_that_is_set(
    drive: Drive, git_server: GitServer, move: Move, settings: Settings
) -> None:
    git_server.commit(texts())
    create_git_connector(git_server.url.replace("127.0.0.1", "localhost"))
    move("Git", MAIN)
    settings.OUTGOING_REACH = AddressPolicy()
    assert get_failure(drive.run("1.27"))["code"] == "ADDRESS_REFUSED"


def test_a_delegate_fetches_where_the_connector_says_so(
    drive: Drive, git_server: GitServer, move: Move
) -> None:
    commit = git_server.commit(texts())
    remote = {"connect_through": "Delegate", "delegate_selectors": ["net"]}
    create_git_connector(git_server.private_url, is_private=True, **remote)
    move("Git", MAIN)
    hand_agent = hand("net-1", tags=("net",))
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    try:
        execution = drive.start("1.27")
        while not execution.is_over:
            drive.reconcile()
            if not hand_agent.serve():
                drive.pass_time(1)
            execution.refresh_from_db()
    finally:
        register_task_owner(CALL_OWNER, CallOwner())
    assert execution.status == "SUCCESS", execution.failure
    assert hand_agent.taken_operations == ["git"]
    assert list_commits(execution) == {commit}


def test_a_text_in_which_an_earlier_agent_replaced_characters_is_refused() -> None:
    row = {"store": "Git", "identifier": "task", "connector_id": 1, "place": MAIN, "paths": ["task.yaml"]}
    files = {"task.yaml": "family: Gr\ufffd\ufffde"}
    with pytest.raises(ActionFailed, match=r"task\.yaml: Line 1, column 11: this is not UTF-8"):
        list(fetch_groups([row], [[0]], {}, lambda _: {"files": files}))


def test_a_delegate_that_cannot_reach_the_repository_leaves_it_to_another_one(
    drive: Drive, git_server: GitServer, move: Move
) -> None:
    commit = git_server.commit(texts())
    create_git_connector(git_server.url, connect_through="Delegate", delegate_selectors=["net"])
    move("Git", MAIN)
    far = hand("far", tags=("net",))
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    try:
        execution = drive.start("1.27")
        while not DelegateTask.objects.exists():
            drive.pass_time(1)
        near = hand("near", tags=("net",), hostname="ip-10-0-1-8")
        far.refuse("no connection to the repository")
        while not execution.is_over:
            drive.pass_time(1)
            near.serve()
            execution.refresh_from_db()
    finally:
        register_task_owner(CALL_OWNER, CallOwner())
    assert execution.status == "SUCCESS", execution.failure
    assert list_commits(execution) == {commit}
    assert "no connection to the repository. Another delegate gets this task." in " ".join(
        drive.log(execution)
    )


def test_an_override_may_lie_in_another_branch(
    drive: Drive, git_server: GitServer, move: Move, browse: Callable[[User], Client]
) -> None:
    git_server.commit(texts())
    git_server.commit({"ecs/more.yaml": "cpu: '512'\nmemory: '1024'\n"}, branch="dev")
    create_git_connector(git_server.url)
    service = move("Git", MAIN)
    dev = {"connector": "shop", "branch": "dev"}
    override_service(
        actor=User.objects.get(username="admin"),
        environment=Environment.objects.get(identifier="dev"),
        service=service,
        spec=OverrideSpec({}, [ManifestSpec("more", TASK, "Git", ("ecs/more.yaml",), place=dev)]),
    )
    page = browse(User.objects.get(username="admin")).get(
        f"/environments/{Environment.objects.get(identifier='dev').pk}/services/{service.pk}/manifests/"
    )
    assert "the branch main of shop and the branch dev of shop" in page.content.decode()
    execution = drive.run("1.27")
    assert execution.status == "SUCCESS", execution.failure
    assert "Overridden by more of the environment" in drive.log(execution)


@pytest.mark.parametrize(
    ("location", "message"),
    [
        ({"branch": "main"}, "needs the connector"),
        ({"connector": "shop"}, "names one of branch, tag, commit"),
        ({"connector": "shop", "branch": "main", "tag": "v1"}, "names one of"),
        ({"connector": "shop", "branch": "--upload-pack=id"}, "not the name of a branch"),
        ({"connector": "shop", "commit": "abc123"}, "whole hash"),
        ({"connector": "other", "branch": "main"}, "no connector other"),
        ({"connector": "sandbox_aws", "branch": "main"}, "no connector sandbox_aws"),
        ({"connector": "shop", "branch": "main", "bucket": "b"}, "unknown key bucket of place"),
    ],
)
def test_a_place_that_cannot_be_is_refused_at_once(
    drive: Drive, move: Move, location: dict[str, str], message: str
) -> None:
    create_git_connector("https://git.example.com/shop.git")
    with pytest.raises(BadInput) as error:
        move("Git", location)
    assert message in str(error.value.errors)


def test_who_may_not_use_the_connector_can_neither_name_it_nor_run_it(drive: Drive, move: Move) -> None:
    create_git_connector("https://git.example.com/shop.git")
    move("Git", MAIN)
    scope = Scope.objects.get(path="account/default/demo")
    role = Role.objects.create(scope=scope, identifier="some", name="Some")
    role.set_permissions(set(PERMISSIONS) - {"core_connector_access"})
    outsider = make_person("outsider")
    RoleAssignment.objects.create(user=outsider, role=role, scope=scope)
    with pytest.raises(MissingAccess, match="core_connector_access on the connector shop"):
        move("Git", MAIN, actor=outsider)
    drive.deployer = outsider
    with pytest.raises(MissingAccess) as error:
        drive.start("1.27")
    assert "the connector shop" in str(error.value.errors)


def test_a_connector_that_manifests_name_is_not_deleted(drive: Drive, move: Move) -> None:
    connector = create_git_connector("https://git.example.com/shop.git")
    move("Git", MAIN)
    with pytest.raises(Conflict, match="service My app|service myapp"):
        delete_connector(actor=User.objects.get(username="admin"), connector=connector)
    Connector.objects.filter(pk=connector.pk).delete()
    with pytest.raises(BadInput) as error:
        drive.start("1.27")
    assert "connector shop does not exist" in str(error.value.errors)


def test_what_counts_is_fetched_and_checked_for_who_asks(
    drive: Drive, git_server: GitServer, move: Move, browse: Callable[[User], Client]
) -> None:
    files = texts()
    git_server.commit(files | {"ecs/service.yaml": files["ecs/service.yaml"] + "\nnonsense: 1\n"})
    create_git_connector(git_server.private_url, is_private=True)
    service = move("Git", {"connector": "shop", "branch": "<+serviceVariables.branch>"})
    service.variables = {"branch": "main"}
    service.save()
    address = f"/environments/{Environment.objects.get(identifier='dev').pk}/services/{service.pk}/manifests/"
    client = browse(User.objects.get(username="admin"))
    assert "Fetch and validate now" in client.get(address).content.decode()
    page = client.get(f"{address}?fetch=1").content.decode()
    assert "containerDefinitions" in page
    assert "ecs/service.yaml, line" in page
    assert "nonsense" in page
    scope = Scope.objects.get(path="account/default/demo")
    role = Role.objects.create(scope=scope, identifier="some", name="Some")
    role.set_permissions(set(PERMISSIONS) - {"core_connector_access"})
    outsider = make_person("outsider")
    RoleAssignment.objects.create(user=outsider, role=role, scope=scope)
    refusal_page = browse(outsider).get(f"{address}?fetch=1").content.decode()
    assert "core_connector_access on the connector shop" in refusal_page
    assert "containerDefinitions" not in refusal_page


def test_what_counts_is_fetched_by_a_delegate_where_the_connector_says_so(
    drive: Drive, git_server: GitServer, move: Move, browse: Callable[[User], Client]
) -> None:
    git_server.commit(texts())
    create_git_connector(
        git_server.private_url, is_private=True, connect_through="Delegate", delegate_selectors=["net"]
    )
    service = move("Git", MAIN)
    hand_agent = hand("net-1", tags=("net",))
    path = f"/environments/{Environment.objects.get(identifier='dev').pk}/services/{service.pk}/manifests"
    client = browse(User.objects.get(username="admin"))
    address = f"/api/v1{path.replace('services', 'overrides')}"
    page = client.get(f"{path}/?fetch=1").content.decode()
    assert "A delegate fetches the files" in page
    assert "containerDefinitions" not in page
    waiting_manifests = client.get(f"{address}?fetch=true").json()["manifests"]
    assert all(manifest["waits"] and manifest["value"] is None for manifest in waiting_manifests)
    assert DelegateTask.objects.filter(owner="inquiry").count() == 1
    hand_agent.serve()
    page = client.get(f"{path}/?fetch=1").content.decode()
    assert "containerDefinitions" in page
    assert "A delegate fetches" not in page
    manifests = client.get(f"{address}?fetch=true").json()["manifests"]
    assert all(manifest["value"] and not manifest["waits"] for manifest in manifests)
    assert hand_agent.taken_operations == ["git"]
    # What came may hold anything: it is kept encrypted, and nowhere else.
    lookup = LookupRequest.objects.get(kind=LookupRequest.Kind.FILES)
    assert lookup.report == {"fetched": True}
    assert DelegateTask.objects.get(pk=lookup.task_id).result == ""
    with connection.cursor() as cursor:
        cursor.execute("SELECT answers FROM delegates_lookuprequest")
        assert "containerDefinitions" not in cursor.fetchone()[0]


def test_what_a_delegate_cannot_fetch_for_the_page_is_told_with_the_next_step(
    drive: Drive, git_server: GitServer, move: Move, browse: Callable[[User], Client]
) -> None:
    git_server.commit(texts())
    create_git_connector(
        git_server.private_url, is_private=True, connect_through="Delegate", delegate_selectors=["net"]
    )
    service = move("Git", {"connector": "shop", "branch": "gone"})
    hand_agent = hand("net-1", tags=("net",))
    address = f"/environments/{Environment.objects.get(identifier='dev').pk}/services/{service.pk}/manifests/"
    client = browse(User.objects.get(username="admin"))
    client.get(f"{address}?fetch=1")
    hand_agent.serve()
    page = client.get(f"{address}?fetch=1").content.decode()
    assert "could not be fetched from the branch gone of shop" in page
    assert "data-topics" not in page


def test_a_preview_asks_a_delegate_for_the_files(drive: Drive, git_server: GitServer, move: Move) -> None:
    git_server.commit(texts())
    create_git_connector(git_server.url, connect_through="Delegate", delegate_selectors=["net"])
    move("Git", MAIN)
    hand_agent = hand("net-1", tags=("net",))
    question = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.27")
    assert isinstance(question, PreviewRequest)
    for _ in range(5):
        hand_agent.serve()
    preview = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.27")
    assert isinstance(preview, PreviewDetails)
    assert preview.is_complete
    assert set(hand_agent.taken_operations) == {"git"}


@pytest.mark.parametrize("stop_index", [1, 2, 3])
def test_a_worker_that_dies_after_the_fetch_leaves_one_commit(
    drive: Drive, git_server: GitServer, move: Move, monkeypatch: pytest.MonkeyPatch, stop_index: int
) -> None:
    files = texts()
    git_server.commit(files)
    create_git_connector(git_server.url)
    move("Git", MAIN)
    execution = drive.start("1.27")
    crash_countdown = Countdown(stop_index, _die)

    def run_site_call(*args: Any, **options: Any) -> Any:
        result = run_site_call_locally(*args, **options)
        set_hook(crash_countdown)
        return result

    with monkeypatch.context() as patch:
        patch.setattr("deployments.journal.non_aws_calls.run_site_call_locally", run_site_call)
        with pytest.raises(Death):
            drive.until_over(execution)
    set_hook(None)
    git_server.commit({**files, "more": "later"})
    drive.clock.move(600)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    (commit,) = list_commits(execution)
    log_lines = [line for line in drive.log(execution) if line.startswith("Using commit")]
    assert log_lines == [f"Using commit {commit[:12]} of the branch main of shop"], crash_countdown.passed


@pytest.fixture(autouse=True)
def _remove_hook() -> Iterator[None]:
    yield
    set_hook(None)


def _die() -> None:
    raise Death


def test_who_may_not_use_the_connector_does_not_have_it_fetched_by_a_retry(
    drive: Drive, git_server: GitServer, move: Move
) -> None:
    git_server.commit({"a": "b"})
    create_git_connector(git_server.url)
    move("Git", MAIN)
    failed_execution = drive.run("1.27")
    assert failed_execution.status == "FAILED"
    scope = Scope.objects.get(path="account/default/demo")
    role = Role.objects.create(scope=scope, identifier="some", name="Some")
    role.set_permissions(set(PERMISSIONS) - {"core_connector_access"})
    outsider = make_person("outsider")
    RoleAssignment.objects.create(user=outsider, role=role, scope=scope)
    with pytest.raises(MissingAccess) as error:
        retry_execution(actor=outsider, execution=failed_execution)
    assert "the connector shop" in str(error.value.errors)
