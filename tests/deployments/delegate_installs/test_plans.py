"""The plan of a delegate's deployment: what a person confirms, and why Slipway refuses to deploy."""

import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from connectors.models import Connector, Secret
from delegates.install.wizard import WizardAnswers
from delegates.models import Delegate, DelegateTask
from delegates.operations.installation import create_delegate, get_installation
from delegates.task_queue import route_waiting_tasks
from deployments.delegate_installs.operations import (
    DelegateDeploymentPlan,
    deploy_delegate,
    plan_delegate_deployment,
)
from deployments.engine.reconcile import reconcile
from deployments.models import Execution, StepExecution
from pipelines.models import Pipeline
from rbac.models import Scope, User
from rbac.policy import Forbidden
from tests.fixtures.delegates import make_delegate, make_instance, make_token
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db
ANSWERS: dict[str, Any] = {
    "region": "us-east-1",
    "aws_account_id": "123456789012",
    "cluster": "main",
    "image": "registry.example.com/slipway-delegate:1.2.3",
    "subnets": ("subnet-1", "subnet-2"),
    "security_groups": ("sg-1",),
    "secret_kind": "CREATE",
    "uses": ("ecs",),
}


@pytest.fixture
def connector(project: Scope) -> Connector:
    spec = {"credentials": "AccessKey", "access_key_id": "AKIA0123456789ABCDEF"}
    key = Secret.objects.create(scope=project, identifier="key", name="Key", value=planted("key"))
    return Connector.objects.create(scope=project, identifier="aws", name="AWS", spec=spec, secret=key)


def make(admin: User, scope: Scope, **answers: Any) -> Delegate:
    token = make_token(scope, "eu", f"slp_dlt_0123{planted('token')}")
    return create_delegate(
        actor=admin,
        scope=scope,
        name="eu",
        answers=WizardAnswers(**(ANSWERS | answers)),
        size="small",
        token=token,
    )


def plan_for(admin: User, delegate: Delegate, project: Scope, connector: Connector) -> DelegateDeploymentPlan:
    return plan_delegate_deployment(actor=admin, delegate=delegate, project=project, connector=connector)


def test_the_documents_name_everything_except_the_token(
    admin: User, project: Scope, connector: Connector
) -> None:
    delegate = make(admin, project)
    plan = plan_for(admin, delegate, project, connector)
    template = json.loads(plan.files["CloudFormation template"])
    assert sorted(template["Resources"]) == ["ExecutionRole", "LogGroup", "TaskRole", "TokenSecret"]
    assert template["Parameters"]["DelegateToken"]["NoEcho"] is True
    task = json.loads(plan.files["Task definition"])
    assert task["executionRoleArn"] == "<+steps.stack.output.ExecutionRoleArn>"
    (container,) = task["containerDefinitions"]
    assert container["image"] == ANSWERS["image"]
    assert container["secrets"][0]["valueFrom"] == "<+steps.stack.output.TokenSecretArn>"
    assert container["logConfiguration"]["options"]["awslogs-group"] == "/slipway/delegates/eu"
    service = json.loads(plan.files["Service definition"])
    assert (service["serviceName"], service["desiredCount"]) == ("eu-service", 2)
    assert service["deploymentConfiguration"]["minimumHealthyPercent"] == 100
    assert delegate.token is not None
    assert not any(str(delegate.token.value) in text for text in plan.files.values())


def test_the_role_of_the_stack_is_allowed_the_uses_and_reads_the_secrets_of_the_delegate(
    admin: User, project: Scope, connector: Connector
) -> None:
    arn = "arn:aws:secretsmanager:us-east-1:123456789012:secret:ca"
    delegate = make(admin, project, uses=("run-task",), ca_secret=arn, aws_account_id="")
    resources = plan_for(admin, delegate, project, connector).template["Resources"]
    (uses,) = resources["TaskRole"]["Properties"]["Policies"]
    assert uses["PolicyDocument"]["Statement"][0]["Action"] == ["ecs:RunTask", "ecs:StopTask"]
    (read,) = resources["ExecutionRole"]["Properties"]["Policies"]
    assert arn in read["PolicyDocument"]["Statement"][0]["Resource"]


def test_own_role_and_log_group_are_not_created(admin: User, project: Scope, connector: Connector) -> None:
    delegate = make(admin, project, task_role="delegate-role", log_group="/ours")
    plan = plan_for(admin, delegate, project, connector)
    assert sorted(plan.template["Resources"]) == ["ExecutionRole", "TokenSecret"]
    task = json.loads(plan.files["Task definition"])
    assert task["taskRoleArn"] == "arn:aws:iam::123456789012:role/delegate-role"


def test_the_task_role_allows_the_uses_of_the_delegate(
    admin: User, project: Scope, connector: Connector
) -> None:
    delegate = make(admin, project, uses=("ecs",))
    assert delegate.spec["task_role"] == "slipway-eu"
    plan = plan_for(admin, delegate, project, connector)
    (policy,) = plan.template["Resources"]["TaskRole"]["Properties"]["Policies"]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert "ecs:UpdateService" in statement["Action"]
    task = json.loads(plan.files["Task definition"])
    assert task["taskRoleArn"] == "<+steps.stack.output.TaskRoleArn>"


def test_without_a_use_neither_stack_nor_commands_have_a_task_role(
    admin: User, browse: Callable[[User], Client], project: Scope, connector: Connector
) -> None:
    delegate = make(admin, project, uses=())
    plan = plan_for(admin, delegate, project, connector)
    assert sorted(plan.template["Resources"]) == ["ExecutionRole", "LogGroup", "TokenSecret"]
    assert "taskRoleArn" not in json.loads(plan.files["Task definition"])
    page = browse(admin).get(f"/delegates/{delegate.pk}/deploy/").content.decode()
    assert "No task role, because the delegate has no uses" in page
    spec, _ = get_installation(actor=admin, delegate=delegate)
    assert "taskRoleArn" not in spec.task_definition


@pytest.mark.parametrize(
    ("mode", "flavour", "note"),
    [
        ("", "v3", "room for 3 tasks"),
        ("awsvpc", "v3", "room for 3 tasks"),
        ("host", "v3", "the cluster needs 3 instances"),
        ("", "legacy", "the cluster needs 3 instances"),
    ],
)
def test_a_delegate_on_ec2_is_spread_over_hosts_and_needs_subnets_with_awsvpc_only(
    admin: User,
    browse: Callable[[User], Client],
    project: Scope,
    connector: Connector,
    mode: str,
    flavour: str,
    note: str,
) -> None:
    network = {} if mode == "awsvpc" else {"subnets": (), "security_groups": ()}
    delegate = make(admin, project, target="EC2", network_mode=mode, flavour=flavour, **network)
    plan = plan_for(admin, delegate, project, connector)
    service = json.loads(plan.files["Service definition"])
    assert (service["launchType"], service["desiredCount"]) == ("EC2", 2)
    assert [strategy["field"] for strategy in service["placementStrategy"]][-1] == "instanceId"
    assert ("networkConfiguration" in service) is (mode == "awsvpc")
    task = json.loads(plan.files["Task definition"])
    (container,) = task["containerDefinitions"]
    assert ("hostname" in container) is (flavour == "legacy")
    assert ("portMappings" in container) is ("instances" in note)
    page = browse(admin).get(f"/delegates/{delegate.pk}/deploy/").content.decode()
    assert note in page


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"target": "EC2", "network_mode": "awsvpc", "subnets": ()}, "no subnets or no security groups"),
        ({"target": "DOCKER"}, "Slipway deploys delegates on ECS only."),
        ({"subnets": ()}, "no subnets or no security groups"),
        ({"aws_account_id": "", "task_role": "delegate-role"}, "AWS account of the delegate is unknown"),
    ],
)
def test_a_delegate_that_cannot_be_deployed_is_refused_with_the_reason(
    admin: User, project: Scope, connector: Connector, answers: dict[str, Any], message: str
) -> None:
    with pytest.raises(BadInput, match=message):
        plan_for(admin, make(admin, project, **answers), project, connector)


def test_the_page_reads_ecs_through_the_connector_that_deployed_the_delegate(
    admin: User,
    browse: Callable[[User], Client],
    project: Scope,
    connector: Connector,
    settings: Settings,
) -> None:
    settings.ALLOW_AWS_ENDPOINTS = True
    own = {"credentials": "Delegate", "delegate_selectors": ["x"], "endpoint_url": "http://127.0.0.1:9999"}
    connector.spec = {"connect_through": "Delegate", **own}
    connector.save()
    Connector.objects.create(scope=project, identifier="another", name="Another", spec=connector.spec)
    delegate = make(admin, project)
    address = f"/delegates/{delegate.pk}/install/"
    Delegate.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    assert "Choose a connector to the AWS account" in browse(admin).get(address).content.decode()
    deploy_delegate(actor=admin, plan=plan_for(admin, delegate, project, connector))
    page = browse(admin).get(address).content.decode()
    assert "Reading events and stopped tasks of <code>eu-service</code> through AWS." in page
    assert "aws logs tail /slipway/delegates/eu" in page


def test_the_deletion_of_a_deployed_delegate_names_what_stays(
    admin: User, browse: Callable[[User], Client], project: Scope, connector: Connector
) -> None:
    delegate = make(admin, project)
    address = f"/delegates/{delegate.pk}/delete/"
    assert "stays in AWS" not in browse(admin).get(address).content.decode()
    deploy_delegate(actor=admin, plan=plan_for(admin, delegate, project, connector))
    page = browse(admin).get(address).content.decode()
    for part in (
        "aws ecs delete-service --cluster main --service eu-service --force --region us-east-1",
        "aws cloudformation delete-stack --stack-name slipway-delegate-eu --region us-east-1",
        "task role, log group /slipway/delegates/eu",
        f"slipway_delegate_{delegate.pk}_token",
    ):
        assert part in page
    other = make_person("other", "delegate_manager", project)
    page = browse(other).get(address).content.decode()
    assert "eu-service" in page
    assert "deployed through" not in page


def test_a_connector_that_only_the_delegate_itself_can_serve_is_refused(
    admin: User, project: Scope, connector: Connector
) -> None:
    delegate = make(admin, project)
    connector.spec = {"connect_through": "Delegate", "credentials": "Delegate", "delegate_selectors": ["EU"]}
    connector.save()
    assert plan_for(admin, delegate, project, connector)
    make_instance(delegate, heartbeat_at=timezone.now() - timedelta(seconds=1))
    with pytest.raises(BadInput, match="must not replace or end its own tasks"):
        plan_for(admin, delegate, project, connector)
    other = make_delegate(project, "us", tags=["eu"])
    with pytest.raises(BadInput, match="Connect another delegate"):
        plan_for(admin, delegate, project, connector)
    make_instance(other, "host-2/10.0.0.2")
    assert plan_for(admin, delegate, project, connector)
    other.instances.all().delete()
    connector.spec |= {"delegate_selectors": ["other"]}
    assert plan_for(admin, delegate, project, connector)


def test_no_call_of_the_run_may_go_to_the_delegate_that_it_replaces(
    admin: User, project: Scope, connector: Connector, settings: Settings
) -> None:
    settings.ALLOW_AWS_ENDPOINTS = True
    delegate = make(admin, project)
    own = {"credentials": "Delegate", "delegate_selectors": ["EU"], "endpoint_url": "http://127.0.0.1:9999"}
    connector.spec = {"connect_through": "Delegate", **own}
    connector.save()
    execution = deploy_delegate(actor=admin, plan=plan_for(admin, delegate, project, connector))
    reconcile(execution.pk)
    (task,) = DelegateTask.objects.all()
    assert task.excluded_delegate == delegate
    make_instance(delegate)
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.offered_to is None
    assert "This run replaces or removes it" in task.reason
    make_instance(other := make_delegate(project, "us", tags=["eu"]), "host-2/10.0.0.2")
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.offered_to == other


def test_rows_of_the_run_are_in_the_project_and_the_token_is_in_a_secret_alone(
    admin: User, project: Scope, connector: Connector
) -> None:
    delegate = make(admin, project)
    execution = deploy_delegate(actor=admin, plan=plan_for(admin, delegate, project, connector))
    pipeline = Pipeline.objects.get(scope=project, identifier=f"slipway_delegate_{delegate.pk}")
    assert execution.pipeline == pipeline
    kinds = list(StepExecution.objects.filter(stage__execution=execution).values_list("type", flat=True))
    assert {"CreateStack", "EcsRollingDeploy", "DelegateConnect"} <= set(kinds)
    assert delegate.token is not None
    token = str(delegate.token.value)
    assert str(Secret.objects.get(scope=project, identifier=f"{pipeline.identifier}_token").value) == token
    steps = StepExecution.objects.filter(stage__execution=execution)
    texts = [pipeline.yaml, execution.yaml, *(json.dumps(step.spec) for step in steps)]
    assert not any(token in text for text in texts)
    assert plan_for(admin, delegate, project, connector).is_update
    Execution.objects.update(status="SUCCESS")
    deploy_delegate(actor=admin, plan=plan_for(admin, delegate, project, connector))
    assert Pipeline.objects.filter(identifier=pipeline.identifier).count() == 1


def test_people_who_may_not_edit_delegates_cannot_plan(
    admin: User, project: Scope, connector: Connector, viewer: User
) -> None:
    with pytest.raises(Forbidden):
        plan_for(viewer, make(admin, project), project, connector)


def test_the_page_shows_the_plan_and_starts_only_what_it_showed(
    admin: User, project: Scope, connector: Connector
) -> None:
    delegate = make(admin, project)
    client = Client()
    client.force_login(admin)
    address = f"/delegates/{delegate.pk}/deploy/"
    choices = {"project": project.pk, "connector": connector.pk}
    page = client.get(address, choices)
    assert "slipway-delegate-eu" in page.content.decode()
    refused = client.post(address, choices | {"digest": "other"})
    assert refused.status_code == 400
    assert not Execution.objects.exists()
    answer = client.post(address, choices | {"digest": page.context["digest"]})
    assert answer.headers["Location"] == f"/delegates/{delegate.pk}/install/"
    assert Execution.objects.count() == 1
