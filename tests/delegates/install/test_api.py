"""The route that writes a spec: who may, what it reveals, what is kept of that."""

import hashlib
import io
import json
import zipfile
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from rest_framework.test import APIClient

from delegates.models import Delegate, DelegateToken
from delegates.models.delegates import get_account_id
from rbac.models import AuditEntry, Scope, User
from tests.delegates.install.spec_variants import ACCOUNT, ARN, SUBNETS

pytestmark = pytest.mark.django_db
ADDRESS = "/api/v1/delegates/task-spec"
VALUE = "slp_dlt_" + "k" * 43


@pytest.fixture
def token(project: Scope) -> DelegateToken:
    return DelegateToken.objects.create(
        scope=project,
        name="first",
        value=VALUE,
        token_hash=hashlib.sha256(VALUE.encode()).hexdigest(),
        prefix=VALUE[:12],
    )


def build_body(token: DelegateToken, **values: Any) -> dict[str, Any]:
    network = {"subnets": list(SUBNETS), "security_groups": ["sg-1"], "assign_public_ip": "ENABLED"}
    fields = {"name": "blue", "flavour": "v3", "launch_type": "FARGATE", "token_id": token.pk}
    return fields | {"aws_account_id": ACCOUNT, "region": "us-east-1", "network": network, **values}


def create_client(person: User) -> APIClient:
    client = APIClient()
    client.force_authenticate(person)
    return client


@pytest.fixture
def as_admin(admin: User) -> APIClient:
    return create_client(admin)


def list_reveals() -> list[AuditEntry]:
    return list(AuditEntry.objects.filter(action="delegatetoken.reveal"))


def test_it_gives_files_and_commands_with_this_installation_s_address_and_account(
    as_admin: APIClient, token: DelegateToken, settings: Any
) -> None:
    settings.PUBLIC_URL = "https://slipway.example.com"
    response = as_admin.post(ADDRESS, build_body(token), format="json")
    assert response.status_code == 200, response.content
    assert response["Cache-Control"] == "no-store"
    document = json.loads(response.json()["files"]["fargate-task-definition.json"])
    (container,) = document["containerDefinitions"]
    values = {variable["name"]: variable["value"] for variable in container["environment"]}
    assert values == {
        "HARNESS_ACCOUNT_ID": get_account_id(),
        "HARNESS_TOKEN": VALUE,
        "HARNESS_URL": "https://slipway.example.com",
        "HARNESS_NAME": "blue",
    }
    assert container["image"] == settings.DELEGATE_IMAGES["v3"]
    assert {"title", "command"} == set(response.json()["commands"][0])


def test_a_token_in_a_spec_is_a_reveal_and_the_audit_trail_keeps_it_without_the_value(
    as_admin: APIClient, admin: User, token: DelegateToken
) -> None:
    as_admin.post(ADDRESS, build_body(token), format="json")
    (entry,) = list_reveals()
    assert (entry.actor, entry.thing_id, entry.scope) == (admin, str(token.pk), token.scope)
    assert entry.after
    assert entry.after["shown_for"] == "the spec of blue"
    assert VALUE not in json.dumps(entry.after)


def test_a_secret_that_holds_the_token_already_needs_no_reveal(
    as_admin: APIClient, token: DelegateToken
) -> None:
    response = as_admin.post(
        ADDRESS, build_body(token, secret={"kind": "EXISTING", "arn": ARN}), format="json"
    )
    assert response.status_code == 200
    assert VALUE not in response.content.decode()
    assert not list_reveals()


def test_a_zip_holds_the_files_and_a_script_of_the_commands(
    as_admin: APIClient, token: DelegateToken
) -> None:
    response = as_admin.post(f"{ADDRESS}?format=zip", build_body(token), format="json")
    assert response["Content-Type"] == "application/zip"
    assert "delegate.zip" in response["Content-Disposition"]
    archive = zipfile.ZipFile(io.BytesIO(response.content))
    spec = as_admin.post(ADDRESS, build_body(token), format="json").json()
    assert set(archive.namelist()) == {*spec["files"], "commands.sh"}
    for name, text in spec["files"].items():
        assert archive.read(name).decode() == text
    script = archive.read("commands.sh").decode()
    assert all(command["command"] in script for command in spec["commands"])


def test_what_was_refused_stays_a_problem_document_for_a_zip_too(
    as_admin: APIClient, token: DelegateToken
) -> None:
    response = as_admin.post(f"{ADDRESS}?format=zip", build_body(token, aws_account_id="1"), format="json")
    assert response.status_code == 400
    assert response["Content-Type"] == "application/problem+json"
    assert json.loads(response.content)["errors"][0]["path"] == "aws_account_id"


@pytest.mark.parametrize("how", ["revoked", "expired"])
def test_a_token_that_no_agent_could_use_is_refused(
    as_admin: APIClient, admin: User, token: DelegateToken, how: str
) -> None:
    now = timezone.now()
    if how == "revoked":
        token.status, token.revoked_at, token.revoked_by = DelegateToken.Status.REVOKED, now, admin
    else:
        token.expires_at = now - timedelta(seconds=1)
    token.save()
    response = as_admin.post(ADDRESS, build_body(token), format="json")
    assert response.status_code == 400
    assert response.json()["errors"][0]["path"] == "token_id"
    assert VALUE not in response.content.decode()
    assert not list_reveals()


def test_who_may_not_edit_delegates_gets_no_token(
    viewer: User, deployer: User, stranger: User, token: DelegateToken
) -> None:
    for person, status in ((viewer, 403), (deployer, 403), (stranger, 404)):
        response = create_client(person).post(ADDRESS, build_body(token), format="json")
        assert response.status_code == status
        assert VALUE not in response.content.decode()
    assert not list_reveals()


def test_without_a_token_there_is_a_placeholder_and_a_warning(as_admin: APIClient, project: Scope) -> None:
    scope_fields = {"org": project.org, "project": project.project}
    spec = as_admin.post(ADDRESS, {"name": "blue", **scope_fields}, format="json").json()
    assert any("PUT_YOUR_DELEGATE_TOKEN" in warning for warning in spec["warnings"])
    assert "PUT_YOUR_DELEGATE_TOKEN" in spec["files"]["fargate-task-definition.json"]


def test_a_vm_gets_its_docker_run(as_admin: APIClient, token: DelegateToken) -> None:
    spec = as_admin.post(ADDRESS, build_body(token, kind="DOCKER", flavour="legacy"), format="json").json()
    (run,) = [command["command"] for command in spec["commands"] if "docker run" in command["command"]]
    assert f"DELEGATE_TOKEN={VALUE}" in run
    assert set(spec["files"]) == {"compose.yaml"}


def test_each_flavour_has_its_image(as_admin: APIClient, token: DelegateToken, settings: Any) -> None:
    settings.DELEGATE_IMAGES = {"v3": "three:1", "legacy": "old:1"}
    for flavour, image in (("v3", "three:1"), ("legacy", "old:1")):
        spec = as_admin.post(ADDRESS, build_body(token, flavour=flavour), format="json").json()
        assert image in "".join(spec["files"].values())
    custom_spec = as_admin.post(ADDRESS, build_body(token, image="mine:2"), format="json").json()
    assert "mine:2" in "".join(custom_spec["files"].values())


def test_the_linter_can_be_asked_about_a_task_definition(as_admin: APIClient, token: DelegateToken) -> None:
    files = as_admin.post(ADDRESS, build_body(token), format="json").json()["files"]
    document = json.loads(files["fargate-task-definition.json"])
    service = json.loads(files["fargate-service.json"])
    specs = {"task_definition": document, "service": service}
    response = as_admin.post(f"{ADDRESS}/check", specs, format="json")
    # In a test the image has no registry, and Slipway a loopback address.
    assert response.json()["ok"] is True
    assert [finding["is_warning"] for finding in response.json()["findings"]] == [True, True]
    document["containerDefinitions"][0]["hostname"] = "h1"
    response = as_admin.post(f"{ADDRESS}/check", specs, format="json").json()
    assert not response["ok"]
    assert response["findings"][0]["place"] == "containerDefinitions[0].hostname"


def test_the_spec_of_a_delegate_that_is_there_takes_another_image(
    as_admin: APIClient, viewer: User, token: DelegateToken, project: Scope
) -> None:
    stored_spec = {"target": "EC2", "flavour": "v3", "region": "eu-west-1", "cluster": "c9"}
    delegate = Delegate.objects.create(scope=project, name="blue", token=token, spec=stored_spec)
    address = f"/api/v1/delegates/{delegate.pk}/task-spec"
    upgrade = as_admin.post(address, {"image": "newer:2"}, format="json").json()
    (container,) = json.loads(upgrade["files"]["task-definition.json"])["containerDefinitions"]
    assert container["image"] == "newer:2"
    assert VALUE in upgrade["files"]["task-definition.json"]
    assert [command["command"] for command in upgrade["upgrade"]] == [
        "aws ecs register-task-definition --cli-input-json file://task-definition.json --region eu-west-1",
        "aws ecs update-service --cluster c9 --service blue-service --task-definition blue-task"
        " --force-new-deployment --region eu-west-1",
    ]
    assert len(list_reveals()) == 1
    response = create_client(viewer).post(address, {}, format="json")
    assert (response.status_code, VALUE in response.content.decode()) == (200, False)
    assert len(list_reveals()) == 1
    invalid_response = as_admin.post(address, {"image": "--help"}, format="json")
    assert (invalid_response.status_code, invalid_response.json()["errors"][0]["path"]) == (400, "image")


def test_a_size_stands_for_what_each_task_gets_and_for_their_number(
    as_admin: APIClient, token: DelegateToken
) -> None:
    files = as_admin.post(ADDRESS, build_body(token, size="small"), format="json").json()["files"]
    task = json.loads(files["fargate-task-definition.json"])
    assert (task["cpu"], task["memory"]) == ("512", "2048")
    assert json.loads(files["fargate-service.json"])["desiredCount"] == 2
    single_task_files = as_admin.post(
        ADDRESS, build_body(token, size="small", desired_count=1), format="json"
    ).json()["files"]
    assert json.loads(single_task_files["fargate-service.json"])["desiredCount"] == 1
