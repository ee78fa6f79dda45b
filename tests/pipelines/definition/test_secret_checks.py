"""Secrets in fields that take none: refused with their place when saved, when imported and by a run."""

import pytest
from rest_framework.test import APIClient

from catalog.manifests.checks import check_manifest
from catalog.manifests.documents import parse_document
from catalog.manifests.kinds import TASK_DEFINITION
from deployments.models import Execution
from pipelines.definition.parser import InvalidPipelineError, parse_pipeline
from pipelines.models import Pipeline
from pipelines.operations.pipelines import PipelineNotRunnable
from rbac.models import Scope, User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text

SECRET = '<+secrets.getValue("account.token")>'
STEPS = "pipeline.stages.0.stage.spec.execution.steps.0.step"


def text_of(type_: str, spec: str, *, more: str = "", variables: str = "{}") -> str:
    step = f"- step:\n    identifier: one\n    type: {type_}\n{more}    spec: {spec}\n"
    return pipeline_text(stage_text(step), variables=variables)


REFUSED = [
    ("Http", f"{{url: 'https://a/{SECRET}'}}", "spec.url"),
    ("Http", f"{{url: https://a/, requestBody: '{SECRET}'}}", "spec.requestBody"),
    ("Http", f"{{url: https://a/, headers: [{{key: a, value: 'Bearer {SECRET}'}}]}}", "spec.headers.0.value"),
    (
        "Http",
        f"{{url: https://a/, outputVariables: [{{name: a, value: '{SECRET}'}}]}}",
        "spec.outputVariables.0.value",
    ),
    ("EcsScale", f"{{service: '{SECRET}', instances: 1}}", "spec.service"),
    ("EcsRollingDeploy", f"{{forceNewDeployment: '{SECRET}'}}", "spec.forceNewDeployment"),
    (
        "EcsRunTask",
        f"{{taskDefinition: {{type: Inline, spec: {{content: 'a: {SECRET}'}}}},"
        " runTaskRequestDefinition: {type: Inline, spec: {content: a}}}",
        "spec.taskDefinition.spec.content",
    ),
    ("ShellScript", "{shell: Bash, script: \"echo <+secrets.getValue('token')>\"}", "spec.script"),
]


@pytest.mark.parametrize(
    ("type_", "spec", "place"), REFUSED, ids=lambda value: value if "." in value[:6] else ""
)
def test_a_secret_where_a_step_takes_none_is_refused_with_its_place(
    type_: str, spec: str, place: str
) -> None:
    with pytest.raises(InvalidPipelineError) as refused:
        parse_pipeline(text_of(type_, spec))
    (problem,) = refused.value.problems
    assert problem.path == f"{STEPS}.{place}"
    assert problem.line
    assert "secrets.getValue(" in problem.message


@pytest.mark.parametrize(
    ("type_", "spec"),
    [
        ("Http", f"{{url: https://a/, headers: [{{key: a, value: '{SECRET}'}}]}}"),
        ("ShellScript", f"{{shell: Bash, script: 'echo {SECRET} | wc'}}"),
        ("ShellScript", f"{{shell: Bash, source: {{type: Inline, spec: {{script: 'echo {SECRET}'}}}}}}"),
        (
            "ShellScript",
            f"{{shell: Bash, script: a, environmentVariables: [{{name: A, value: '{SECRET}'}}]}}",
        ),
        (
            "CreateStack",
            f"{{stackName: a, templateUrl: https://s3/, parameters: [{{name: A, value: '{SECRET}'}}]}}",
        ),
    ],
)
def test_a_secret_where_a_step_takes_one_is_saved(type_: str, spec: str) -> None:
    parse_pipeline(text_of(type_, spec))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        (
            text_of("Wait", "{duration: 1s}", more=f"    when: {{condition: '{SECRET} == 1'}}\n"),
            f"{STEPS}.when.condition",
        ),
        (text_of("Wait", "{duration: 1s}", variables=f"{{a: '{SECRET}'}}"), "pipeline.variables.a"),
        (
            text_of("Wait", "{duration: 1s}").replace(
                "EcsRollingRollback", f"EcsRollingRollback, name: '{SECRET}'"
            ),
            "pipeline.stages.0.stage.spec.execution.rollbackSteps.0.step.name",
        ),
    ],
)
def test_so_is_one_outside_of_steps(text: str, place: str) -> None:
    with pytest.raises(InvalidPipelineError) as refused:
        parse_pipeline(text)
    assert [problem.path for problem in refused.value.problems] == [place]


def test_an_input_that_is_a_secret_is_refused_where_people_read_it() -> None:
    variables = "{token: {type: Secret, required: true}}"
    with pytest.raises(InvalidPipelineError) as refused:
        parse_pipeline(
            text_of("EcsScale", "{service: <+pipeline.variables.token>, instances: 1}", variables=variables)
        )
    assert [problem.path for problem in refused.value.problems] == [f"{STEPS}.spec.service"]
    parse_pipeline(text_of("Http", "{url: 'https://a/<+pipeline.variables.token>'}", variables=variables))


def test_a_run_of_a_pipeline_that_was_saved_before_is_refused_with_the_place(write: Write) -> None:
    ready = write(text_of("Wait", "{duration: 1s}"))
    Pipeline.objects.update(yaml=text_of("EcsScale", f"{{service: '{SECRET}', instances: 1}}"))
    ready.pipeline.refresh_from_db()
    with pytest.raises(PipelineNotRunnable) as refused:
        ready.start()
    assert [error["path"] for error in refused.value.errors] == [f"{STEPS}.spec.service"]
    assert not Execution.objects.exists()


def test_a_manifest_with_a_secret_is_refused_with_line_and_path() -> None:
    text = f"family: app\ncontainerDefinitions:\n- name: app\n  image: nginx\n  command: ['{SECRET}']\n"
    problems = check_manifest(TASK_DEFINITION, parse_document(text, "task.yaml")).problems
    (secret_problem,) = [problem for problem in problems if "secrets.getValue" in problem.message]
    assert secret_problem.path.startswith("containerDefinitions")
    assert secret_problem.line == 5
    assert "valueFrom" in secret_problem.message


@pytest.mark.django_db
def test_a_service_with_a_secret_is_not_saved(project: Scope, admin: User) -> None:
    program = APIClient()
    program.force_authenticate(admin)
    service = {
        "org": "default",
        "project": "demo",
        "identifier": "app",
        "name": "App",
        "variables": {"good": "b", "token": SECRET},
        "manifests": [
            {
                "identifier": "task",
                "kind": TASK_DEFINITION,
                "store": "Inline",
                "content": f"family: '{SECRET}'\n",
            }
        ],
    }
    answer = program.post("/api/v1/services", service, format="json")
    assert answer.status_code == 400
    messages = {error["path"]: error["message"] for error in answer.json()["errors"]}
    assert set(messages) == {"variables.token", "manifests.0"}
    assert messages["manifests.0"].startswith("line 1: family: <+secrets.getValue")
