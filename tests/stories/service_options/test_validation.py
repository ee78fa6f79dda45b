"""What can never be deployed is refused when it is saved, by page and API, before any run."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import yaml
from django.test import Client
from rest_framework.test import APIClient

from catalog.models import Environment, Manifest, Service
from connectors.models import FileNode
from pipelines.models import Pipeline
from rbac.models import Role, RoleAssignment, User
from tests.catalog.manifests.stores.conftest import create_git_connector
from tests.fixtures.engine_driver import Drive
from tests.stories.service_options.test_service_definition import SERVICE_FILE

pytestmark = pytest.mark.django_db(transaction=True)

HERE = "?org=default&project=demo"
BLUE_GREEN_FILE = "/ECS Tutorial/Blue green/CreateServiceRequest.yaml"
NEVER = [
    ({"deploymentController": {"type": "CODE_DEPLOY"}}, "Remove deploymentController"),
    ({"deploymentController": {"type": "EXTERNAL"}}, "Remove deploymentController"),
]
BREAKER = {"deploymentConfiguration": {"deploymentCircuitBreaker": {"enable": True, "rollback": True}}}
FIXED = [{"targetGroupArn": "arn:aws:x:y::t/1", "containerName": "nginx", "containerPort": 80}]
Call = Callable[[User], APIClient]


@pytest.fixture
def api(drive: Drive, call: Call) -> APIClient:
    """A program of an administrator, in the demo."""
    return call(User.objects.get(username="admin"))


def _text(path: str, **fields: Any) -> str:
    return yaml.safe_dump({**yaml.safe_load(FileNode.objects.get(path=path).content), **fields})


def _messages(answer: Any) -> str:
    assert answer.status_code == 400, answer.content
    return " ".join(str(error["message"]) for error in answer.json()["errors"])


@pytest.mark.parametrize(("fields", "message"), NEVER)
def test_a_file_of_a_service_is_refused_with_what_no_run_deploys(
    api: APIClient, fields: dict[str, Any], message: str
) -> None:
    content = _text(SERVICE_FILE, **fields)
    messages = _messages(api.put(f"/api/v1/files{SERVICE_FILE}{HERE}", {"content": content}, format="json"))
    assert message in messages
    assert "CreateServiceRequest.yaml, line " in messages
    assert FileNode.objects.get(path=SERVICE_FILE).version == 1
    draft = api.put(f"/api/v1/files/draft.yaml{HERE}", {"content": content}, format="json")
    assert draft.status_code == 200, "no service has it as its definition yet"


def test_the_page_of_a_file_shows_the_refusal_and_keeps_the_text(
    drive: Drive, browse: Callable[[User], Client]
) -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    content = _text(SERVICE_FILE, deploymentController={"type": "EXTERNAL"})
    form = {"content": content, "version": 1, "note": ""}
    page = browse(User.objects.get(username="admin")).post(f"/files/{node.pk}/edit/", form)
    assert page.status_code == 400
    assert "Remove deploymentController" in page.content.decode()
    assert "type: EXTERNAL" in page.content.decode()


@pytest.mark.parametrize("store", ["Inline", "FileStore"])
def test_a_service_is_refused_with_a_definition_that_no_run_deploys(api: APIClient, store: str) -> None:
    content = _text(SERVICE_FILE, deploymentController={"type": "EXTERNAL"})
    api.put(f"/api/v1/files/draft.yaml{HERE}", {"content": content}, format="json")
    manifest = {"identifier": "service", "kind": "EcsServiceDefinition", "store": store}
    manifest |= {"content": content} if store == "Inline" else {"paths": ["/draft.yaml"]}
    service = {"identifier": "new", "name": "New", "manifests": [manifest], "org": "default"}
    service |= {"project": "demo", "artifact": {"image": "nginx"}}
    assert "Remove deploymentController" in _messages(api.post("/api/v1/services", service, format="json"))
    assert not Service.objects.filter(identifier="new").exists()


def test_an_override_is_refused_that_makes_a_definition_undeployable(api: APIClient) -> None:
    environment = Environment.objects.get(infrastructures__isnull=False)
    service = Service.objects.get(identifier="blue_green_app")
    address = f"/api/v1/environments/{environment.pk}/overrides/{service.pk}"
    manifest = {"identifier": "ours", "kind": "EcsServiceDefinition", "store": "Inline"}
    override = {"variables": {}, "manifests": [{**manifest, "content": json.dumps(BREAKER)}]}
    messages = _messages(api.put(address, override, format="json"))
    assert "Remove deploymentCircuitBreaker" in messages
    assert "deploys it with blue/green" in messages
    assert not environment.overrides.exists()


@pytest.mark.parametrize(
    ("fields", "message"),
    [(BREAKER, "Remove deploymentCircuitBreaker"), ({"loadBalancers": FIXED}, "<+targetGroupArn>")],
)
def test_what_blue_green_cannot_deploy_is_refused_from_both_sides(
    api: APIClient, fields: dict[str, Any], message: str
) -> None:
    content = _text(BLUE_GREEN_FILE, **fields)
    address = f"/api/v1/files{BLUE_GREEN_FILE}{HERE}"
    messages = _messages(api.put(address, {"content": content}, format="json"))
    assert message in messages
    pipeline = Pipeline.objects.get(identifier="blue_green_demo")
    assert f"(the pipeline {pipeline.name} deploys it with blue/green)" in messages
    # Before there is such a pipeline the file may say so; then the pipeline may not be.
    text = pipeline.yaml
    Pipeline.objects.filter(identifier__in=["blue_green_demo", "traffic_shift_demo"]).delete()
    assert api.put(address, {"content": content}, format="json").status_code == 200
    new = {"yaml": text, "org": "default", "project": "demo"}
    answer = api.post("/api/v1/pipelines", new, format="json")
    assert message in _messages(answer)
    (error,) = answer.json()["errors"]
    assert error["path"] == "pipeline.stages.0.stage.spec.service.serviceRef"
    assert text.splitlines()[error["line"] - 1].strip().startswith("serviceRef")
    (checked,) = api.post("/api/v1/pipelines/checks", new, format="json").json()["errors"]
    assert message in checked["message"]


def test_a_pipeline_that_names_what_no_run_deploys_is_refused(api: APIClient) -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    node.content = _text(SERVICE_FILE, deploymentController={"type": "CODE_DEPLOY"})
    node.save()
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    address = f"/api/v1/pipelines/{pipeline.pk}"
    assert "Remove deploymentController" in _messages(
        api.put(address, {"yaml": pipeline.yaml}, format="json")
    )


def test_a_daemon_is_saved_for_the_rolling_step_alone(api: APIClient) -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    node.content = _text(SERVICE_FILE, schedulingStrategy="DAEMON")
    node.save()
    rolling, canary = (Pipeline.objects.get(identifier=f"{name}_demo") for name in ("rolling", "canary"))
    answer = api.put(f"/api/v1/pipelines/{rolling.pk}", {"yaml": rolling.yaml}, format="json")
    assert answer.status_code == 200, answer.content
    text = canary.yaml.replace("serviceRef: canary_app", "serviceRef: myapp")
    answer = api.put(f"/api/v1/pipelines/{canary.pk}", {"yaml": text}, format="json")
    assert "Deploy this service with the step EcsRollingDeploy" in _messages(answer)


def test_what_lies_in_git_is_left_to_the_run(api: APIClient) -> None:
    pipeline = Pipeline.objects.get(identifier="blue_green_demo")
    service = Service.objects.get(identifier="blue_green_app")
    node = FileNode.objects.get(path=BLUE_GREEN_FILE)
    node.content = _text(BLUE_GREEN_FILE, **BREAKER)
    node.save()
    create_git_connector("https://git.example.com/shop.git")
    Manifest.objects.filter(service=service, kind="EcsServiceDefinition").update(
        store="Git", place={"connector": "shop", "branch": "main"}, paths=[BLUE_GREEN_FILE]
    )
    answer = api.put(f"/api/v1/pipelines/{pipeline.pk}", {"yaml": pipeline.yaml}, format="json")
    assert answer.status_code == 200, answer.content


def test_who_may_not_see_the_file_is_told_nothing_of_it(drive: Drive, call: Call) -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    node.content = _text(SERVICE_FILE, deploymentController={"type": "CODE_DEPLOY"})
    node.save()
    pipeline = Pipeline.objects.get(identifier="rolling_demo")
    role = Role.objects.create(scope=node.scope, identifier="some", name="Some")
    whole = Role.objects.get(identifier="project_admin", scope=None)
    permissions = set(whole.permissions.values_list("permission", flat=True)) - {"core_file_view"}
    role.set_permissions(permissions)
    writer = User.objects.create_user("writer")
    RoleAssignment.objects.create(user=writer, role=role, scope=node.scope)
    answer = call(writer).put(f"/api/v1/pipelines/{pipeline.pk}", {"yaml": pipeline.yaml}, format="json")
    assert "deploymentController" not in answer.content.decode()
