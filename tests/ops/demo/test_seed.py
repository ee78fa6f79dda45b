"""The demo is there after the first start, whole and usable, and stays as people leave it."""

from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from pytest_django import Settings
from rest_framework.test import APIClient

from catalog.models import Infrastructure, Service
from connectors.models import Connector, FileNode
from ops.demo.credentials import get_demo_api_key, get_demo_password
from ops.demo.pipelines import SandboxFacts
from pipelines.definition.parser import parse_pipeline
from pipelines.models import Pipeline
from rbac.models import ApiKey, AuditEntry, RoleAssignment, Scope, User
from rbac.policy import can
from sandbox.process import SandboxProcess
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def _own_state(settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings.HOME = tmp_path
    monkeypatch.delenv("SLIPWAY_DEMO_PASSWORD", raising=False)
    monkeypatch.delenv("SLIPWAY_DEMO_API_KEY", raising=False)


@pytest.fixture
def seeded(sandbox: SandboxProcess) -> SandboxFacts:
    call_command("seed_demo")
    return SandboxFacts.from_wire(sandbox.seed())


def test_three_people_have_their_roles(seeded: SandboxFacts) -> None:
    project = Scope.objects.get(path="account/default/demo")
    admin, deployer, viewer = (User.objects.get(username=n) for n in ("admin", "deployer", "viewer"))

    assert can(admin, "core_role_edit", Scope.objects.account())
    assert can(deployer, "core_pipeline_execute", project)
    assert not can(deployer, "core_pipeline_edit", project)
    assert can(viewer, "core_pipeline_view", project)
    assert not can(viewer, "core_pipeline_execute", project)
    assert not can(viewer, "core_pipeline_view", Scope.objects.account())


def test_they_sign_in_with_the_password_that_is_kept_closed(seeded: SandboxFacts, tmp_path: Path) -> None:
    password_file = tmp_path / "keys" / "demo_password"

    assert password_file.read_text() == get_demo_password()
    assert password_file.stat().st_mode & 0o077 == 0
    for username in ("admin", "deployer", "viewer"):
        assert Client().login(username=username, password=get_demo_password())


def test_the_api_key_is_the_admins(seeded: SandboxFacts) -> None:
    client = APIClient()
    client.credentials(HTTP_X_API_KEY=get_demo_api_key())

    answer = client.get("/api/v1/pipelines", {"identifier": "rolling_demo"})

    assert answer.status_code == 200
    assert [row["identifier"] for row in answer.json()["results"]] == ["rolling_demo"]


def test_the_manifests_name_what_is_in_the_sandbox(seeded: SandboxFacts) -> None:
    task_definition, service_definition = (
        FileNode.objects.get(path=f"/ECS Tutorial/{name}").content
        for name in ("RegisterTaskDefinitionRequest.yaml", "CreateServiceRequest.yaml")
    )

    assert f"executionRoleArn: {seeded.role_arn}" in task_definition
    assert "image: <+primary.artifact.image>" in task_definition
    assert all(subnet in service_definition for subnet in seeded.subnets)
    assert seeded.security_group in service_definition
    assert "${" not in task_definition + service_definition


@pytest.mark.parametrize(
    ("pipeline", "types"),
    [
        ("rolling_demo", ["EcsRollingDeploy", "EcsRollingRollback"]),
        (
            "canary_demo",
            [
                "EcsCanaryDeploy",
                "EcsCanaryDelete",
                "EcsRollingDeploy",
                "EcsRollingRollback",
                "EcsCanaryDelete",
            ],
        ),
        (
            "blue_green_demo",
            ["EcsBlueGreenCreateService", "EcsBlueGreenSwapTargetGroups", "EcsBlueGreenRollback"],
        ),
        ("run_task_demo", ["EcsRunTask"]),
    ],
)
def test_the_pipeline_names_what_is_there(seeded: SandboxFacts, pipeline: str, types: list[str]) -> None:
    (stage,) = parse_pipeline(Pipeline.objects.get(identifier=pipeline).yaml).stages
    infrastructure = Infrastructure.objects.get(
        environment__identifier=stage.environment, identifier=stage.infrastructure
    )

    assert Service.objects.filter(identifier=stage.service).exists()
    assert (infrastructure.region, infrastructure.cluster) == (seeded.region, seeded.cluster)
    assert [step.type for step in (*stage.steps, *stage.rollback_steps)] == types


def test_seeding_again_changes_nothing(seeded: SandboxFacts) -> None:
    def list_all_rows() -> list[Any]:
        models = (User, ApiKey, RoleAssignment, Scope, Connector, FileNode, Service, Pipeline, AuditEntry)
        return [list(model.objects.order_by("pk").values()) for model in models]

    FileNode.objects.filter(path__endswith="CreateServiceRequest.yaml").update(content="serviceName: mine")
    before = list_all_rows()
    call_command("seed_demo")

    assert list_all_rows() == before


def test_the_connector_follows_a_sandbox_that_moved(seeded: SandboxFacts, settings: Settings) -> None:
    # As after a start with another PORT; what the connector held before is where nobody listens any more.
    Connector.objects.update(spec={**Connector.objects.get().spec, "endpoint_url": "http://127.0.0.1:1"})

    call_command("seed_demo")

    assert Connector.objects.get().spec["endpoint_url"] == settings.SANDBOX_URL
    assert Connector.objects.get().secret is not None


def test_a_connector_with_other_credentials_is_left_alone(seeded: SandboxFacts) -> None:
    spec = {**Connector.objects.get().spec, "access_key_id": "AKIAMINE", "endpoint_url": "http://127.0.0.1:1"}
    Connector.objects.update(spec=spec)

    call_command("seed_demo")

    assert Connector.objects.get().spec == spec


def test_a_password_and_a_key_that_are_named_later_count(
    seeded: SandboxFacts, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLIPWAY_DEMO_PASSWORD", planted("something else"))
    monkeypatch.setenv("SLIPWAY_DEMO_API_KEY", "slp_pat_something_else")
    call_command("seed_demo")

    assert Client().login(username="viewer", password=planted("something else"))
    assert (
        APIClient(headers={"x-api-key": "slp_pat_something_else"}).get("/api/v1/pipelines").status_code == 200
    )


def test_a_password_that_somebody_changed_stays(seeded: SandboxFacts) -> None:
    admin = User.objects.get(username="admin")
    admin.set_password(planted("changed by hand"))
    admin.save(update_fields=["password"])

    call_command("seed_demo")

    assert Client().login(username="admin", password=planted("changed by hand"))


def test_there_is_no_demo_in_production(settings: Settings) -> None:
    settings.SANDBOX_URL = ""

    with pytest.raises(CommandError, match="embedded"):
        call_command("seed_demo")
