"""A delegate made by its own generated spec connects: on sandbox Fargate and EC2, and as a local process."""

import json
import shlex
from typing import Any

import pytest

from delegates.operations.tasks import submit_task
from rbac.models import Scope
from sandbox.process import SandboxProcess
from tests.contract.endpoint import client
from tests.fixtures.agents import Api, StartAgent
from tests.fixtures.processes import wait_until
from tests.stories.delegates import aws_commands

pytestmark = pytest.mark.django_db(transaction=True)
Spec = dict[str, Any]


@pytest.fixture(autouse=True)
def _empty_account(pretend_aws: SandboxProcess) -> None:
    pretend_aws.reset()


def spec(api: Api, sandbox: SandboxProcess, name: str, **values: Any) -> Spec:
    """Return the API's task spec for a delegate in the sandbox's account."""
    seed = sandbox.seed()
    network = {
        "subnets": list(seed["subnets"]),
        "security_groups": [seed["security_group"]],
        "assign_public_ip": True,
    }
    location = {"aws_account_id": seed["account"], "region": seed["region"], "network": network}
    body = {"name": name, "token_id": api.token(f"of {name}")["id"], **location, **values}
    task_spec: Spec = api("POST", "delegates/task-spec", body)
    return task_spec


def follow(sandbox: SandboxProcess, task_spec: Spec) -> None:
    """Run the commands of the spec in order, as a user would."""
    for command in task_spec["commands"]:
        aws_commands.run(sandbox.url, command["command"], task_spec["files"])


def variables_of(task_spec: Spec) -> dict[str, str]:
    """The environment in the spec's `docker run`."""
    words = next(shlex.split(c["command"]) for c in task_spec["commands"] if "docker run" in c["command"])
    pairs = [value for flag, value in zip(words, words[1:], strict=False) if flag in ("-e", "--env")]
    return dict(pair.split("=", 1) for pair in pairs)


@pytest.mark.parametrize("launch_type", ["FARGATE", "EC2"])
@pytest.mark.parametrize("flavour", ["legacy", "v3"])
def test_the_generated_spec_ends_connected_and_its_service_s_end_says_why_it_is_gone(
    api: Api, pretend_aws: SandboxProcess, flavour: str, launch_type: str
) -> None:
    name = f"{flavour}-{launch_type.lower()}"
    task_spec = spec(api, pretend_aws, name, flavour=flavour, launch_type=launch_type, hostname="told")
    follow(pretend_aws, task_spec)
    row = api.until(name, "CONNECTED")
    (instance,) = row["instances"]
    (program,) = pretend_aws.programs()
    assert instance["key"] == program["task"]
    # Fargate takes no hostname, and the spec leaves it out.
    assert (instance["hostname"] == "told") is (launch_type == "EC2")
    cluster = program["task"].split("/")[1]
    ecs = client(pretend_aws.url, "ecs")
    (service,) = ecs.list_services(cluster=cluster)["serviceArns"]
    ecs.update_service(cluster=cluster, service=service, desiredCount=0)
    row = api.until(name, "DISCONNECTED")
    events = api("GET", f"delegates/{row['id']}/events")["results"]
    assert ("GONE", f"{instance['hostname']} signed off.") in [(e["kind"], e["text"]) for e in events]


def test_the_token_may_come_from_secrets_manager(api: Api, pretend_aws: SandboxProcess) -> None:
    task_spec = spec(api, pretend_aws, "secretive", launch_type="FARGATE", secret={"kind": "CREATE"})
    assert "slp_dlt_" not in task_spec["files"]["fargate-task-definition.json"]
    follow(pretend_aws, task_spec)
    api.until("secretive", "CONNECTED")


@pytest.mark.parametrize("flavour", ["legacy", "v3"])
def test_the_environment_of_docker_run_does_for_a_local_process(
    api: Api, pretend_aws: SandboxProcess, start_agent: StartAgent, flavour: str
) -> None:
    task_spec = spec(api, pretend_aws, f"docker-{flavour}", kind="DOCKER", flavour=flavour)
    agent = start_agent(variables_of(task_spec))
    api.until(f"docker-{flavour}", "CONNECTED")
    agent.end(within=15)
    api.until(f"docker-{flavour}", "DISCONNECTED")


def test_it_calls_aws_with_the_role_of_its_task(
    api: Api, pretend_aws: SandboxProcess, account: Scope, live_broker: str
) -> None:
    follow(pretend_aws, spec(api, pretend_aws, "caller", launch_type="FARGATE", task_role="delegate-role"))
    api.until("caller", "CONNECTED")
    request = {"service": "sts", "operation": "GetCallerIdentity", "params": {}, "region": "us-east-1"}
    payload = {**request, "endpoint_url": None, "credentials": {"kind": "own"}}
    task = submit_task(scope=account, kind="aws", title="Who am I?", payload=payload, selectors=["caller"])

    def is_ended() -> bool:
        task.refresh_from_db()
        return not task.is_open

    wait_until(is_ended, "the answer")
    assert task.status == task.Status.SUCCEEDED, task.reason
    (program,) = pretend_aws.programs()
    number = program["task"].rpartition("/")[2]
    assert json.loads(task.result)["Arn"].endswith(f":assumed-role/delegate-role/{number}")


def test_a_killed_task_is_replaced_by_another_instance_of_the_same_delegate(
    api: Api, pretend_aws: SandboxProcess
) -> None:
    follow(pretend_aws, spec(api, pretend_aws, "replaced", launch_type="FARGATE"))
    api.until("replaced", "CONNECTED")
    (before,) = pretend_aws.programs()
    ecs = client(pretend_aws.url, "ecs")
    ecs.stop_task(cluster=before["task"].split("/")[1], task=before["task"])

    def list_connected_keys() -> list[str]:
        instances = api.delegate("replaced")["instances"]
        return [row["key"] for row in instances if row["status"] == "CONNECTED"]

    wait_until(lambda: list_connected_keys() not in ([], [before["task"]]), "another instance", 40)
