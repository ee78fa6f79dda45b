"""Runs that bring back an earlier one deploy the files that it deployed, whatever the stores hold now."""

from collections.abc import Callable, Iterator
from datetime import timedelta

import boto3
import pytest
from django.db import connection

from connectors.models import Connector, FileNode
from connectors.operations import delete_file, save_file
from delegates.task_owners import register_task_owner
from deployments.execution.operations import retry_execution
from deployments.execution.stored_inputs import load_texts
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.call_owner import CallOwner
from deployments.journal.runtime import set_hook
from deployments.models import Execution, StageExecution, StoredText, StoredTextUse
from deployments.retention import TEXT_RETENTION
from inventory.operations.redeployments import redeploy
from rbac.models import Scope, User
from tests.catalog.manifests.stores.conftest import Move, git_connector, texts
from tests.deployments.engine.simulator.schedule import Death
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import Hand, hand
from tests.fixtures.git import GitServer
from tests.fixtures.worker_crashes import Countdown
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)
FILE = "/ECS Tutorial/RegisterTaskDefinitionRequest.yaml"
MAIN = {"connector": "shop", "branch": "main"}
BUCKET = {"connector": "sandbox_aws", "region": "us-east-1", "bucket": "manifests"}
REMOTE = {"connect_through": "Delegate", "delegate_selectors": ["net"]}
Put = Callable[[dict[str, str]], object]


def larger(text: str) -> str:
    """A task definition with twice the memory."""
    assert "memory: '512'" in text
    return text.replace("memory: '512'", "memory: '1024'")


def edit(change: Callable[[str], str], path: str = FILE) -> None:
    """Change a file of the file store."""
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    save_file(actor=admin, scope=scope, path=path, content=change(FileNode.objects.get(path=path).content))


def memory_of(drive: Drive, execution: Execution) -> str:
    """The memory of the task definition that an execution has registered."""
    (call,) = [one for one in drive.calls(execution) if one.operation == "RegisterTaskDefinition"]
    return str(call.parsed_parameters["memory"])


def returning(drive: Drive, execution: Execution) -> Execution:
    """The run that brings an execution back."""
    return redeploy(actor=drive.deployer, deployment=StageExecution.objects.get(execution=execution))


def brought_back(drive: Drive, execution: Execution) -> Execution:
    """The run that brings an execution back, when it is over."""
    return drive.until_over(returning(drive, execution))


def served(drive: Drive, one: Hand | None, execution: Execution) -> Execution:
    """The execution when it is over, its files fetched by a delegate if there is one."""
    if one is None:
        return drive.until_over(execution)
    while not execution.is_over:
        drive.reconcile()
        if not one.serve():
            drive.pass_time(1)
        execution.refresh_from_db()
    return execution


def told(drive: Drive, execution: Execution) -> list[str]:
    """What the log says of the versions that were used."""
    return [line for line in drive.log(execution) if line.startswith(("Using ", "Fetched from"))]


def test_a_run_that_is_brought_back_has_the_files_of_its_time(drive: Drive) -> None:
    first = drive.run("1.27")
    edit(larger)
    second = drive.run("1.28")
    assert (memory_of(drive, first), memory_of(drive, second)) == ("512", "1024")
    assert told(drive, second)[0] == f"Using version 2 of {FILE}"
    again = brought_back(drive, first)
    assert (again.status, again.outcome) == ("SUCCESS", "COMPLETED"), drive.log(again)[-5:]
    assert memory_of(drive, again) == "512"
    assert told(drive, again)[0] == f"Using version 1 of {FILE}, as deployed by #{first.number}"
    # What was brought back can be brought back in its turn, and still knows who fetched it.
    kept = StageExecution.objects.get(execution=returning(drive, again)).sources
    assert {row["as_of"] for row in kept} == {first.number}
    assert [row["texts"] for row in kept] == [row["texts"] for row in first.stages.get().sources]


def test_who_brings_back_a_run_from_before_texts_were_kept_hears_which_files_are_used(drive: Drive) -> None:
    first = drive.run("1.27")
    stage = first.stages.get()
    stage.sources = [
        {k: v for k, v in row.items() if k not in ("texts", "versions")} for row in stage.sources
    ]
    stage.save()
    edit(larger)
    second = brought_back(drive, first)
    words = f"not kept by #{first.number}: using them as they are now"
    assert any(words in line for line in drive.log(second))
    edit(lambda text: text.replace("memory: '1024'", "memory: '2048'"))
    third = brought_back(drive, second)
    assert memory_of(drive, third) == "1024"
    assert told(drive, third)[0] == f"Using version 2 of {FILE}, as deployed by #{second.number}"
    assert not any("as they are now" in line for line in drive.log(third))


def test_a_file_that_is_gone_since_does_not_keep_a_run_from_coming_back(drive: Drive) -> None:
    first = drive.run("1.27")
    drive.run("1.28")
    node = FileNode.objects.get(path=FILE)
    delete_file(actor=User.objects.get(username="admin"), node=node, although_used=True)
    again = brought_back(drive, first)
    assert again.status == "SUCCESS", again.failure
    assert memory_of(drive, again) == "512"


def test_a_retry_goes_on_with_the_files_that_its_run_began_with(drive: Drive) -> None:
    good = FileNode.objects.get(path=FILE).content
    edit(lambda text: f"{text}\nnonsense: 1\n")
    failed = drive.run("1.27")
    assert failed.failure is not None
    assert failed.failure["code"] == "BAD_MANIFEST"
    edit(lambda _: good)
    retry_execution(actor=drive.deployer, execution=failed)
    drive.until_over(failed)
    assert failed.failure["code"] == "BAD_MANIFEST"
    assert drive.run("1.27").status == "SUCCESS"


def test_a_text_is_kept_once_and_goes_when_no_run_needs_it(drive: Drive) -> None:
    first, second = drive.run("1.27"), drive.run("1.28")
    kept = StoredText.objects.count()
    assert kept == StoredTextUse.objects.filter(stage__execution=first).count()
    assert StoredTextUse.objects.count() == 2 * kept
    edit(larger)
    third = drive.run("1.29")
    assert StoredText.objects.count() == kept + 1
    later = get_database_time() + timedelta(days=2)
    assert TEXT_RETENTION.prune(later) == 0
    StoredTextUse.objects.filter(stage__execution__in=[first, second]).delete()
    assert TEXT_RETENTION.prune(get_database_time()) == 0, "a run that begins just now may have found it"
    assert TEXT_RETENTION.prune(later) == 1
    assert StoredText.objects.count() == kept
    assert brought_back(drive, third).status == "SUCCESS"


def test_what_a_file_holds_is_kept_encrypted_and_stays_out_of_log_and_rows(drive: Drive) -> None:
    value = "hunter2-of-the-file"
    edit(lambda text: text.replace("memory: ", f"tags: [{{key: token, value: {value}}}]\nmemory: ", 1))
    first = drive.run("1.27")
    assert first.status == "SUCCESS", first.failure
    again = brought_back(drive, first)
    assert again.status == "SUCCESS", again.failure
    assert not [line for one in (first, again) for line in drive.log(one) if value in line]
    texts_kept = [text for one in StoredText.objects.all() if value in (text := one.text)]
    assert len(texts_kept) == 1
    with connection.cursor() as cursor:
        for table, column in (("deployments_storedtext", "text"), ("deployments_stageexecution", "sources")):
            cursor.execute(f"SELECT {column} FROM {table}")
            assert not [row for row in cursor.fetchall() if value in str(row[0])], table


def test_a_branch_that_moved_does_not_change_what_comes_back(
    drive: Drive, git_server: GitServer, move: Move, asked: Hand | None
) -> None:
    files = texts()
    commit = git_server.commit(files)
    git_connector(git_server.url, **(REMOTE if asked else {}))
    move("Git", MAIN)
    first = served(drive, asked, drive.start("1.27"))
    git_server.commit({**files, "ecs/task.yaml": larger(files["ecs/task.yaml"])})
    second = served(drive, asked, drive.start("1.28"))
    again = served(drive, asked, returning(drive, first))
    assert [memory_of(drive, run) for run in (first, second, again)] == ["512", "1024", "512"]
    line = f"Using commit {commit[:12]} of the branch main of shop, as deployed by #{first.number}"
    assert line in told(drive, again)
    fetches = [run.calls.filter(operation="FetchFiles").count() for run in (first, second, again)]
    assert fetches == [1, 1, 0]
    assert asked is None or asked.taken == ["git", "git"]


def test_an_object_that_was_overwritten_does_not_change_what_comes_back(
    drive: Drive, put: Put, move: Move, asked: Hand | None
) -> None:
    files = texts()
    put(files)
    if asked:
        files_alone = Connector.objects.get(identifier="sandbox_aws")
        files_alone.pk, files_alone._state.adding, files_alone.identifier = None, True, "files"
        files_alone.spec = {**files_alone.spec, **REMOTE}
        files_alone.save()
    move("S3", {**BUCKET, "connector": "files"} if asked else BUCKET)
    first = served(drive, asked, drive.start("1.27"))
    put({"ecs/task.yaml": larger(files["ecs/task.yaml"])})
    again = served(drive, asked, returning(drive, first))
    assert (again.status, again.failure) == ("SUCCESS", None)
    assert [memory_of(drive, run) for run in (first, again)] == ["512", "512"]
    assert again.calls.filter(operation="FetchFiles").count() == 0
    line = f"Fetched from the bucket manifests in us-east-1, as deployed by #{first.number}"
    assert line in told(drive, again)


@pytest.mark.parametrize("at", [1, 2, 3, 4])
def test_a_worker_that_dies_after_the_read_leaves_one_version(drive: Drive, at: int) -> None:
    execution = drive.start("1.27")
    countdown = Countdown(at, _die)
    set_hook(countdown)
    with pytest.raises(Death):
        drive.until_over(execution)
    set_hook(None)
    edit(larger)
    drive.clock.move(600)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    kept = load_texts(StageExecution.objects.get(execution=execution).sources)
    (definition,) = [row["texts"][0]["text"] for row in kept if row["kind"] == "EcsTaskDefinition"]
    assert f"'{memory_of(drive, execution)}'" in definition.replace('"', "'"), countdown.passed
    assert len([line for line in told(drive, execution) if FILE in line]) == 1


@pytest.fixture(params=["here", "through a delegate"])
def asked(drive: Drive, request: pytest.FixtureRequest) -> Iterator[Hand | None]:
    """The delegate that fetches the files, None where this Slipway does."""
    if request.param == "here":
        yield None
        return
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    yield hand("net-1", tags=("net",))
    register_task_owner(CALL_OWNER, CallOwner())


@pytest.fixture
def put(drive: Drive) -> Put:
    """Write objects into the bucket of manifests, which keeps versions."""
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=Connector.objects.get(identifier="sandbox_aws").spec["endpoint_url"],
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
    )
    client.create_bucket(Bucket="manifests")
    client.put_bucket_versioning(Bucket="manifests", VersioningConfiguration={"Status": "Enabled"})

    def write(files: dict[str, str]) -> None:
        for name, text in files.items():
            client.put_object(Bucket="manifests", Key=name, Body=text.encode())

    return write


@pytest.fixture(autouse=True)
def _no_hook_stays() -> Iterator[None]:
    yield
    set_hook(None)


def _die() -> None:
    raise Death
