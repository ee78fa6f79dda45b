"""Steps that bring manifests of their own from Git and S3."""

from collections.abc import Callable
from textwrap import indent

import boto3
import pytest

from connectors.models import Connector
from connectors.operations import delete_connector, delete_file, save_file
from connectors.required_access import MissingAccess
from delegates.task_owners import register_task_owner
from deployments.execution.operations import retry_execution, run_pipeline
from deployments.journal.aws_access import CALL_OWNER
from deployments.journal.call_owner import CallOwner
from deployments.models import Execution, StepExecution
from deployments.preview.documents import PreviewDetails
from deployments.preview.operations import preview_pipeline
from inventory.operations.redeployments import redeploy
from pipelines.models import Pipeline
from pipelines.operations.pipelines import PipelineNotRunnable, save_pipeline
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.permissions import PERMISSIONS
from tests.catalog.manifests.stores.conftest import create_git_connector
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from tests.fixtures.git import GitServer
from tests.fixtures.people import make_person
from tests.stories.run_task.conftest import DEFINITION, inline, pipeline_text, request_text
from web.http.problems import Conflict

pytestmark = pytest.mark.django_db(transaction=True)
Job = Callable[..., Drive]
MAIN = "connector: shop\nbranch: main\n"


def build_manifest_field(field: str, store: str, files: str, location: str = MAIN) -> str:
    """Build the field of a step's spec that refers to a manifest in a store."""
    indented = indent(f"files: {files}\n{location}", " " * 4)
    return f"{field}:\n  type: {store}\n  spec:\n{indented}"


def build_git_fields(location: str = MAIN) -> str:
    return build_manifest_field("taskDefinition", "Git", "jobs/task.yaml", location) + build_manifest_field(
        "runTaskRequestDefinition", "Git", "/jobs/run.yaml", location
    )


@pytest.fixture
def job(drive: Drive) -> Job:
    """Let the drive run one step with this spec."""

    def write_step(spec: str, actor: User | None = None) -> Drive:
        admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
        before = Pipeline.objects.filter(identifier="run_task").first()
        drive.pipeline = save_pipeline(
            actor=actor or admin, scope=scope, yaml=pipeline_text(spec), pipeline=before
        )
        return drive

    return write_step


def get_step(execution: Execution) -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution)


def test_a_step_runs_what_lies_in_a_repository(drive: Drive, git_server: GitServer, job: Job) -> None:
    commit = git_server.commit({"jobs/task.yaml": DEFINITION, "jobs/run.yaml": request_text(drive)})
    create_git_connector(git_server.private_url, is_private=True)
    execution = job(build_git_fields()).run("done")
    assert execution.status == "SUCCESS", execution.failure
    log = drive.log(execution)
    assert f"Using commit {commit[:12]} of the branch main of shop" in log
    assert "Fetching EcsRunTaskRequestDefinition from Git" in log
    # One fetch for both: they are of one commit, which the step keeps.
    assert execution.calls.filter(operation="FetchFiles").count() == 1
    spec = get_step(execution).spec
    assert {step_source["frozen"]["commit"] for step_source in spec.values()} == {commit}


def test_a_retry_of_a_step_goes_on_with_its_commit(drive: Drive, git_server: GitServer, job: Job) -> None:
    valid_files = {"jobs/task.yaml": DEFINITION, "jobs/run.yaml": request_text(drive)}
    first = git_server.commit(valid_files | {"jobs/run.yaml": "launchTyp: FARGATE\n"})
    create_git_connector(git_server.url)
    execution = job(build_git_fields()).run("done")
    assert "jobs/run.yaml, line 1: launchTyp" in str(execution.failure)
    git_server.commit(valid_files)
    retry_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.failure is not None
    assert get_step(execution).spec["taskDefinition"]["frozen"]["commit"] == first
    assert drive.run("done").status == "SUCCESS"


def test_a_step_that_is_brought_back_runs_what_it_ran(drive: Drive, git_server: GitServer, job: Job) -> None:
    admin, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    node = save_file(actor=admin, scope=scope, path="/jobs/task.yaml", content=DEFINITION)
    commit = git_server.commit({"jobs/run.yaml": request_text(drive)})
    create_git_connector(git_server.url)
    spec = build_manifest_field("taskDefinition", "FileStore", "/jobs/task.yaml", "")
    first = job(spec + build_manifest_field("runTaskRequestDefinition", "Git", "/jobs/run.yaml")).run("done")
    assert first.status == "SUCCESS", first.failure
    git_server.commit({"jobs/run.yaml": "launchTyp: FARGATE\n"})
    delete_file(actor=admin, node=node, although_used=True)
    deployment = first.stages.get()
    assert deployment.service is not None
    redeployment = redeploy(actor=drive.deployer, service=deployment.service, deployment=deployment)
    drive.until_over(redeployment)
    assert redeployment.status == "SUCCESS", redeployment.failure
    assert redeployment.calls.filter(operation="FetchFiles").count() == 0
    log = drive.log(redeployment)
    assert f"Using the files of taskDefinition, as deployed by #{first.number}" in log
    assert f"Using commit {commit[:12]} of the branch main of shop, as deployed by #{first.number}" in log


def test_a_step_takes_its_place_from_variables_and_its_files_from_a_bucket(drive: Drive, job: Job) -> None:
    client = boto3.client(
        "s3",
        region_name="us-east-1",
        endpoint_url=Connector.objects.get(identifier="sandbox_aws").spec["endpoint_url"],
        aws_access_key_id="AKIASANDBOX",
        aws_secret_access_key="any",
    )
    client.create_bucket(Bucket="manifests")
    client.put_object(Bucket="manifests", Key="myapp/run.yaml", Body=request_text(drive).encode())
    location = "connector: sandbox_aws\nregion: us-east-1\nbucket: manifests\n"
    request = build_manifest_field(
        "runTaskRequestDefinition", "S3", "<+service.identifier>/run.yaml", location
    )
    execution = job(request + inline("taskDefinition", DEFINITION)).run("done")
    assert execution.status == "SUCCESS", execution.failure
    assert "Fetched from the bucket manifests in us-east-1" in drive.log(execution)


def test_a_delegate_fetches_for_a_step_where_the_connector_says_so(
    drive: Drive, git_server: GitServer, job: Job
) -> None:
    git_server.commit({"jobs/task.yaml": DEFINITION, "jobs/run.yaml": request_text(drive)})
    create_git_connector(git_server.url, connect_through="Delegate", delegate_selectors=["net"])
    hand_agent = hand("net-1", tags=("net",))
    job(build_git_fields())
    register_task_owner(CALL_OWNER, CallOwner(drive.runtime))
    try:
        execution = drive.start("done")
        while not execution.is_over:
            drive.reconcile()
            if not hand_agent.serve():
                drive.pass_time(1)
            execution.refresh_from_db()
    finally:
        register_task_owner(CALL_OWNER, CallOwner())
    assert execution.status == "SUCCESS", execution.failure
    assert hand_agent.taken_operations == ["git"]


def test_a_preview_shows_what_a_step_would_run_from_a_repository(
    drive: Drive, git_server: GitServer, job: Job
) -> None:
    git_server.commit({"jobs/task.yaml": DEFINITION, "jobs/run.yaml": request_text(drive)})
    create_git_connector(git_server.url)
    job(build_git_fields())
    preview = preview_pipeline(actor=drive.deployer, pipeline=drive.pipeline, artifact_tag="1.27")
    assert isinstance(preview, PreviewDetails)
    assert [call.operation for call in preview.steps[0].calls] == ["RegisterTaskDefinition", "RunTask"]
    assert not preview.steps[0].failure


def test_a_repository_of_an_input_stays_below_the_account_of_its_connector(
    drive: Drive, git_server: GitServer, job: Job
) -> None:
    git_server.commit({"jobs/task.yaml": DEFINITION})
    create_git_connector(f"{git_server.account}/private/team", is_private=True)
    place = "connector: shop\nbranch: main\nrepository: <+pipeline.variables.file>\n"
    fields = build_manifest_field("taskDefinition", "Git", "jobs/task.yaml", place)
    write_variable_step(drive, job, fields, "<+input>")
    execution = drive.run("done", inputs={"file": "../app.git"})
    assert execution.failure is not None
    assert "../app.git is not the name of a repository" in execution.failure["message"]


@pytest.mark.parametrize(
    ("file", "ref", "message"),
    [
        ("<+pipeline.variables.file>", "branch: main", "There is no file 5"),
        ("jobs/task.yaml", "commit: <+pipeline.variables.file>", "the commit 5 of shop"),
    ],
)
def test_a_place_of_numbers_is_read_as_text(
    drive: Drive, git_server: GitServer, job: Job, file: str, ref: str, message: str
) -> None:
    git_server.commit({"jobs/task.yaml": DEFINITION})
    create_git_connector(git_server.url)
    fields = build_manifest_field("taskDefinition", "Git", file, f"connector: shop\n{ref}\n")
    write_variable_step(drive, job, fields, "5")
    execution = drive.run("done")
    assert execution.failure is not None
    assert message in execution.failure["message"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (build_git_fields("branch: main\n"), "taskDefinition: place needs the connector to Git"),
        (build_git_fields("connector: shop\n"), "place names one of branch, tag, commit"),
        (build_git_fields("connector: shop\nbranch: --upload-pack=id\n"), "not the name of a branch"),
        (build_git_fields("connector: shop\nbranch: main\nbucket: b\n"), "unknown key bucket of place"),
        (build_git_fields("connector: shop\nbranch: [main]\n"), "place holds texts only"),
        (build_git_fields(f"{MAIN}repository: ../app.git\n"), "repository ../app.git is not the name of a"),
        (
            build_git_fields("connector: gone\nbranch: main\n"),
            "no connector gone for Git in this scope or above",
        ),
        (build_git_fields("connector: sandbox_aws\nbranch: main\n"), "no connector sandbox_aws"),
        (build_manifest_field("taskDefinition", "Git", "[a, b]"), "files must be one file path"),
        ("taskDefinition: {type: Git, spec: {connector: shop}}\n", "must have files and their location"),
    ],
)
def test_a_place_that_cannot_be_is_refused_when_the_pipeline_is_saved(
    drive: Drive, job: Job, spec: str, message: str
) -> None:
    create_git_connector("https://git.example.com/shop.git")
    other_manifest = "" if "runTask" in spec else inline("runTaskRequestDefinition", request_text(drive))
    with pytest.raises(PipelineNotRunnable) as error:
        job(spec + other_manifest)
    assert message in str(error.value.errors)


def create_person_without(permission: str) -> User:
    """Somebody with every other permission in the project."""
    scope = Scope.objects.get(path="account/default/demo")
    role = Role.objects.create(scope=scope, identifier="some", name="Some")
    role.set_permissions(set(PERMISSIONS) - {permission})
    outsider = make_person("outsider")
    RoleAssignment.objects.create(user=outsider, role=role, scope=scope)
    return outsider


def test_who_may_not_use_the_connector_of_a_step_neither_saves_nor_runs_it(drive: Drive, job: Job) -> None:
    create_git_connector("https://git.example.com/shop.git")
    job(build_git_fields())
    outsider = create_person_without("core_connector_access")
    with pytest.raises(MissingAccess, match="core_connector_access on the connector shop"):
        job(build_git_fields(), actor=outsider)
    drive.deployer = outsider
    with pytest.raises(MissingAccess, match="core_connector_access on the connector shop"):
        drive.start("done")


def write_file_step(drive: Drive, job: Job, file: str) -> Pipeline:
    """A pipeline whose step takes a file of the store by a variable."""
    fields = build_manifest_field("taskDefinition", "FileStore", "<+pipeline.variables.file>", "")
    return write_variable_step(drive, job, fields, file)


def write_variable_step(drive: Drive, job: Job, fields: str, file: str) -> Pipeline:
    """A pipeline with a variable `file`, and a step with these fields."""
    pipeline = job(fields + inline("runTaskRequestDefinition", request_text(drive))).pipeline
    yaml = pipeline.yaml.replace("  stages:", f"  variables: {{file: {file}}}\n  stages:")
    admin = User.objects.get(username="admin")
    return save_pipeline(actor=admin, scope=pipeline.scope, yaml=yaml, pipeline=pipeline)


def test_a_file_that_an_input_names_needs_access_to_it(drive: Drive, job: Job) -> None:
    admin, file = User.objects.get(username="admin"), "account:/jobs/task.yaml"
    save_file(actor=admin, scope=Scope.objects.account(), path="/jobs/task.yaml", content=DEFINITION)
    pipeline, outsider = write_file_step(drive, job, "<+input>"), create_person_without("core_file_view")
    for start in (preview_pipeline, run_pipeline):
        with pytest.raises(MissingAccess, match="core_file_access on the file /jobs/task.yaml in account"):
            start(actor=drive.deployer, pipeline=pipeline, inputs={"file": file})
        with pytest.raises(PipelineNotRunnable) as refusal:
            start(actor=outsider, pipeline=pipeline, inputs={"file": file})
        assert f"You cannot view the file {file}" in str(refusal.value.errors)
        start(actor=admin, pipeline=pipeline, inputs={"file": file})


def test_a_number_is_not_the_name_of_a_file(drive: Drive, job: Job) -> None:
    write_file_step(drive, job, "5")
    with pytest.raises(PipelineNotRunnable) as refusal:
        drive.start("done")
    assert '"5" is not a file reference' in str(refusal.value.errors)


def test_a_connector_that_a_step_names_is_not_deleted(drive: Drive, job: Job) -> None:
    connector = create_git_connector("https://git.example.com/shop.git")
    job(build_git_fields())
    with pytest.raises(Conflict, match="pipeline Run task"):
        delete_connector(actor=User.objects.get(username="admin"), connector=connector)
