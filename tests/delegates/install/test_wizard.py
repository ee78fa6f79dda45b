"""The wizard: a delegate in one form, its files and commands, and the waiting for it."""

import io
import json
import zipfile
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from delegates.install import write_spec
from delegates.install.wizard import WizardAnswers
from delegates.models import Delegate, DelegateConfiguration, DelegateEvent, DelegateToken
from delegates.operations.installation import build_spec_request
from delegates.operations.tokens import create_token, revoke_token
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.delegates import make_delegate, make_instance

Browse = Callable[[User], Client]
NETWORK = {"subnets": "subnet-0a1b, subnet-0c2d", "security_groups": "sg-0e3f"}


def read_text(response: Any) -> str:
    return str(response.content.decode())


def build_form(project: Scope, **changes: Any) -> dict[str, Any]:
    """Build the form of the browser with the default values and a name."""
    form_fields = {
        "in_scope": project.path,
        "name": "eu",
        "target": "FARGATE",
        "flavour": "v3",
        "size": "laptop",
        "region": "us-east-1",
        "assign_public_ip": "on",
        "secret_kind": "PLAINTEXT",
        "secret_name": "harness/delegate-token",
        "proxy_port": "3128",
        "proxy_scheme": "http",
    }
    return {name: value for name, value in {**form_fields, **changes}.items() if value is not None}


def read_zip(content: bytes, name: str) -> str:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return archive.read(name).decode()


@pytest.fixture
def delegate(project: Scope, admin: User, browse: Browse) -> Delegate:
    browse(admin).post("/delegates/new/", build_form(project))
    return Delegate.objects.get(name="eu")


def test_a_name_is_all_that_a_delegate_needs(project: Scope, admin: User, browse: Browse) -> None:
    response = browse(admin).post("/delegates/new/", build_form(project))
    delegate = Delegate.objects.get(name="eu")
    assert response["Location"] == f"/delegates/{delegate.pk}/install/"
    assert (delegate.kind, delegate.flavour, delegate.size, delegate.admission) == (
        "ECS",
        "v3",
        "laptop",
        "ENABLED",
    )
    assert delegate.configuration == DelegateConfiguration.objects.get(is_primary=True)
    assert delegate.token is not None
    assert (delegate.token.name, delegate.token.scope, delegate.created_by) == ("eu", project, admin)
    actions = AuditEntry.objects.filter(action__startswith="delegate").order_by("pk")
    assert [entry.action for entry in actions] == ["delegatetoken.create", "delegate.create"]


def test_the_page_holds_files_and_commands_with_the_token_and_writes_down_who_saw_it(
    delegate: Delegate, admin: User, browse: Browse
) -> None:
    client, address = browse(admin), f"/delegates/{delegate.pk}/install/"
    page = read_text(client.post(f"{address}token/show/", follow=True))
    assert delegate.token is not None
    for part in ("fargate-task-definition.json", "aws ecs create-service", delegate.token.value):
        assert part in page
    assert "Waiting for the delegate to connect" in page
    entry = AuditEntry.objects.get(action="delegatetoken.reveal")
    assert (entry.actor, entry.after) == (admin, {"shown_for": "the spec of eu"})


def test_the_token_is_shown_once_and_again_on_request(project: Scope, admin: User, browse: Browse) -> None:
    client, form = browse(admin), build_form(project, secret_kind="CREATE", secret_name="")
    first = read_text(client.post("/delegates/new/", form, follow=True))
    delegate = Delegate.objects.get(name="eu")
    assert delegate.token is not None
    assert delegate.token.value in first
    page = read_text(client.get(f"/delegates/{delegate.pk}/install/"))
    assert delegate.token.value not in page
    assert "Secrets Manager secret slipway/delegates/eu" in page
    assert "Replace PUT_YOUR_DELEGATE_TOKEN" not in page
    archive = client.get(f"/delegates/{delegate.pk}/install/download/").content
    assert read_zip(archive, "delegate-token.txt") == "PUT_YOUR_DELEGATE_TOKEN"
    assert AuditEntry.objects.filter(action="delegatetoken.reveal").count() == 1
    assert "Show again" in page
    page = read_text(client.post(f"/delegates/{delegate.pk}/install/token/show/", follow=True))
    assert delegate.token.value in page
    archive = client.post(f"/delegates/{delegate.pk}/install/download/").content
    assert read_zip(archive, "delegate-token.txt") == delegate.token.value
    assert AuditEntry.objects.filter(action="delegatetoken.reveal").count() == 3


def test_two_delegates_of_one_cluster_get_services_and_families_of_their_own(
    project: Scope, admin: User, browse: Browse
) -> None:
    for name in ("eu", "us", "fargate-delegate"):
        browse(admin).post("/delegates/new/", build_form(project, name=name))
    requests = [
        build_spec_request(delegate) for delegate in Delegate.objects.filter(is_built_in=False).order_by("pk")
    ]
    services = [write_spec(request).service for request in requests]
    assert [service["serviceName"] for service in services] == [
        "eu-service",
        "us-service",
        "harness-delegate-fargate-service",
    ]
    assert len({service["taskDefinition"] for service in services}) == 3


def test_who_may_not_edit_delegates_sees_a_placeholder(
    delegate: Delegate, viewer: User, browse: Browse
) -> None:
    page = read_text(browse(viewer).get(f"/delegates/{delegate.pk}/install/"))
    assert delegate.token is not None
    assert delegate.token.value not in page
    assert "PUT_YOUR_DELEGATE_TOKEN" in page
    assert not AuditEntry.objects.filter(action="delegatetoken.reveal").exists()


def test_the_zip_holds_the_files_of_the_page(delegate: Delegate, admin: User, browse: Browse) -> None:
    response = browse(admin).get(f"/delegates/{delegate.pk}/install/download/")
    assert response["Content-Disposition"] == 'attachment; filename="eu.zip"'
    task = json.loads(read_zip(response.content, "fargate-task-definition.json"))
    variables = {
        variable["name"]: variable["value"] for variable in task["containerDefinitions"][0]["environment"]
    }
    assert variables["HARNESS_NAME"] == "eu"


def test_answers_reach_the_files(project: Scope, admin: User, browse: Browse) -> None:
    form = build_form(
        project,
        tags="eu, production",
        size="small",
        region="eu-west-1",
        aws_account_id="123456789012",
        assign_public_ip=None,
        proxy_host="proxy.internal",
        no_proxy="10.0.0.0/8",
        **NETWORK,
    )
    page = read_text(browse(admin).post("/delegates/new/", form, follow=True))
    delegate = Delegate.objects.get(name="eu")
    assert (delegate.tags, delegate.aws_account) == (["eu", "production"], "123456789012")
    for part in (
        "subnet-0c2d",
        "sg-0e3f",
        "DISABLED",
        "eu-west-1",
        "arn:aws:iam::123456789012",
        "proxy.internal",
    ):
        assert part in page
    assert "&quot;desiredCount&quot;: 2" in page


def test_a_secret_of_secrets_manager_keeps_the_token_off_the_page(
    project: Scope, admin: User, browse: Browse
) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:delegate-AbCdEf"
    form = build_form(project, secret_kind="EXISTING", secret_arn=arn)
    page = read_text(browse(admin).post("/delegates/new/", form, follow=True))
    delegate = Delegate.objects.get(name="eu")
    assert delegate.token is not None
    assert arn in page
    assert delegate.token.value not in page


def test_the_image_belongs_to_the_delegate_and_a_local_one_is_mirrored(
    project: Scope, admin: User, browse: Browse
) -> None:
    form = build_form(project, image="slipway-delegate:9.9", aws_account_id="123456789012")
    page = read_text(browse(admin).post("/delegates/new/", form, follow=True))
    assert "Mirror the image to Amazon ECR" in page
    assert "docker push 123456789012.dkr.ecr.us-east-1.amazonaws.com/slipway-delegate:9.9" in page
    form = build_form(project, name="us", image="ghcr.io/team/slipway-delegate:9.9")
    page = read_text(browse(admin).post("/delegates/new/", form, follow=True))
    assert "ghcr.io/team/slipway-delegate:9.9" in page
    assert "docker push" not in page


def test_a_new_secret_belongs_to_one_delegate(project: Scope, admin: User, browse: Browse) -> None:
    form = build_form(project, secret_kind="CREATE", secret_name="")
    page = read_text(browse(admin).post("/delegates/new/", form, follow=True))
    assert "--name slipway/delegates/eu --secret-string" in page
    assert Delegate.objects.get(name="eu").spec["secret_name"] == "slipway/delegates/eu"
    form = read_text(browse(admin).get("/delegates/new/"))
    assert '<select name="secret_kind"' in form
    assert form.index("New Secrets Manager secret") < form.index("Plain text in the task definition")


@pytest.mark.parametrize("name", ["-a", "a-", "a_b", "a b", "é", "a" * 64])
def test_a_new_name_has_to_suit_all_that_is_called_after_it(
    project: Scope, admin: User, browse: Browse, name: str
) -> None:
    client, problem = browse(admin), "Use up to 63 letters, digits and hyphens"
    checked = client.get("/delegates/new/name/", {"name": name, "in_scope": project.path})
    assert problem in read_text(checked)
    response = client.post("/delegates/new/", build_form(project, name=name))
    assert problem in str(response.context["form"].errors["name"])


def test_the_check_of_a_name_knows_those_of_the_scope_for_who_may_create_there(
    delegate: Delegate, admin: User, viewer: User, browse: Browse
) -> None:
    query = {"name": "eu", "in_scope": delegate.scope.path}
    assert "A delegate eu already exists" in read_text(browse(admin).get("/delegates/new/name/", query))
    for client, other in (
        (browse(admin), {"name": "us"}),
        (browse(admin), {"name": ""}),
        (browse(viewer), {}),
    ):
        assert "error" not in read_text(client.get("/delegates/new/name/", query | other))


def test_docker_gets_a_command_to_run(project: Scope, admin: User, browse: Browse) -> None:
    page = read_text(
        browse(admin).post(
            "/delegates/new/", build_form(project, target="DOCKER", hostname="vm-1"), follow=True
        )
    )
    assert "docker run --detach --name eu --hostname vm-1" in page
    assert Delegate.objects.get(name="eu").kind == "DOCKER"


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"name": ""}, "name"),
        ({"name": "built-in\u202e"}, "name"),
        ({"tags": "good <bad>"}, "tags"),
        ({"tags": " ".join(f"tag{number}" for number in range(101))}, "tags"),
        ({"aws_account_id": "12345"}, "aws_account_id"),
        ({"subnets": "subnet-1 vpc-2"}, "subnets"),
        ({"security_groups": "sg_1"}, "security_groups"),
        ({"region": "nowhere"}, "region"),
        ({"target": "MOON"}, "target"),
        ({"size": "giant"}, "size"),
        ({"hostname": "-x-"}, "hostname"),
        ({"secret_kind": "EXISTING"}, "secret_arn"),
        ({"image": "a b"}, "image"),
        ({"log_group": "a b"}, "log_group"),
        ({"task_role": "a/b"}, "task_role"),
        ({"proxy_host": "http://proxy"}, "proxy_host"),
        ({"proxy_host": "proxy", "proxy_port": "70000"}, "proxy_port"),
        ({"ca_path": "relative.pem"}, "ca_path"),
        ({"token": "99999"}, "token"),
        ({"configuration": "99999"}, "configuration"),
    ],
)
def test_what_makes_no_sense_is_said_beside_its_question(
    project: Scope, admin: User, browse: Browse, fields: dict[str, Any], field: str
) -> None:
    response = browse(admin).post("/delegates/new/", build_form(project, **fields))
    assert response.status_code == 400
    assert list(response.context["form"].errors) == [field]
    assert not Delegate.objects.filter(is_built_in=False).exists()
    assert not DelegateToken.objects.exists()


def test_a_name_that_is_taken_is_refused(delegate: Delegate, admin: User, browse: Browse) -> None:
    response = browse(admin).post("/delegates/new/", build_form(delegate.scope))
    assert "A delegate eu already exists" in str(response.context["form"].errors["name"])
    assert DelegateToken.objects.count() == 1


def test_a_token_of_another_scope_is_refused(
    project: Scope, account: Scope, admin: User, browse: Browse
) -> None:
    token = create_token(actor=admin, scope=account, name="everywhere")
    response = browse(admin).post("/delegates/new/", build_form(project, token=token.pk))
    assert "is for delegates of" in str(response.context["form"].errors["token"])


def test_a_configuration_that_asks_for_approval_has_the_delegate_wait(
    project: Scope, admin: User, browse: Browse
) -> None:
    configuration = DelegateConfiguration.objects.create(
        scope=project, identifier="checked", name="Checked", requires_approval=True
    )
    browse(admin).post("/delegates/new/", build_form(project, configuration=configuration.pk))
    assert Delegate.objects.get(name="eu").admission == "PENDING_APPROVAL"


def test_a_delegate_that_came_is_connected(delegate: Delegate, admin: User, browse: Browse) -> None:
    address = f"/delegates/{delegate.pk}/install/waiting/"
    assert "Waiting for the delegate to connect" in read_text(browse(admin).get(address))
    make_instance(delegate)
    part = read_text(browse(admin).get(address))
    assert "Connected" in part
    assert "Waiting" not in part


def test_what_the_manager_refused_is_shown_beside_the_waiting(
    delegate: Delegate, other_project: Scope, account: Scope, admin: User, browse: Browse
) -> None:
    now = timezone.now()
    refusals = [(account, "The token is not known."), (other_project, "Of another project.")]
    for scope, text in refusals:
        DelegateEvent.objects.create(
            scope=scope, name="eu", at=now, kind="REFUSED", text=text, address="192.0.2.7"
        )
    part = read_text(browse(admin).get(f"/delegates/{delegate.pk}/install/waiting/"))
    assert "The token is not known." in part
    assert "192.0.2.7" in part
    assert "Of another project." not in part


def test_after_a_minute_the_page_says_that_nobody_tried(
    delegate: Delegate, admin: User, browse: Browse
) -> None:
    address = f"/delegates/{delegate.pk}/install/waiting/"
    assert "No delegate has tried" not in read_text(browse(admin).get(address))
    Delegate.objects.filter(pk=delegate.pk).update(created_at=timezone.now() - timedelta(minutes=3))
    assert "No delegate has tried" in read_text(browse(admin).get(address))


def test_files_of_a_delegate_whose_token_is_revoked_say_so(
    delegate: Delegate, admin: User, browse: Browse
) -> None:
    assert delegate.token is not None
    revoke_token(actor=admin, token=delegate.token)
    page = read_text(browse(admin).get(f"/delegates/{delegate.pk}/install/"))
    assert "The token is not in these files" in page
    assert delegate.token.value not in page


def test_a_delegate_that_registered_by_itself_has_files_too(
    project: Scope, admin: User, browse: Browse
) -> None:
    delegate = make_delegate(project, "came")
    assert "came" in read_text(browse(admin).get(f"/delegates/{delegate.pk}/install/"))


def test_the_built_in_delegate_is_not_installed(admin: User, browse: Browse) -> None:
    delegate = Delegate.objects.get(is_built_in=True)
    response = browse(admin).get(f"/delegates/{delegate.pk}/install/")
    assert response["Location"] == f"/delegates/{delegate.pk}/"


def test_a_wish_survives_the_row() -> None:
    answers_before = WizardAnswers(target="EC2", subnets=("subnet-1", "subnet-2"), proxy_host="proxy")
    stored = json.loads(json.dumps(answers_before.to_json())) | {"of_a_later_version": 1}
    assert WizardAnswers.from_json(stored) == answers_before


def test_files_can_be_written_with_another_token(delegate: Delegate, admin: User, browse: Browse) -> None:
    assert delegate.token is not None
    revoke_token(actor=admin, token=delegate.token)
    client, address = browse(admin), f"/delegates/{delegate.pk}/install/token/"
    page = read_text(client.post(address, {"token": ""}, follow=True))
    new_token = DelegateToken.objects.get(name="eu 2")
    assert new_token.value in page
    other = create_token(actor=admin, scope=delegate.scope, name="shared")
    assert other.value in read_text(client.post(address, {"token": other.pk}, follow=True))
    refusal_page = read_text(client.post(address, {"token": delegate.token.pk}, follow=True))
    assert "This token can no longer be used." in refusal_page
    assert other.value not in refusal_page
    entries = AuditEntry.objects.filter(action="delegate.update").order_by("pk")
    assert [entry.after["token"] for entry in entries if entry.after] == [str(new_token), str(other)]
