"""The template that installs Slipway on Amazon ECS: what CloudFormation accepts, and what it promises."""

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import cfnlint.decode.cfn_yaml
import pytest

from config.environment import EnvironmentSettings
from ops.documentation.settings import STARTERS, list_names

ROOT = Path(__file__).resolve().parents[2]
TEMPLATE = ROOT / "deploy" / "cloudformation" / "slipway.yaml"


@pytest.fixture(scope="module")
def resources() -> dict[str, Any]:
    template = cfnlint.decode.cfn_yaml.load(str(TEMPLATE))
    rows: dict[str, Any] = json.loads(json.dumps(template["Resources"]))
    return rows


def list_services(resources: dict[str, Any]) -> dict[str, Any]:
    return {name: row["Properties"] for name, row in resources.items() if row["Type"] == "AWS::ECS::Service"}


def list_containers(resources: dict[str, Any]) -> dict[str, Any]:
    return {
        name: row["Properties"]["ContainerDefinitions"][0]
        for name, row in resources.items()
        if row["Type"] == "AWS::ECS::TaskDefinition"
    }


def test_cloudformation_accepts_the_template() -> None:
    command = [str(Path(sys.executable).with_name("cfn-lint")), str(TEMPLATE)]
    run = subprocess.run(command, check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)

    assert (run.returncode, run.stdout) == (0, "")


def test_every_role_of_the_image_has_a_task_with_the_same_settings(resources: dict[str, Any]) -> None:
    containers = list_containers(resources)

    assert {container["Command"][0] for container in containers.values()} == {
        "web",
        "worker",
        "beat",
        "migrate",
    }
    shared = [
        {key: container[key] for key in ("Image", "Environment", "Secrets", "LogConfiguration")}
        for container in containers.values()
    ]
    assert all(part == shared[0] for part in shared)


def test_every_variable_is_a_setting_and_no_secret_is_in_the_open(resources: dict[str, Any]) -> None:
    known = {name for field in EnvironmentSettings.model_fields.values() for name in list_names(field)}
    known |= {name for name, _, _ in STARTERS}
    container = next(iter(list_containers(resources).values()))
    open_names = {entry["Name"] for entry in container["Environment"]}
    secret_names = {entry["Name"] for entry in container["Secrets"]}

    assert (open_names | secret_names) - known == set()
    assert secret_names == {"SECRET_KEY", "FIELD_ENCRYPTION_KEY", "DATABASE_PASSWORD", "REDIS_PASSWORD"}
    assert set(EnvironmentSettings.REQUIRED_IN_PRODUCTION) <= open_names | secret_names


def test_services_are_replaced_only_after_the_migration(resources: dict[str, Any]) -> None:
    for name in list_services(resources):
        assert "Migration" in resources[name]["DependsOn"], name
    assert resources["Migration"]["Properties"]["TaskDefinition"] == {"Ref": "MigrationTask"}


def test_workers_are_replaced_before_web_servers_and_beat_last(resources: dict[str, Any]) -> None:
    assert "WorkerService" in resources["WebService"]["DependsOn"]
    assert "WebService" in resources["BeatService"]["DependsOn"]


def test_a_web_task_becomes_healthy_without_what_starts_after_it(resources: dict[str, Any]) -> None:
    # The installation is ready only once beat runs, which starts after the web service is healthy.
    assert resources["TargetGroup"]["Properties"]["HealthCheckPath"] == "/healthz"


def test_only_load_balancers_may_say_who_calls(resources: dict[str, Any]) -> None:
    for container in list_containers(resources).values():
        (trusted,) = (row for row in container["Environment"] if row["Name"] == "FORWARDED_ALLOW_IPS")
        assert trusted["Value"] == {"Fn::Join": [",", {"Ref": "PublicSubnetCidrs"}]}


def test_the_doctor_checks_connectors_with_the_role_of_the_workers(resources: dict[str, Any]) -> None:
    roles = {name: resources[name]["Properties"]["TaskRoleArn"] for name in ("WorkerTask", "BeatTask")}
    assert roles["BeatTask"] == roles["WorkerTask"]
    entered = {
        name for name, row in list_services(resources).items() if row.get("EnableExecuteCommand", False)
    }
    assert entered == {"BeatService"}


def test_web_and_workers_stay_while_they_are_replaced_and_beat_runs_once(resources: dict[str, Any]) -> None:
    percents = {
        name: (
            properties["DeploymentConfiguration"]["MinimumHealthyPercent"],
            properties["DeploymentConfiguration"]["MaximumPercent"],
        )
        for name, properties in list_services(resources).items()
    }

    assert percents == {"WebService": (100, 200), "WorkerService": (100, 200), "BeatService": (0, 100)}


def test_only_the_load_balancer_reaches_the_tasks_and_only_tasks_the_data(resources: dict[str, Any]) -> None:
    rules = {
        name: {
            (rule["FromPort"], json.dumps(rule.get("SourceSecurityGroupId") or rule.get("CidrIp")))
            for rule in row["Properties"]["SecurityGroupIngress"]
        }
        for name, row in resources.items()
        if row["Type"] == "AWS::EC2::SecurityGroup"
    }

    assert rules["TaskSecurityGroup"] == {(8000, '{"Ref": "LoadBalancerSecurityGroup"}')}
    tasks = '{"Ref": "TaskSecurityGroup"}'
    assert rules["DataSecurityGroup"] == {(5432, tasks), (6379, tasks)}
    assert resources["Database"]["Properties"]["PubliclyAccessible"] is False


def test_what_cannot_be_made_again_outlives_the_stack(resources: dict[str, Any]) -> None:
    kept = {name for name, row in resources.items() if row.get("DeletionPolicy") in ("Retain", "Snapshot")}

    assert kept == {"Database", "DatabasePassword", "FieldEncryptionKey", "LogGroup", "SecretKey"}


def test_roles_have_no_wildcard_actions(resources: dict[str, Any]) -> None:
    text = json.dumps([row for row in resources.values() if row["Type"].startswith("AWS::IAM::")])

    assert not re.search(r'"[a-z0-9]+:\*"', text)
    assert '"Action": "*"' not in text


def test_connectors_may_tag_the_sessions_of_the_roles_that_they_assume(resources: dict[str, Any]) -> None:
    (statement,) = resources["DeploymentRolesPolicy"]["Properties"]["PolicyDocument"]["Statement"]

    assert statement["Action"] == ["sts:AssumeRole", "sts:TagSession"]
    assert statement["Resource"] == {"Ref": "DeploymentRoleArns"}


def test_the_migration_function_fits_into_the_template_and_compiles(resources: dict[str, Any]) -> None:
    code = resources["MigrationFunction"]["Properties"]["Code"]["ZipFile"]

    assert len(code) <= 4096
    compile(code, "index.py", "exec")


def test_the_migration_function_waits_for_a_task_that_is_not_visible_yet(
    resources: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    ended = {"lastStatus": "STOPPED", "containers": [{"exitCode": 0}]}
    answers = iter([[], [{"lastStatus": "PENDING"}], [ended]])
    ecs = SimpleNamespace(
        run_task=lambda **_: {"failures": [], "tasks": [{"taskArn": "arn"}]},
        describe_tasks=lambda **_: {"tasks": next(answers)},
    )
    monkeypatch.setitem(sys.modules, "boto3", SimpleNamespace(client=lambda _: ecs))
    monkeypatch.setattr("time.sleep", lambda _: None)
    function: dict[str, Any] = {}
    exec(resources["MigrationFunction"]["Properties"]["Code"]["ZipFile"], function)
    properties = {name: name for name in ("Subnets", "SecurityGroup", "Cluster", "TaskDefinition")}

    function["migrate"](properties, SimpleNamespace(get_remaining_time_in_millis=lambda: 60_000))

    assert list(answers) == []


def test_slipway_closes_idle_connections_later_than_the_load_balancer(resources: dict[str, Any]) -> None:
    attributes = resources["LoadBalancer"]["Properties"]["LoadBalancerAttributes"]
    (idle,) = (row["Value"] for row in attributes if row["Key"] == "idle_timeout.timeout_seconds")
    kept = re.search(r"--timeout-keep-alive (\d+)", (ROOT / "ops" / "role.sh").read_text())
    assert kept is not None
    assert int(kept[1]) > int(idle)
