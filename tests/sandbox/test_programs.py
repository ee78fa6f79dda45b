"""A container of the delegate's image is a real process, with the environment and end that ECS gives it."""

import json
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from botocore.exceptions import ClientError

from sandbox.images import is_delegate
from sandbox.process import SandboxProcess, start_sandbox
from tests.contract.endpoint import CLUSTER, Aws
from tests.fixtures.processes import wait_until

IMAGE = "us-docker.pkg.dev/gar-prod-setup/harness-public/harness/delegate:3.0.0"
# Tells its environment, then waits for SIGTERM, says so and ends with code 3.
OBEDIENT = (
    "import json, os, signal, sys, time\n"
    "def end(*_):\n    print('draining', flush=True)\n    sys.exit(3)\n"
    "signal.signal(signal.SIGTERM, end)\n"
    "print('environment ' + json.dumps(dict(os.environ)), flush=True)\n"
    "while True:\n    time.sleep(60)\n"
)
STUBBORN = (
    "import signal, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "print('deaf', flush=True)\n"
    "time.sleep(600)\n"
)


@pytest.fixture(scope="module")
def obedient() -> Iterator[SandboxProcess]:
    process = start_sandbox(paused=False, speed=100, delegate_command=[sys.executable, "-c", OBEDIENT])
    yield process
    process.stop()


@pytest.fixture
def aws(obedient: SandboxProcess) -> Aws:
    account = Aws.pretend(obedient)
    account.empty()
    return account


def container(aws: Aws, **changes: Any) -> dict[str, Any]:
    return aws.container(image=IMAGE, portMappings=[{"containerPort": 8080}], **changes)


def run(aws: Aws, **changes: Any) -> str:
    """Start one Fargate task of the delegate's image and return its ARN."""
    definition = aws.register(containerDefinitions=[container(aws, **changes)])
    response = aws.ecs.run_task(
        cluster=CLUSTER, taskDefinition=definition, launchType="FARGATE", networkConfiguration=aws.network()
    )
    return str(response["tasks"][0]["taskArn"])


def task(aws: Aws, arn: str) -> dict[str, Any]:
    description: dict[str, Any] = aws.ecs.describe_tasks(cluster=CLUSTER, tasks=[arn])["tasks"][0]
    return description


def until_status(aws: Aws, arn: str, status: str) -> dict[str, Any]:
    wait_until(lambda: task(aws, arn)["lastStatus"] == status, f"{status} of the task")
    return task(aws, arn)


def environment(aws: Aws, arn: str) -> dict[str, str]:
    """Return the environment that the process printed to its log group."""

    def list_environment_lines() -> list[str]:
        return [line for line in aws.log_lines(task(aws, arn)) if line.startswith("environment ")]

    wait_until(list_environment_lines, "the environment in the log group")
    variables: dict[str, str] = json.loads(list_environment_lines()[0].removeprefix("environment "))
    return variables


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"


def test_it_runs_with_what_the_task_definition_and_secrets_manager_say(aws: Aws) -> None:
    secret = aws.client("secretsmanager").create_secret(Name="harness/token", SecretString='{"token": "s3"}')
    arn = run(
        aws,
        environment=[{"name": "HARNESS_NAME", "value": "fargate"}, {"name": "LD_PRELOAD", "value": "/tmp/x"}],
        secrets=[{"name": "HARNESS_TOKEN", "valueFrom": f"{secret['ARN']}:token::"}],
    )
    until_status(aws, arn, "RUNNING")
    variables = environment(aws, arn)
    assert (variables["HARNESS_NAME"], variables["HARNESS_TOKEN"]) == ("fargate", "s3")
    assert variables["SLIPWAY_DELEGATE_PORT"] == "0"
    assert Path(variables["HOME"]).is_dir()
    assert variables["AWS_ENDPOINT_URL"] == aws.sandbox.url
    assert not {"LD_PRELOAD", "SECRET_KEY", "DJANGO_SETTINGS_MODULE"} & variables.keys()


def test_a_name_of_a_secret_without_its_last_six_characters_will_do(aws: Aws) -> None:
    aws.client("secretsmanager").create_secret(Name="harness/delegate-token", SecretString="plain")
    secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:harness/delegate-token"
    arn = run(aws, secrets=[{"name": "HARNESS_TOKEN", "valueFrom": secret_arn}])
    assert environment(aws, until_status(aws, arn, "RUNNING")["taskArn"])["HARNESS_TOKEN"] == "plain"


def test_a_missing_secret_stops_the_task_with_the_reason_of_ecs(aws: Aws) -> None:
    secret_arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:nowhere"
    stopped = until_status(aws, run(aws, secrets=[{"name": "A", "valueFrom": secret_arn}]), "STOPPED")
    assert stopped["stopCode"] == "TaskFailedToStart"
    assert stopped["stoppedReason"].startswith("ResourceInitializationError: unable to pull secrets")
    assert secret_arn in stopped["stoppedReason"]


def test_a_missing_log_group_stops_the_task_unless_it_may_be_made(aws: Aws) -> None:
    options = {"awslogs-group": "/ecs/absent", "awslogs-region": "us-east-1", "awslogs-stream-prefix": "ecs"}
    log = {"logDriver": "awslogs", "options": options}
    stopped = until_status(aws, run(aws, logConfiguration=log), "STOPPED")
    assert stopped["stoppedReason"].startswith("ResourceInitializationError: failed to validate logger args")
    log["options"] = {**options, "awslogs-create-group": "true"}
    until_status(aws, run(aws, logConfiguration=log), "RUNNING")


def test_it_can_ask_who_it_is_and_call_aws(aws: Aws) -> None:
    aws.create(taskDefinition=aws.register(containerDefinitions=[container(aws)]))
    wait_until(lambda: [t for t in aws.tasks() if t["lastStatus"] == "RUNNING"], "a running task")
    (running,) = aws.tasks()
    variables = environment(aws, running["taskArn"])
    with urlopen(variables["ECS_CONTAINER_METADATA_URI_V4"] + "/task") as answer:
        document = json.load(answer)
    assert document["TaskARN"] == running["taskArn"]
    assert document["Cluster"] == running["clusterArn"]
    assert (document["Family"], document["Revision"]) == ("myapp", "1")
    assert (document["ServiceName"], document["LaunchType"]) == ("myapp", "FARGATE")
    assert document["AvailabilityZone"] == running["availabilityZone"]
    with urlopen(variables["ECS_CONTAINER_METADATA_URI_V4"]) as answer:
        inner = json.load(answer)
    assert inner["Networks"][0]["IPv4Addresses"] == [
        running["containers"][0]["networkInterfaces"][0]["privateIpv4Address"]
    ]
    with urlopen(variables["AWS_CONTAINER_CREDENTIALS_FULL_URI"]) as answer:
        keys = json.load(answer)
    assert {"AccessKeyId", "SecretAccessKey", "Token", "Expiration"} <= keys.keys()


def test_stopping_asks_it_to_end_and_tells_its_exit_code(aws: Aws) -> None:
    arn = run(aws)
    until_status(aws, arn, "RUNNING")
    environment(aws, arn)
    aws.ecs.stop_task(cluster=CLUSTER, task=arn)
    stopped = until_status(aws, arn, "STOPPED")
    assert stopped["containers"][0]["exitCode"] == 3
    assert aws.log_lines(stopped)[-1] == "draining"
    assert aws.sandbox.programs() == []


def test_an_end_of_its_own_stops_the_task(aws: Aws) -> None:
    arn = run(aws)
    until_status(aws, arn, "RUNNING")
    (program,) = aws.sandbox.programs()
    os.killpg(program["pid"], signal.SIGKILL)
    stopped = until_status(aws, arn, "STOPPED")
    assert stopped["stopCode"] == "EssentialContainerExited"
    assert stopped["containers"][0]["exitCode"] == 137


def test_whoever_does_not_end_is_killed_after_its_stop_timeout() -> None:
    sandbox = start_sandbox(paused=False, speed=100, delegate_command=[sys.executable, "-c", STUBBORN])
    try:
        aws = Aws.pretend(sandbox)
        arn = run(aws, stopTimeout=2)
        running = until_status(aws, arn, "RUNNING")
        wait_until(lambda: aws.log_lines(running) == ["deaf"], "its first word")
        aws.ecs.stop_task(cluster=CLUSTER, task=arn)
        assert until_status(aws, arn, "STOPPED")["containers"][0]["exitCode"] == 137
    finally:
        sandbox.kill()


def test_processes_end_with_the_sandbox_and_come_back_with_it(tmp_path: Path) -> None:
    command = [sys.executable, "-c", OBEDIENT]
    sandbox = start_sandbox(paused=False, speed=100, delegate_command=command, state=tmp_path)
    try:
        aws = Aws.pretend(sandbox)
        arn = run(aws)
        until_status(aws, arn, "RUNNING")
        home, pid = (sandbox.programs()[0][name] for name in ("home", "pid"))
        sandbox.stop()
        wait_until(lambda: not is_alive(pid), "the end of the process")
        sandbox = start_sandbox(paused=False, speed=100, delegate_command=command, state=tmp_path)
        aws = Aws.pretend(sandbox)
        wait_until(sandbox.programs, "the process after the restart")
        (program,) = sandbox.programs()
        assert (program["task"], program["home"]) == (arn, home)
        assert task(aws, arn)["lastStatus"] == "RUNNING"
    finally:
        sandbox.kill()
    wait_until(lambda: not is_alive(program["pid"]), "the end of the process")


@pytest.mark.parametrize(
    ("image", "is_real"),
    [
        ("harness/delegate:22.12.77802", True),
        (IMAGE, True),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/slipway-delegate@sha256:abc", True),
        ("slipway-delegate", True),
        ("myapp:1", False),
        ("harness/delegate:crash", False),
        ("not-slipway-delegate", False),
    ],
)
def test_the_image_decides_what_really_runs(image: str, is_real: bool) -> None:
    assert is_delegate(image) is is_real


def test_delegates_can_be_kept_from_running(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLIPWAY_SANDBOX_DELEGATE_COMMAND", "off")
    assert not is_delegate(IMAGE)


def test_a_hostname_is_for_bridge_networks_only(aws: Aws) -> None:
    with pytest.raises(ClientError, match="hostname is not supported on container when networkMode=awsvpc"):
        aws.register(containerDefinitions=[container(aws, hostname="mine")])
    bridge: dict[str, Any] = {"requiresCompatibilities": ["EC2"], "networkMode": "bridge"}
    aws.register(containerDefinitions=[container(aws, hostname="mine")], **bridge)
