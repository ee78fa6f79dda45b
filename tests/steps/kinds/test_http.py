"""The step that sends a request: its answer is judged, kept, and hides secrets."""

import pytest

from connectors.operations import create_secret
from delegates.models import Delegate, DelegateTask
from delegates.task_queue import route_waiting_tasks
from deployments.models import AwsCall, StepExecution
from pipelines.operations.pipelines import PipelineNotRunnable
from rbac.models import Scope, User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import hand
from tests.secret_watch.marker import planted
from tests.steps.kinds.conftest import Site, Worker
from web.clock import get_database_time

pytestmark = pytest.mark.django_db(transaction=True)


def http_text(url: str, options: str = "") -> str:
    """Return a pipeline with one Http step; `options` is YAML in one line."""
    spec = f"{{url: '{url}', {options}}}"
    return pipeline_text(stage_text(f"- step: {{identifier: ask, type: Http, spec: {spec}}}"))


def test_an_answer_is_judged_and_handed_on(write: Write, drive: Drive, site: Site) -> None:
    options = (
        "method: POST, requestBody: 'of <+service.name>', "
        "assertion: '<+httpResponseCode> == 200 && <+json.state> == \"green\"', "
        "outputVariables: [{name: build, value: <+json.build.number>}]"
    )
    execution = write(http_text(f"{site.url}/health", options)).run()
    assert execution.status == "SUCCESS", execution.failure
    assert [(method, path, body) for method, path, _, body in site.requests] == [
        ("POST", "/health", "of My app")
    ]
    outputs = StepExecution.objects.get(stage__execution=execution, identifier="ask").outputs
    assert (outputs["httpResponseCode"], outputs["build"]) == (200, "7")
    assert "Response: HTTP status 200" in drive.log(execution)


@pytest.mark.parametrize(
    ("status", "options", "code", "message"),
    [
        (503, "", "HTTP_STATUS", "HTTP status 503"),
        (200, "assertion: '<+httpResponseCode> == 204'", "ASSERTION_FAILED", "with HTTP status 200"),
        (
            200,
            "assertion: '<+json.colour> == 1'",
            "ASSERTION_FAILED",
            "<+json.colour> is unknown here",
        ),
    ],
)
def test_an_answer_that_is_not_as_wanted_fails_the_step(
    write: Write, site: Site, status: int, options: str, code: str, message: str
) -> None:
    site.status = status
    execution = write(http_text(site.url, options)).run()
    assert execution.failure is not None
    assert execution.failure["code"] == code
    assert message in execution.failure["message"]
    assert len(site.requests) == 1


def test_a_secret_header_reaches_the_server_and_nobody_else(write: Write, drive: Drive, site: Site) -> None:
    admin = User.objects.get(username="admin")
    project = Scope.objects.get(path="account/default/demo")
    create_secret(
        actor=admin, scope=project, identifier="token", name="Token", value=planted("hunter2hunter2")
    )
    site.body = "you said {authorization}"
    options = "headers: [{key: Authorization, value: '<+secrets.getValue(\"token\")>'}]"
    ready = write(http_text(site.url, options))
    ready.deployer = admin
    execution = ready.run()
    assert execution.status == "SUCCESS", execution.failure
    assert site.requests[0][2]["Authorization"] == planted("hunter2hunter2")
    step = StepExecution.objects.get(stage__execution=execution, identifier="ask")
    assert step.outputs["httpResponseBody"] == "you said •••"
    call_texts = [call.parameters + str(call.preview) + call.result for call in AwsCall.objects.all()]
    assert "hunter2" not in "".join(call_texts)


def test_an_address_inside_is_refused_however_it_came_there(write: Write) -> None:
    text = http_text("http://<+pipeline.variables.host>/latest/meta-data/")
    ready = write(text.replace("variables: {}", "variables: {host: example.com}"))
    execution = ready.run(inputs={"host": "169.254.169.254"})
    assert execution.failure is not None
    assert execution.failure["code"] == "ADDRESS_REFUSED"


@pytest.mark.parametrize(
    ("url", "options", "message"),
    [
        ("http://169.254.169.254/latest/meta-data/", "", "url: "),
        ("ftp://example.com/", "", "must begin with https:// or http://"),
        ("https://example.com/", "method: FETCH", "method is one of GET"),
        ("https://example.com/", "assertion: '<+httpResponseCode> = 200'", "assertion:"),
        ("https://example.com/", "headers: [{key: 'a b', value: c}]", "is not the name of a header"),
    ],
)
def test_a_request_that_cannot_be_is_refused_when_saved(
    write: Write, url: str, options: str, message: str
) -> None:
    with pytest.raises(PipelineNotRunnable) as refused:
        write(http_text(url, options))
    assert message in str(refused.value.errors)


def test_what_one_delegate_cannot_reach_another_one_asks(
    write: Write, drive: Drive, site: Site, worker: Worker
) -> None:
    far = hand("far", tags=("scripts",), hostname="ip-10-0-1-8")
    Delegate.objects.filter(name="scripts").update(draining=True)
    text = http_text(site.url, "method: POST")
    execution = write(text.replace("type: Http,", "type: Http, delegateSelectors: [scripts],")).start()
    while not DelegateTask.objects.exists():
        drive.pass_time(1)
    route_waiting_tasks(get_database_time())
    Delegate.objects.filter(name="scripts").update(draining=False)
    far.refuse("no connection to the site")
    while not execution.is_over:
        worker.serve()
        drive.pass_time(1)
        execution.refresh_from_db()
    assert execution.status == "SUCCESS", execution.failure
    assert len(site.requests) == 1
    assert (
        "far on ip-10-0-1-8 could not begin it: no connection to the site. Another delegate gets this task."
        in drive.log(execution)
    )


def test_an_address_that_cannot_be_read_fails_the_step_of_a_delegate(
    write: Write, drive: Drive, worker: Worker
) -> None:
    text = http_text("<+pipeline.variables.url>/health").replace("variables: {}", "variables: {url: a.b}")
    fields = (
        "type: Http, delegateSelectors: [scripts], "
        "failureStrategies: [{onFailure: {errors: [AllErrors], action: {type: Ignore}}}],"
    )
    execution = write(text.replace("type: Http,", fields)).start(inputs={"url": "https://[bad"})
    while not execution.is_over:
        worker.serve()
        drive.pass_time(1)
        execution.refresh_from_db()
    step = StepExecution.objects.get(stage__execution=execution, identifier="ask")
    assert step.status == "IGNORE_FAILED", execution.failure
    assert step.failure is not None
    assert step.failure["code"] == "BAD_PARAMETERS"
