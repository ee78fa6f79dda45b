"""Variables that are secrets, in the texts of steps: known to who does the work, and shown to nobody."""

import json

import pytest

from deployments.execution.documents import build_execution_document
from deployments.models import AwsCall, Execution, StepExecution
from rbac.models import Scope, UserGroup
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.secret_watch.marker import planted
from tests.steps.kinds.conftest import Site
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)

VARIABLES = "{token: {type: Secret, required: true}}"
APPROVERS = "approvers: {userGroups: [a]}"
NAMED = "<+pipeline.variables.token>"


def _read_all_texts(execution: Execution, drive: Drive) -> str:
    """Return all readable texts of an execution."""
    calls = [str(call.preview) for call in AwsCall.objects.filter(execution=execution)]
    document = json.dumps(build_execution_document(execution, drive.deployer), ensure_ascii=False)
    return "\n".join([*drive.log(execution), *calls, document])


def test_a_request_carries_a_secret_input_in_every_text_and_nobody_reads_it(
    write: Write, drive: Drive, site: Site
) -> None:
    secret = planted("hush-hush-42")
    site.body = f'{{"said": "{secret}"}}'
    ask = f"""- step:
    identifier: ask
    type: Http
    spec:
      url: {site.url}/{NAMED}
      method: POST
      headers: [{{key: X-Token, value: "Bearer {NAMED}"}}]
      requestBody: '{{"token": "<+variables.token>"}}'
      outputVariables: [{{name: echo, value: <+json.said>}}]
- step:
    identifier: again
    type: Http
    spec: {{url: {site.url}/, method: POST, requestBody: <+steps.ask.output.echo>}}
"""
    execution = write(pipeline_text(stage_text(ask), variables=VARIABLES)).run(inputs={"token": secret})
    assert execution.status == "SUCCESS", execution.failure
    (_, path, headers, body), (_, _, _, handed_on) = site.requests
    assert (path, headers["X-Token"], body) == (f"/{secret}", f"Bearer {secret}", f'{{"token": "{secret}"}}')
    # What an answer says of it again is known to later steps, and hidden like the secret itself.
    assert handed_on == secret
    step = StepExecution.objects.get(stage__execution=execution, identifier="ask")
    assert (step.outputs["echo"], step.outputs["httpUrl"]) == ("•••", f"{site.url}/•••")
    assert secret not in _read_all_texts(execution, drive)

    site.status = 500
    failed = drive.run(inputs={"token": secret})
    assert failed.failure["code"] == "HTTP_STATUS"
    assert secret not in _read_all_texts(failed, drive)


@pytest.mark.parametrize(
    ("step", "location"),
    [
        (
            f"type: HarnessApproval, spec: {{approvalMessage: 'Go {NAMED}?', {APPROVERS}}}",
            "approvalMessage",
        ),
        (f"type: EcsScale, spec: {{service: '{NAMED}', instances: 1}}", "service"),
        (f"type: Wait, spec: {{duration: 1s}}, when: {{condition: '{NAMED} == 1'}}", "when.condition"),
    ],
)
def test_a_secret_input_is_refused_with_the_reason_where_people_would_read_it(
    write: Write, step: str, location: str
) -> None:
    UserGroup.objects.create(scope=Scope.objects.account(), identifier="a", name="A")
    text = pipeline_text(stage_text(f"- step: {{identifier: one, {step}}}\n"), variables=VARIABLES)
    with pytest.raises(BadInput) as refused:
        write(text)
    error_text = str(refused.value.errors)
    assert location in error_text
    assert f"{NAMED} is a secret and this field is not redacted" in error_text
