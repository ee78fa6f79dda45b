"""What a run-task step is told is checked when the pipeline is saved, as far as that can be known."""

from collections.abc import Callable
from typing import Any

import pytest

from connectors.models import FileNode
from connectors.usages import find_usages
from pipelines.editor.suggestions import build_full_schema
from pipelines.models import Pipeline
from pipelines.operations.pipelines import PipelineNotRunnable, check_pipeline, save_pipeline
from rbac.models import Scope, User
from tests.fixtures.engine_driver import Drive
from tests.stories.run_task.conftest import DEFINITION, inline, pipeline_text, request_text

pytestmark = pytest.mark.django_db(transaction=True)

Job = Callable[..., Drive]


def build_store_field(field: str, path: str) -> str:
    return f"{field}: {{type: FileStore, spec: {{files: {path}}}}}\n"


def list_refusals(spec: str) -> list[dict[str, Any]]:
    admin, project = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    with pytest.raises(PipelineNotRunnable) as refusal:
        save_pipeline(actor=admin, scope=project, yaml=pipeline_text(spec))
    return list(refusal.value.errors)


def test_a_mistake_in_a_text_is_told_with_its_own_place(drive: Drive) -> None:
    definition = DEFINITION.replace('memory: "512"', 'memory: "64"')
    spec = inline("runTaskRequestDefinition", request_text(drive)) + inline("taskDefinition", definition)
    (error,) = list_refusals(spec)
    assert "taskDefinition, line 5, column 1: memory: Fargate has no 64 MiB" in error["message"]
    assert error["path"].endswith("steps.0.step.spec.taskDefinition")
    assert error["line"] == pipeline_text(spec).split("\n").index(" " * 20 + "taskDefinition:") + 1


def test_a_mistake_in_a_file_names_the_file(drive: Drive) -> None:
    file = FileNode.objects.get(path="/ECS Tutorial/Run task/RunTaskRequest.yaml")
    file.content = "launchTyp: FARGATE\n"
    file.save()
    spec = build_store_field("runTaskRequestDefinition", f'"{file.path}"') + inline(
        "taskDefinition", DEFINITION
    )
    (error,) = list_refusals(spec)
    assert f"{file.path}, line 1, column 1: launchTyp" in error["message"]


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("taskDefinitionArn: a:1", "EcsRunTask needs runTaskRequestDefinition"),
        ("runTaskRequestDefinition: {type: Inline, spec: {content: x}}", "needs either taskDefinition or"),
        (
            "runTaskRequestDefinition: {type: Shelf, spec: {}}\ntaskDefinitionArn: a",
            "unknown store Shelf",
        ),
        ("runTaskRequestDefinition: <+a.b>\ntaskDefinitionArn: a", "type (FileStore, Git, Inline, S3)"),
        (
            "runTaskRequestDefinition: {type: Inline, spec: {files: /a}}\ntaskDefinitionArn: a",
            "must have only the key content",
        ),
        (
            "runTaskRequestDefinition: {type: FileStore, spec: {files: [/a, /b]}}\ntaskDefinitionArn: a",
            "files must be one file path",
        ),
        (
            "runTaskRequestDefinition: {type: FileStore, spec: {files: /gone.yaml}}\ntaskDefinitionArn: a",
            "/gone.yaml",
        ),
        (
            "runTaskRequestDefinition: {type: Inline, spec: {content: 'count: 0'}}\ntaskDefinitionArn: a",
            "run at least one task",
        ),
    ],
)
def test_a_step_that_cannot_run_is_refused_with_a_sentence(drive: Drive, spec: str, message: str) -> None:
    assert message in " ".join(problem["message"] for problem in list_refusals(spec))


def test_who_may_not_see_a_file_is_told_nothing_of_it(drive: Drive) -> None:
    stranger = User.objects.create(username="stranger")
    path = "/ECS Tutorial/Run task/RunTaskRequest.yaml"
    FileNode.objects.filter(path=path).update(content="launchTyp: SECRET\n")
    spec = build_store_field("runTaskRequestDefinition", f'"{path}"') + "taskDefinitionArn: a:1\n"
    project = Scope.objects.get(path="account/default/demo")
    messages = " ".join(
        error["message"] for error in check_pipeline(pipeline_text(spec), project, stranger)["errors"]
    )
    assert f"You cannot view the file {path}" in messages
    assert "SECRET" not in messages
    # Nor of the files of a service, which to a stranger is one that nobody has made.
    assert "service myapp does not exist" in messages
    assert "CreateServiceRequest" not in messages


def test_an_expression_in_a_text_waits_for_the_run(job: Job) -> None:
    job(DEFINITION.replace("family: migration", "family: <+service.identifier>-migration"))
    assert Pipeline.objects.filter(identifier="run_task").exists()


def test_a_text_that_is_wrong_once_it_is_filled_in_fails_before_any_write(job: Job) -> None:
    drive = job(DEFINITION.replace('cpu: "256"', "cpu: <+primary.artifact.tag>"))
    mark = drive.mark()
    execution = drive.run("77")
    assert execution.failure["code"] == "BAD_MANIFEST"
    assert "taskDefinition, line 4: cpu: Fargate has no tasks with 77" in execution.failure["message"]
    assert drive.effects(after=mark) == []


def test_an_expression_that_is_not_known_is_named_with_its_line(job: Job) -> None:
    drive = job(DEFINITION.replace("family: migration", "family: <+service.nmae>"))
    execution = drive.run("done")
    assert execution.failure["code"] == "UNKNOWN_EXPRESSION"
    assert "taskDefinition, line 1" in execution.failure["message"]


def test_the_editor_suggests_where_a_manifest_can_lie() -> None:
    step = build_full_schema()["$defs"]["steps"]["items"]["properties"]["step"]
    (kind,) = [choice for choice in step["oneOf"] if choice["properties"]["type"] == {"const": "EcsRunTask"}]
    field = kind["properties"]["spec"]["properties"]["runTaskRequestDefinition"]["properties"]
    assert field["type"] == {"enum": ["FileStore", "Git", "Inline", "S3"]}


def test_a_file_that_a_step_runs_is_not_deleted_unasked(drive: Drive) -> None:
    admin = User.objects.get(username="admin")
    file = FileNode.objects.get(path="/ECS Tutorial/Run task/RunTaskRequest.yaml")
    assert "pipeline Run task demo" in [usage.title for usage in find_usages(file, admin).visible]
    folder = FileNode.objects.get(path="/ECS Tutorial/Run task")
    assert "pipeline Run task demo" in [usage.title for usage in find_usages(folder, admin).visible]
    other = FileNode.objects.get(path="/ECS Tutorial/CreateServiceRequest.yaml")
    assert "pipeline Run task demo" not in [usage.title for usage in find_usages(other, admin).visible]
