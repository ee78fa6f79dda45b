"""Deployments of delegates by programs: a plan, and a start that repeats without a second run."""

from collections.abc import Callable
from typing import Any

import pytest
from rest_framework.test import APIClient

from connectors.models import Connector, Secret
from delegates.install.wizard import WizardAnswers
from delegates.models import Delegate
from delegates.operations.installation import change_setup, create_delegate
from deployments.models import Execution
from rbac.models import Scope, User
from tests.fixtures.delegates import make_token
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db
ANSWERS = WizardAnswers(
    region="us-east-1",
    aws_account_id="123456789012",
    cluster="main",
    image="registry.example.com/slipway-delegate:1.2.3",
    subnets=("subnet-1", "subnet-2"),
    security_groups=("sg-1",),
    secret_kind="CREATE",
)


@pytest.fixture
def connector(project: Scope) -> Connector:
    spec = {"credentials": "AccessKey", "access_key_id": "AKIA0123456789ABCDEF"}
    key = Secret.objects.create(scope=project, identifier="key", name="Key", value=planted("key"))
    return Connector.objects.create(scope=project, identifier="aws", name="AWS", spec=spec, secret=key)


@pytest.fixture
def delegate(admin: User, project: Scope) -> Delegate:
    token = make_token(project, "eu", f"slp_dlt_0123{planted('token')}")
    return create_delegate(actor=admin, scope=project, name="eu", answers=ANSWERS, token=token)


@pytest.fixture
def program(admin: User, call: Callable[[User], APIClient]) -> APIClient:
    return call(admin)


def post(client: APIClient, delegate: Delegate, route: str, body: dict[str, Any], key: str = "") -> Any:
    headers = {"HTTP_IDEMPOTENCY_KEY": key} if key else {}
    return client.post(f"/api/v1/delegates/{delegate.pk}/{route}", body, format="json", **headers)


def test_the_plan_names_all_parts_and_only_a_start_with_its_digest_runs_once(
    program: APIClient, delegate: Delegate, connector: Connector
) -> None:
    place = {"connector_id": connector.pk}
    plan = post(program, delegate, "deployment-plan", place).json()
    assert (plan["stack"], plan["ecs_service"], plan["cluster"]) == (
        "slipway-delegate-eu",
        "eu-service",
        "main",
    )
    assert "iam:CreateRole" in plan["actions"]
    assert not Execution.objects.exists()
    stale = post(program, delegate, "deployments", place | {"digest": "0" * 64})
    assert (stale.status_code, Execution.objects.count()) == (409, 0)
    body = place | {"digest": plan["digest"]}
    answers = [post(program, delegate, "deployments", body, "job-1") for _ in range(2)]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert str(Execution.objects.get().pk) == answers[0].json()["id"] == answers[1].json()["id"]


def test_a_changed_setup_changes_the_digest(
    admin: User, program: APIClient, delegate: Delegate, connector: Connector
) -> None:
    place = {"connector_id": connector.pk}
    before = post(program, delegate, "deployment-plan", place).json()
    change_setup(actor=admin, delegate=delegate, answers=ANSWERS, size="small")
    after = post(program, delegate, "deployment-plan", place).json()
    assert (before["instances"], after["instances"]) == (1, 2)
    assert before["digest"] != after["digest"]


def test_a_reason_against_the_deployment_has_its_field(
    program: APIClient, delegate: Delegate, connector: Connector, other_project: Scope
) -> None:
    place = {"connector_id": connector.pk, "org": other_project.org, "project": other_project.project}
    answer = post(program, delegate, "deployments", place)
    assert answer.status_code == 400
    assert [error["path"] for error in answer.json()["errors"]] == ["project"]


def test_who_manages_delegates_alone_cannot_deploy_them(
    call: Callable[[User], APIClient], delegate: Delegate, connector: Connector, project: Scope
) -> None:
    person = call(make_person("other", "delegate_manager", project))
    for route in ("deployment-plan", "deployments"):
        assert post(person, delegate, route, {"connector_id": connector.pk}).status_code in (403, 404)
