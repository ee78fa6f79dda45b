"""The step that applies: its progress, outputs, secrets, failures and lost delegates."""

import pytest

from connectors.operations import create_secret
from deployments.models import AppliedConfiguration, AwsCall, StepExecution
from rbac.models import Scope, User
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text
from tests.fixtures.engine_driver import Drive
from tests.secret_watch.marker import planted
from tests.steps.kinds.conftest import Worker
from tests.steps.kinds.test_script import script_step, serve_until_over
from tests.stories.terraform.conftest import MAIN, States, needs_terraform, terraform_step

pytestmark = [needs_terraform, pytest.mark.django_db(transaction=True)]


def _step(name: str = "net") -> StepExecution:
    return StepExecution.objects.get(identifier=name, section="EXECUTION")


def test_an_apply_shows_its_progress_and_hands_on_its_outputs(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    use = script_step('echo "made <+steps.net.output.cluster_name> in <+steps.net.output.subnets>"', "use")
    ready = write(pipeline_text(stage_text(terraform_step(states) + use)))
    execution = serve_until_over(drive, ready.start(), worker)
    assert execution.status == "SUCCESS", execution.failure
    log = drive.log(execution)
    assert "terraform_data.cluster: Creating..." in log
    assert "Apply complete! Resources: 1 added, 0 changed, 0 destroyed." in log
    assert 'made dev-cluster in ["a", "b"]' in log
    assert not any("@level" in line for line in log)
    assert _step().outputs["cluster_name"] == "dev-cluster"
    assert _step().outputs["subnets"] == ["a", "b"]
    assert states.inputs() == ["dev-cluster"]
    assert not states.locks
    configuration = AppliedConfiguration.objects.get()
    assert (configuration.identifier, configuration.removed_at) == ("network", None)


def test_a_secret_reaches_the_program_and_neither_log_nor_journal(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    admin = User.objects.get(username="admin")
    project = Scope.objects.get(path="account/default/demo")
    value = planted("hunter2hunter2")
    create_secret(actor=admin, scope=project, identifier="token", name="Token", value=value)
    variables = (
        "variables: [{name: key, type: Secret, value: token}, {name: name, type: String, value: "
        '"<+secrets.getValue(\\"token\\")>"}]'
    )
    ready = write(pipeline_text(stage_text(terraform_step(states, variables=variables))))
    ready.deployer = admin
    execution = serve_until_over(drive, ready.start(), worker)
    assert execution.status == "SUCCESS", execution.failure
    # What holds a secret that was given is one, whatever the configuration says of it.
    assert _step().outputs == {"cluster_name": "•••", "secret": "•••", "subnets": ["a", "b"]}
    assert _step().secret_output_values["secret"] == f"{value}!"
    assert "hunter2" not in "".join(drive.log(execution))
    assert "hunter2" not in "".join(f"{call.parameters}{call.preview}" for call in AwsCall.objects.all())
    assert "hunter2" not in AppliedConfiguration.objects.get().parameters


def test_a_configuration_that_keeps_its_state_here_is_refused(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    main = 'variable "name" {}\nresource "terraform_data" "a" {}\n'
    text = terraform_step(states, main=main)
    text = "\n".join(
        line for line in text.splitlines() if "address" not in line and "backendConfig" not in line
    )
    text += "\n"
    execution = serve_until_over(drive, write(pipeline_text(stage_text(text))).start(), worker)
    assert execution.failure is not None
    assert execution.failure["code"] == "NO_BACKEND"
    assert 'backend "s3"' in execution.failure["message"]


def test_a_failure_says_where_and_why(write: Write, drive: Drive, worker: Worker, states: States) -> None:
    text = terraform_step(states, variables="variables: []")
    execution = serve_until_over(drive, write(pipeline_text(stage_text(text))).start(), worker)
    assert execution.failure is not None
    assert (execution.failure["code"], execution.failure["exit_code"]) == ("TERRAFORM_FAILED", 1)
    assert "No value for required variable\n  on main.tf, line 4" in execution.failure["message"]


def test_a_state_that_is_locked_says_how_to_unlock_it(
    write: Write, drive: Drive, worker: Worker, states: States
) -> None:
    states.locks["/main"] = (
        b'{"ID": "11111111-2222-3333-4444-555555555555", "Who": "ann", "Operation": "apply"}'
    )
    execution = serve_until_over(
        drive, write(pipeline_text(stage_text(terraform_step(states)))).start(), worker
    )
    assert execution.failure is not None
    assert "terraform force-unlock 11111111-2222-3333-4444-555555555555" in execution.failure["message"]


def test_a_state_may_lie_in_a_bucket(write: Write, drive: Drive, worker: Worker, states: States) -> None:
    drive.call("s3", "CreateBucket", {"Bucket": "our-states"})
    backend = f"""\
bucket = "our-states"
key    = "<+env.identifier>/network"
region = "us-east-1"
endpoints = {{ s3 = "{drive.sandbox.url}" }}
use_path_style = true
use_lockfile = true
skip_credentials_validation = true
skip_requesting_account_id = true
skip_metadata_api_check = true
"""
    keys = (
        "environmentVariables: [{name: AWS_ACCESS_KEY_ID, value: AKIASANDBOX}, "
        "{name: AWS_SECRET_ACCESS_KEY, value: x}]\n"
    )
    main = MAIN.replace('"http"', '"s3"')
    text = terraform_step(states, main=main, fields=keys, backend=backend)
    execution = serve_until_over(drive, write(pipeline_text(stage_text(text))).start(), worker)
    assert execution.status == "SUCCESS", execution.failure
    listing = drive.call("s3", "ListObjectsV2", {"Bucket": "our-states"})
    assert [entry["Key"] for entry in listing["Contents"]] == ["dev/network"]
