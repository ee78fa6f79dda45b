"""What AWS answers is cleaned up by page or API, and deployed as it is then."""

import json
import re
from collections.abc import Callable

import pytest
from django.test import Client
from rest_framework.test import APIClient

from catalog.models import Service
from connectors.models import FileNode
from rbac.models import Role, RoleAssignment, User
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

TASK_FILE = "/ECS Tutorial/RegisterTaskDefinitionRequest.yaml"
SERVICE_FILE = "/ECS Tutorial/CreateServiceRequest.yaml"
IN_SCOPE = {"org": "default", "project": "demo"}
HERE = "?org=default&project=demo"


def _answers(drive: Drive) -> dict[str, str]:
    """Return the output of the commands that describe a service and its task definition."""
    place = {"cluster": "demo", "services": ["myapp"]}
    service = drive.call("ecs", "DescribeServices", place)
    running = service["services"][0]["taskDefinition"]
    task = drive.call("ecs", "DescribeTaskDefinition", {"taskDefinition": running, "include": ["TAGS"]})
    answers = {SERVICE_FILE: service, TASK_FILE: task}
    return {path: json.dumps(answer, indent=4, default=str) for path, answer in answers.items()}


def test_what_aws_describes_is_deployed_after_a_clean_up(
    drive: Drive, call: Callable[[User], APIClient]
) -> None:
    drive.run("1.27")
    api = call(User.objects.get(username="admin"))
    for path, answer in _answers(drive).items():
        text = {**IN_SCOPE, "path": path, "content": answer}
        checked = api.post("/api/v1/file-checks", text, format="json").json()
        assert "Clean up" in checked["errors"][0]["message"]
        cleanup = api.post("/api/v1/file-clean-ups", text, format="json").json()
        assert cleanup["changes"]
        assert '-    "failures": []' in cleanup["diff"]["unified"] or path == TASK_FILE
        assert FileNode.objects.get(path=path).version == 1, "nothing is saved by it"
        checked = api.post("/api/v1/file-checks", {**text, "content": cleanup["content"]}, format="json")
        assert checked.json()["errors"] == []
        saved = api.put(f"/api/v1/files{path}{HERE}", {"content": cleanup["content"]}, format="json")
        assert saved.status_code == 200, saved.content
    execution = drive.run("1.28")
    assert execution.outcome == "COMPLETED", execution.failure


def test_the_editor_of_a_file_offers_the_name_of_its_service(
    drive: Drive, browse: Callable[[User], Client], call: Callable[[User], APIClient]
) -> None:
    node, admin = FileNode.objects.get(path=SERVICE_FILE), User.objects.get(username="admin")
    nameless = node.content.replace("serviceName: myapp\n", "")
    assert nameless != node.content
    page = browse(admin)
    assert 'data-clean="/files/clean-up/"' in page.get(f"/files/{node.pk}/edit/").content.decode()
    answer = page.post("/files/clean-up/", {"node": node.pk, "content": nameless}).json()
    assert answer["content"].endswith("serviceName: myapp\n")
    (line,) = [line for hunk in answer["hunks"] for line in hunk if line["sign"] == "+"]
    assert line["text"] == "serviceName: myapp"
    data = {**IN_SCOPE, "path": "/another.yaml", "content": nameless, "service_name": "shop"}
    cleanup = call(admin).post("/api/v1/file-clean-ups", data, format="json").json()
    assert cleanup["content"].endswith("serviceName: shop\n")


def test_the_name_of_a_service_is_offered_only_to_who_may_see_it(
    drive: Drive, browse: Callable[[User], Client]
) -> None:
    node = FileNode.objects.get(path=SERVICE_FILE)
    role = Role.objects.create(scope=node.scope, identifier="files", name="Files")
    role.permissions.create(permission="core_file_view")
    reader = User.objects.create_user("reader")
    RoleAssignment.objects.create(user=reader, role=role, scope=node.scope)
    answer = browse(reader).post("/files/clean-up/", {"node": node.pk, "content": "desiredCount: 1\n"})
    assert answer.json() == {"content": "desiredCount: 1\n", "changes": [], "hunks": []}


@pytest.mark.parametrize(
    ("name", "identifier", "expected_name"),
    [("shop", "web", "shop"), ("My shop", "web", "web"), ("", "", None)],
)
def test_the_form_of_a_new_service_offers_what_it_is_called(
    drive: Drive, browse: Callable[[User], Client], name: str, identifier: str, expected_name: str | None
) -> None:
    form = {
        "name": name,
        "identifier": identifier,
        "manifests-0-kind": "EcsServiceDefinition",
        "manifests-0-content": '{"service": {"desiredCount": 1}}',
    }
    answer = browse(drive.deployer).post("/services/clean-up/?row=manifests-0", form).json()
    assert json.loads(answer["content"]).get("serviceName") == expected_name


def test_the_form_of_a_service_offers_its_name(drive: Drive, browse: Callable[[User], Client]) -> None:
    service = Service.objects.get(identifier="myapp")
    page = browse(User.objects.get(username="admin"))
    address = f"/services/clean-up/?row=manifests-0&service={service.pk}"
    escaped = address.replace("&", "&amp;")
    assert f'data-clean="{escaped}"' in page.get(f"/services/{service.pk}/edit/").content.decode()
    form = {"name": "x", "manifests-0-kind": "EcsServiceDefinition", "manifests-0-content": "desiredCount: 1"}
    assert page.post(address, form).json()["content"] == "desiredCount: 1\nserviceName: myapp\n"


@pytest.mark.parametrize(
    ("content", "pattern"),
    [("a: 1", "no manifest keys"), ("services: [{a: 1}, {b: 2}]", "Line 1, column 1: .*2 definitions")],
)
def test_what_cannot_be_cleaned_up_is_refused_in_words(
    drive: Drive, call: Callable[[User], APIClient], content: str, pattern: str
) -> None:
    text = {**IN_SCOPE, "path": "/another.yaml", "content": content}
    answer = call(User.objects.get(username="admin")).post("/api/v1/file-clean-ups", text, format="json")
    assert answer.status_code == 400
    assert re.search(pattern, answer.json()["detail"])
