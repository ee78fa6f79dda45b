"""A project of ecspresso or PipeCD is imported by the command line, and deployed to the sandbox."""

import json
from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from deployments.execution.operations import run_pipeline
from deployments.models import Execution
from ops.demo.pipelines import SandboxFacts
from pipelines.models import Pipeline
from rbac.models import User
from tests.fixtures.command_line import CommandLine, sign_in
from tests.fixtures.engine_driver import Drive
from tests.pipelines.imports.sample_projects import (
    BALANCER,
    PIPECD_CONFIG,
    ecspresso_files,
    pipecd_files,
)

pytestmark = pytest.mark.django_db(transaction=True)
STAGES = """  pipeline:
    stages:
      - {name: ECS_CANARY_ROLLOUT, with: {scale: 100}}
      - {name: ECS_TRAFFIC_ROUTING, with: {canary: 100}}
"""
OPTIONS = ("--environment", "imported", "--connector", "sandbox_aws", "--scope", "default/demo", "--yes")


@pytest.fixture
def admin_line(tmp_path: Path, drive: Drive, live_server: LiveServer) -> CommandLine:
    return sign_in(tmp_path, live_server.url, User.objects.get(username="admin"))


@pytest.fixture
def facts(drive: Drive) -> SandboxFacts:
    return SandboxFacts.from_wire(drive.sandbox.seed())


def write(folder: Path, files: dict[str, str], facts: SandboxFacts) -> str:
    """Write the files of a project with the names of the sandbox."""
    folder.mkdir()
    for name, text in files.items():
        text = text.replace("subnet-1", facts.subnets[0]).replace("sg-1", facts.security_group)
        role = "arn:aws:iam::123456789012:role/ecsTaskExecutionRole"
        (folder / name).write_text(text.replace(role, facts.role_arn))
    return str(folder)


def deploy(drive: Drive, tag: str, **inputs: str) -> Execution:
    pipeline = Pipeline.objects.get(identifier="deploy_shop")
    execution = run_pipeline(
        actor=User.objects.get(username="admin"), pipeline=pipeline, artifact_tag=tag, inputs=inputs
    )
    return drive.until_over(execution)


def test_an_imported_ecspresso_project_deploys(
    drive: Drive, admin_line: CommandLine, facts: SandboxFacts, tmp_path: Path
) -> None:
    folder = write(tmp_path / "shop", ecspresso_files(), facts)

    previewed = admin_line.run("import", "ecspresso", folder, *OPTIONS, "--preview")
    assert not Pipeline.objects.filter(identifier="deploy_shop").exists()
    imported = admin_line.run("import", "ecspresso", folder, *OPTIONS, "--env", "COLOR=green")
    execution = deploy(drive, "1.28", STAGE="prod")

    assert "ecs-task-def.json, line 13: the tag of the image" in previewed.stdout, previewed.stderr
    assert imported.returncode == 0, imported.stderr
    assert execution.outcome == "COMPLETED", drive.log(execution)[-5:]
    service = drive.service("shop")
    definition = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": service["taskDefinition"]})
    [container] = definition["taskDefinition"]["containerDefinitions"]
    assert container["image"] == "nginx:1.28"
    assert {row["name"]: row["value"] for row in container["environment"]} == {
        "COLOR": "green",
        "STAGE": "prod",
    }


def test_an_imported_pipecd_application_moves_its_traffic(
    drive: Drive, admin_line: CommandLine, facts: SandboxFacts, tmp_path: Path
) -> None:
    files = pipecd_files(PIPECD_CONFIG + STAGES)
    definition = json.loads(files["servicedef.yaml"])
    files["servicedef.yaml"] = json.dumps({**definition, "loadBalancers": [BALANCER]})
    names = facts.values()
    listeners = {
        "loadBalancer": names["load_balancer"],
        "prodListener": names["prod_listener"],
        "stageListener": names["stage_listener"],
    }

    imported = admin_line.run("import", "pipecd", write(tmp_path / "shop", files, facts), *OPTIONS)
    execution = deploy(drive, "1.28", **listeners)

    assert imported.returncode == 0, imported.stderr
    assert execution.outcome == "COMPLETED", drive.log(execution)[-5:]
    assert drive.service("shop__1")["runningCount"] == 1
