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
from deployments.execution.planning.stored_inputs import load_texts
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.call_owner import CallOwner
from deployments.journal.runtime import set_hook
from deployments.models import Execution, StageExecution, StepExecution, StoredText, StoredTextUse
from deployments.retention import TEXT_RETENTION
from inventory.operations.redeployments import redeploy
from rbac.models import Scope, User
from tests.catalog.manifests.stores.conftest import Move, create_git_connector, texts
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


def double_memory(text: str) -> str:
    """Return a task definition with twice the memory."""
    assert "memory: '512'" in text
    return text.replace("memory: '512'", "memory: '1024'")


def edit_file(change: Callable[[str], str], path: str = FILE) -> None:
    """Change a file of the file store."""
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    save_file(actor=admin, scope=scope, path=path, content=change(FileNode.objects.get(path=path).content))


def get_memory(drive: Drive, execution: Execution) -> str:
    """Return the memory of the task definition that an execution has deployed."""
    step = StepExecution.objects.get(stage__execution=execution, type="EcsRollingDeploy")
    params = {"taskDefinition": step.outputs["taskDefinitionArn"]}
    return str(drive.call("ecs", "DescribeTaskDefinition", params)["taskDefinition"]["memory"])


def start_redeployment(drive: Drive, execution: Execution) -> Execution:
    """Start the run that deploys an earlier execution again."""
    deployment = StageExecution.objects.select_related("service").get(execution=execution)
    assert deployment.service is not None
    return redeploy(actor=drive.deployer, service=deployment.service, deployment=deployment)


def redeploy_to_end(drive: Drive, execution: Execution) -> Execution:
    """Deploy an earlier execution again, and wait for the end."""
    return drive.until_over(start_redeployment(drive, execution))


def run_to_end(drive: Drive, hand_agent: Hand | None, execution: Execution) -> Execution:
    """Run the execution to its end; a delegate, if there is one, fetches the files."""
    if hand_agent is None:
        return drive.until_over(execution)
    while not execution.is_over:
        drive.reconcile()
        if not hand_agent.serve():
            drive.pass_time(1)
        execution.refresh_from_db()
    return execution


def list_version_lines(drive: Drive, execution: Execution) -> list[str]:
    """Return the log lines about the used versions."""
    return [line for line in drive.log(execution) if line.startswith(("Using ", "Fetched from"))]


def test_a_run_that_is_brought_back_has_the_files_of_its_time(drive: Drive) -> None:
    first = drive.run("1.27")
    edit_file(double_memory)
    second = drive.run("1.28")
    assert (get_memory(drive, first), get_memory(drive, second)) == ("512", "1024")
    assert list_version_lines(drive, second)[0] == f"Using version 2 of {FILE}"
    redeployment = redeploy_to_end(drive, first)
    assert (redeployment.status, redeployment.outcome) == ("SUCCESS", "COMPLETED"), drive.log(redeployment)[
        -5:
    ]
    assert get_memory(drive, redeployment) == "512"
    assert (
        list_version_lines(drive, redeployment)[0]
        == f"Using version 1 of {FILE}, as deployed by #{first.number}"
    )
    # What was brought back can be brought back in its turn, and still knows who fetched it.
    sources = StageExecution.objects.get(execution=start_redeployment(drive, redeployment)).sources
    assert {row["as_of"] for row in sources} == {first.number}
    assert [row["texts"] for row in sources] == [row["texts"] for row in first.stages.get().sources]


def test_who_brings_back_a_run_from_before_texts_were_kept_hears_which_files_are_used(drive: Drive) -> None:
    first = drive.run("1.27")
    stage = first.stages.get()
    stage.sources = [
        {key: value for key, value in row.items() if key not in ("texts", "versions")}
        for row in stage.sources
    ]
    stage.save()
    edit_file(double_memory)
    second = redeploy_to_end(drive, first)
    message = f"not kept by #{first.number}: using them as they are now"
    assert any(message in line for line in drive.log(second))
    edit_file(lambda text: text.replace("memory: '1024'", "memory: '2048'"))
    redeployment = redeploy_to_end(drive, second)
    assert get_memory(drive, redeployment) == "1024"
    assert (
        list_version_lines(drive, redeployment)[0]
        == f"Using version 2 of {FILE}, as deployed by #{second.number}"
    )
    assert not any("as they are now" in line for line in drive.log(redeployment))


def test_a_file_that_is_gone_since_does_not_keep_a_run_from_coming_back(drive: Drive) -> None:
    first = drive.run("1.27")
    drive.run("1.28")
    node = FileNode.objects.get(path=FILE)
    delete_file(actor=User.objects.get(username="admin"), node=node, although_used=True)
    redeployment = redeploy_to_end(drive, first)
    assert redeployment.status == "SUCCESS", redeployment.failure
    assert get_memory(drive, redeployment) == "512"


def test_a_retry_goes_on_with_the_files_that_its_run_began_with(drive: Drive) -> None:
    valid_text = FileNode.objects.get(path=FILE).content
    edit_file(lambda text: f"{text}\nnonsense: 1\n")
    failed_execution = drive.run("1.27")
    assert failed_execution.failure is not None
    assert failed_execution.failure["code"] == "BAD_MANIFEST"
    edit_file(lambda _: valid_text)
    retry_execution(actor=drive.deployer, execution=failed_execution)
    drive.until_over(failed_execution)
    assert failed_execution.failure["code"] == "BAD_MANIFEST"
    assert drive.run("1.27").status == "SUCCESS"


def test_a_text_is_kept_once_and_goes_when_no_run_needs_it(drive: Drive) -> None:
    first, second = drive.run("1.27"), drive.run("1.28")
    text_count = StoredText.objects.count()
    assert text_count == StoredTextUse.objects.filter(stage__execution=first).count()
    assert StoredTextUse.objects.count() == 2 * text_count
    edit_file(double_memory)
    third = drive.run("1.29")
    assert StoredText.objects.count() == text_count + 1
    prune_time = get_database_time() + timedelta(days=2)
    assert TEXT_RETENTION.prune(prune_time) == 0
    StoredTextUse.objects.filter(stage__execution__in=[first, second]).delete()
    assert TEXT_RETENTION.prune(get_database_time()) == 0, "a run that begins just now may have found it"
    assert TEXT_RETENTION.prune(prune_time) == 1
    assert StoredText.objects.count() == text_count
    assert redeploy_to_end(drive, third).status == "SUCCESS"


def test_what_a_file_holds_is_kept_encrypted_and_stays_out_of_log_and_rows(drive: Drive) -> None:
    value = "hunter2-of-the-file"
    edit_file(lambda text: text.replace("memory: ", f"tags: [{{key: token, value: {value}}}]\nmemory: ", 1))
    first = drive.run("1.27")
    assert first.status == "SUCCESS", first.failure
    redeployment = redeploy_to_end(drive, first)
    assert redeployment.status == "SUCCESS", redeployment.failure
    assert not [line for run in (first, redeployment) for line in drive.log(run) if value in line]
    stored_texts = [text for stored_text in StoredText.objects.all() if value in (text := stored_text.text)]
    assert len(stored_texts) == 1
    with connection.cursor() as cursor:
        for table, column in (("deployments_storedtext", "text"), ("deployments_stageexecution", "sources")):
            cursor.execute(f"SELECT {column} FROM {table}")
            assert not [row for row in cursor.fetchall() if value in str(row[0])], table


def test_a_branch_that_moved_does_not_change_what_comes_back(
    drive: Drive, git_server: GitServer, move: Move, fetching_agent: Hand | None
) -> None:
    files = texts()
    commit = git_server.commit(files)
    create_git_connector(git_server.url, **(REMOTE if fetching_agent else {}))
    move("Git", MAIN)
    first = run_to_end(drive, fetching_agent, drive.start("1.27"))
    git_server.commit({**files, "ecs/task.yaml": double_memory(files["ecs/task.yaml"])})
    second = run_to_end(drive, fetching_agent, drive.start("1.28"))
    redeployment = run_to_end(drive, fetching_agent, start_redeployment(drive, first))
    assert [get_memory(drive, run) for run in (first, second, redeployment)] == ["512", "1024", "512"]
    line = f"Using commit {commit[:12]} of the branch main of shop, as deployed by #{first.number}"
    assert line in list_version_lines(drive, redeployment)
    fetches = [run.calls.filter(operation="FetchFiles").count() for run in (first, second, redeployment)]
    assert fetches == [1, 1, 0]
    assert fetching_agent is None or fetching_agent.taken_operations == ["git", "git"]


def test_an_object_that_was_overwritten_does_not_change_what_comes_back(
    drive: Drive, put: Put, move: Move, fetching_agent: Hand | None
) -> None:
    files = texts()
    put(files)
    if fetching_agent:
        files_connector = Connector.objects.get(identifier="sandbox_aws")
        files_connector.pk, files_connector._state.adding, files_connector.identifier = None, True, "files"
        files_connector.spec = {**files_connector.spec, **REMOTE}
        files_connector.save()
    move("S3", {**BUCKET, "connector": "files"} if fetching_agent else BUCKET)
    first = run_to_end(drive, fetching_agent, drive.start("1.27"))
    put({"ecs/task.yaml": double_memory(files["ecs/task.yaml"])})
    redeployment = run_to_end(drive, fetching_agent, start_redeployment(drive, first))
    assert (redeployment.status, redeployment.failure) == ("SUCCESS", None)
    assert [get_memory(drive, run) for run in (first, redeployment)] == ["512", "512"]
    assert redeployment.calls.filter(operation="FetchFiles").count() == 0
    line = f"Fetched from the bucket manifests in us-east-1, as deployed by #{first.number}"
    assert line in list_version_lines(drive, redeployment)


@pytest.mark.parametrize("stop_index", [1, 2, 3, 4])
def test_a_worker_that_dies_after_the_read_leaves_one_version(drive: Drive, stop_index: int) -> None:
    execution = drive.start("1.27")
    crash_countdown = Countdown(stop_index, _die)
    set_hook(crash_countdown)
    with pytest.raises(Death):
        drive.until_over(execution)
    set_hook(None)
    edit_file(double_memory)
    drive.clock.move(600)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", execution.failure
    texts = load_texts(StageExecution.objects.get(execution=execution).sources)
    (definition,) = [row["texts"][0]["text"] for row in texts if row["kind"] == "EcsTaskDefinition"]
    assert f"'{get_memory(drive, execution)}'" in definition.replace('"', "'"), crash_countdown.passed
    assert len([line for line in list_version_lines(drive, execution) if FILE in line]) == 1


@pytest.fixture(params=["here", "through a delegate"])
def fetching_agent(drive: Drive, request: pytest.FixtureRequest) -> Iterator[Hand | None]:
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
def _remove_hook() -> Iterator[None]:
    yield
    set_hook(None)


def _die() -> None:
    raise Death
