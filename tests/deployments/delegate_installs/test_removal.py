"""The removal of a deployed delegate: its plan, who may start it, and what it takes for its own."""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from connectors.models import Connector, Secret
from delegates.install.wizard import WizardAnswers
from delegates.installations import list_installations
from delegates.models import Delegate
from delegates.operations.installation import change_setup, create_delegate
from deployments.delegate_installs import removal
from deployments.delegate_installs.operations import deploy_delegate, plan_delegate_deployment
from deployments.delegate_installs.records import list_deployed_parts
from deployments.delegate_installs.removal import (
    DelegateRemovalPlan,
    plan_delegate_removal,
    remove_delegate,
)
from deployments.delegate_installs.upgrade_windows import UpgradeTimes, set_upgrade_window
from deployments.models import DelegateUpgradeWindow, Execution, StageExecution, StepExecution
from pipelines.models import Pipeline
from pipelines.operations.pipelines import delete_pipeline
from rbac.models import Role, RoleAssignment, Scope, User
from rbac.policy import Forbidden
from tests.fixtures.delegates import make_delegate, make_instance, make_token
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted
from web.http.problems import BadInput, Conflict

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
STACK = "arn:aws:cloudformation:us-east-1:123456789012:stack/slipway-delegate-eu/1"
DEFINITION = "arn:aws:ecs:us-east-1:123456789012:task-definition/eu:"


def make_connector(scope: Scope, identifier: str) -> Connector:
    spec = {"credentials": "AccessKey", "access_key_id": "AKIA0123456789ABCDEF"}
    key = Secret.objects.create(scope=scope, identifier=identifier, name="Key", value=planted("key"))
    return Connector.objects.create(
        scope=scope, identifier=identifier, name=identifier, spec=spec, secret=key
    )


@pytest.fixture
def connector(project: Scope) -> Connector:
    return make_connector(project, "aws")


@pytest.fixture
def delegate(admin: User, project: Scope) -> Delegate:
    token = make_token(project, "eu", f"slp_dlt_0123{planted('token')}")
    return create_delegate(actor=admin, scope=project, name="eu", answers=ANSWERS, token=token)


def deploy(
    admin: User,
    delegate: Delegate,
    connector: Connector,
    outcome: str = "COMPLETED",
    project: Scope | None = None,
) -> Execution:
    """Deploy the delegate, and write down the end as the engine would."""
    project = project or delegate.scope
    plan = plan_delegate_deployment(actor=admin, delegate=delegate, project=project, connector=connector)
    run = deploy_delegate(actor=admin, plan=plan)
    steps = StepExecution.objects.filter(stage__execution=run)
    deployed = {"deploymentId": f"ecs-svc/{run.number}", "taskDefinitionArn": f"{DEFINITION}{run.number}"}
    steps.filter(type="EcsRollingDeploy").update(outputs=deployed)
    steps.filter(type="CreateStack").update(outputs={"stackId": STACK})
    return end(run, outcome)


def end(run: Execution, outcome: str = "COMPLETED") -> Execution:
    status = "SUCCESS" if outcome == "COMPLETED" else "FAILED"
    Execution.objects.filter(pk=run.pk).update(status=status, outcome=outcome, ended_at=timezone.now())
    run.refresh_from_db()
    return run


def plan_for(admin: User, delegate: Delegate, **choices: Any) -> DelegateRemovalPlan:
    return plan_delegate_removal(actor=admin, delegate=delegate, project=delegate.scope, **choices)


@pytest.fixture
def deployed(admin: User, delegate: Delegate, connector: Connector) -> Delegate:
    deploy(admin, delegate, connector)
    return delegate


def test_the_run_deletes_only_what_the_deployments_made(admin: User, deployed: Delegate) -> None:
    plan = plan_for(admin, deployed)
    (stage,) = json.loads(plan.document)["pipeline"]["stages"]
    first, second = (step["step"] for step in stage["stage"]["spec"]["execution"]["steps"])
    assert (first["type"], second["type"]) == ("EcsDeleteService", "DeleteStack")
    assert first["spec"] == {"service": "eu-service", "expected": ["ecs-svc/1"], "delegate": "eu"}
    assert second["spec"] == {
        "stackName": "slipway-delegate-eu",
        "onlyWithTags": [{"name": "slipway:delegate", "value": "eu"}],
        "expected": [STACK],
    }


def test_a_deployment_updates_no_stack_but_those_of_its_own_deployments(
    admin: User, delegate: Delegate, connector: Connector
) -> None:
    runs = [deploy(admin, delegate, connector) for _ in range(2)]
    specs = [StepExecution.objects.get(stage__execution=run, type="CreateStack").spec for run in runs]
    assert [(spec["onlyExpected"], spec["expected"]) for spec in specs] == [(True, []), (True, [STACK])]


def get_expected_stacks(run: Execution) -> list[str]:
    return list(StepExecution.objects.get(stage__execution=run, type="CreateStack").spec["expected"])


def test_the_stack_of_a_delegate_stays_its_own_after_many_runs_that_failed_early(
    admin: User, deployed: Delegate, connector: Connector
) -> None:
    for _ in range(21):
        run = deploy(admin, deployed, connector, "ROLLED_BACK")
        StepExecution.objects.filter(stage__execution=run).update(outputs={})
    assert get_expected_stacks(deploy(admin, deployed, connector)) == [STACK]
    assert STACK in list_deployed_parts(deployed, deployed.scope).stacks
    StepExecution.objects.filter(stage__execution__number__gt=1).update(outputs={})
    assert list_deployed_parts(deployed, deployed.scope).deployments == ("ecs-svc/1", f"{DEFINITION}1")


@pytest.fixture
def account_connector(account: Scope) -> Connector:
    return make_connector(account, "account_aws")


@pytest.fixture
def shared(admin: User, account: Scope, project: Scope, account_connector: Connector) -> Delegate:
    """A delegate of the account that the project has deployed."""
    token = make_token(account, "shared", f"slp_dlt_0123{planted('token')}")
    shared = create_delegate(actor=admin, scope=account, name="shared", answers=ANSWERS, token=token)
    deploy(admin, shared, account_connector, project=project)
    return shared


def test_projects_with_the_same_account_share_the_stack_of_a_delegate(
    admin: User, shared: Delegate, account_connector: Connector, other_project: Scope
) -> None:
    assert get_expected_stacks(deploy(admin, shared, account_connector, project=other_project)) == [STACK]
    assert list_deployed_parts(shared, other_project).deployments == ("ecs-svc/1",)


@pytest.mark.parametrize("order", [1, -1], ids=["in the order of the deployments", "in reverse"])
def test_the_last_project_that_removes_a_delegate_deletes_the_stack(
    admin: User,
    shared: Delegate,
    account_connector: Connector,
    project: Scope,
    other_project: Scope,
    order: int,
) -> None:
    change_setup(actor=admin, delegate=shared, answers=replace(ANSWERS, cluster="other"))
    deploy(admin, shared, account_connector, project=other_project)
    first, last = (project, other_project)[::order]
    plan = plan_delegate_removal(actor=admin, delegate=shared, project=first)
    assert "DeleteStack" not in plan.document
    assert (plan.deletes_stack, plan.stack_users) == (False, (last.path,))
    assert all(action.startswith("ecs:") for action in plan.actions)
    run = end(remove_delegate(actor=admin, plan=plan))
    assert list_step_types(run) == ["EcsDeleteService"]
    plan = plan_delegate_removal(actor=admin, delegate=shared, project=last)
    run = end(remove_delegate(actor=admin, plan=plan))
    assert list_step_types(run) == ["EcsDeleteService", "DeleteStack"]


def list_step_types(run: Execution) -> list[str]:
    steps = StepExecution.objects.filter(stage__execution=run)
    return list(steps.order_by("position").values_list("type", flat=True))


def test_the_stack_of_another_account_is_not_deleted_for_the_project_that_made_it(
    admin: User, shared: Delegate, account_connector: Connector, project: Scope, other_project: Scope
) -> None:
    run = deploy(admin, shared, account_connector, project=other_project)
    elsewhere = {"stackId": STACK.replace("123456789012", "999999999999")}
    StepExecution.objects.filter(stage__execution=run, type="CreateStack").update(outputs=elsewhere)
    assert plan_delegate_removal(actor=admin, delegate=shared, project=project).parts.stacks == (STACK,)


def test_a_first_deployment_that_was_rolled_back_keeps_no_stack_of_another_project(
    admin: User, shared: Delegate, account_connector: Connector, project: Scope, other_project: Scope
) -> None:
    deploy(admin, shared, account_connector, "ROLLED_BACK", project=other_project)
    assert plan_delegate_removal(actor=admin, delegate=shared, project=project).deletes_stack


def test_no_removal_starts_during_a_deployment_by_another_project(
    admin: User, shared: Delegate, account_connector: Connector, project: Scope, other_project: Scope
) -> None:
    run = deploy(admin, shared, account_connector, project=other_project)
    Execution.objects.filter(pk=run.pk).update(status="RUNNING", outcome="", due_at=timezone.now())
    with pytest.raises(Conflict, match="still running"):
        plan_delegate_removal(actor=admin, delegate=shared, project=project)


def test_no_removal_starts_if_another_project_has_begun_a_deployment_since_its_check(
    admin: User,
    shared: Delegate,
    account_connector: Connector,
    project: Scope,
    other_project: Scope,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    plan = plan_delegate_removal(actor=admin, delegate=shared, project=project)

    def deploy_meanwhile(*, actor: User, delegate: Delegate) -> None:
        other = plan_delegate_deployment(
            actor=actor, delegate=delegate, project=other_project, connector=account_connector
        )
        deploy_delegate(actor=actor, plan=other)

    monkeypatch.setattr(removal, "delete_upgrade_window", deploy_meanwhile)
    with pytest.raises(Conflict, match="still running"):
        remove_delegate(actor=admin, plan=plan)


def test_during_a_removal_no_other_project_deploys_the_delegate(
    admin: User, shared: Delegate, account_connector: Connector, project: Scope, other_project: Scope
) -> None:
    plan = plan_delegate_removal(actor=admin, delegate=shared, project=project)
    run = remove_delegate(actor=admin, plan=plan)
    with pytest.raises(Conflict, match="still removing"):
        deploy(admin, shared, account_connector, project=other_project)
    end(run)
    assert deploy(admin, shared, account_connector, project=other_project).outcome == "COMPLETED"


def test_page_and_api_say_for_whom_the_stack_stays_as_far_as_the_reader_may_know(
    admin: User,
    call: Callable[[User], APIClient],
    shared: Delegate,
    account_connector: Connector,
    project: Scope,
    other_project: Scope,
) -> None:
    deploy(admin, shared, account_connector, project=other_project)
    own = make_connector(project, "aws")
    manager = make_person("manager", "delegate_manager", shared.scope)
    role = Role.objects.get(identifier="project_admin", scope=None)
    RoleAssignment.objects.create(user=manager, role=role, scope=project)
    for reader, name in ((admin, other_project.path), (manager, "another project")):
        place = {"connector_id": own.pk, "org": "default", "project": "demo"}
        plan = call(reader).post(f"/api/v1/delegates/{shared.pk}/removal-plan", place, format="json").json()
        assert (plan["deletes_stack"], plan["stack_users"]) == (False, [name])
        browser = Client()
        browser.force_login(reader)
        choices = {"project": project.pk, "connector": own.pk}
        text = browser.get(f"/delegates/{shared.pk}/remove/", choices).content.decode()
        assert f"It stays, because {name} deployed the delegate with it too." in text
    removal = plan_delegate_removal(actor=admin, delegate=shared, project=project)
    end(remove_delegate(actor=admin, plan=removal))
    text = browser.get(f"/delegates/{shared.pk}/remove/").content.decode()
    assert "its stack stays" in text


def test_a_stack_that_no_run_recorded_stays_and_the_page_says_so(admin: User, deployed: Delegate) -> None:
    StepExecution.objects.filter(type="CreateStack").update(outputs={})
    browser = Client()
    browser.force_login(admin)
    text = browser.get(f"/delegates/{deployed.pk}/remove/").content.decode()
    assert "It stays, because no run has recorded its id." in text


def test_what_runs_after_a_rollback_is_known_by_its_task_definition(
    admin: User, deployed: Delegate, connector: Connector
) -> None:
    deploy(admin, deployed, connector, "ROLLED_BACK")
    parts = list_deployed_parts(deployed, deployed.scope)
    assert parts.deployments == ("ecs-svc/2", "ecs-svc/1", f"{DEFINITION}1")
    deploy(admin, deployed, connector)
    assert list_deployed_parts(deployed, deployed.scope).deployments == (
        "ecs-svc/3",
        "ecs-svc/2",
        "ecs-svc/1",
    )


def test_a_service_that_another_project_failed_to_upgrade_is_known_by_its_task_definition(
    admin: User, shared: Delegate, account_connector: Connector, project: Scope, other_project: Scope
) -> None:
    deploy(admin, shared, account_connector, "ROLLED_BACK", project=other_project)
    assert list_deployed_parts(shared, project).deployments == ("ecs-svc/1", f"{DEFINITION}1")
    assert f"{DEFINITION}1" not in list_deployed_parts(shared, other_project).deployments


def test_a_removed_delegate_is_no_longer_installed_until_it_is_deployed_again(
    admin: User, deployed: Delegate, connector: Connector
) -> None:
    run = remove_delegate(actor=admin, plan=plan_for(admin, deployed))
    assert StageExecution.objects.get(execution=run).excluded_delegate == deployed
    assert len(list_installations(deployed)) == 1
    with pytest.raises(Conflict, match="still running"):
        plan_for(admin, deployed)
    end(run, "FAILED")
    run = end(remove_delegate(actor=admin, plan=plan_for(admin, deployed)))
    assert list_installations(deployed) == []
    with pytest.raises(BadInput, match="has removed it"):
        plan_for(admin, deployed)
    deploy(admin, deployed, connector)
    assert len(list_installations(deployed)) == 1


def test_a_new_pipeline_in_place_of_a_deleted_one_tells_where_the_delegate_is(
    admin: User, deployed: Delegate, connector: Connector
) -> None:
    end(remove_delegate(actor=admin, plan=plan_for(admin, deployed)))
    delete_pipeline(actor=admin, pipeline=Pipeline.objects.get(scope=deployed.scope))
    run = deploy(admin, deployed, connector)
    assert run.number == 1
    assert len(list_installations(deployed)) == 1
    Execution.objects.filter(pk=run.pk).update(outcome="ROLLED_BACK")
    assert f"{DEFINITION}1" in list_deployed_parts(deployed, deployed.scope).deployments


def test_a_removed_delegate_is_not_upgraded_in_its_window(admin: User, deployed: Delegate) -> None:
    set_upgrade_window(actor=admin, delegate=deployed, times=UpgradeTimes((0,), "02:00", 60, "UTC"))
    remove_delegate(actor=admin, plan=plan_for(admin, deployed))
    assert not DelegateUpgradeWindow.objects.exists()


def test_a_delegate_that_never_reached_ecs_is_left_to_the_commands(
    admin: User, delegate: Delegate, connector: Connector
) -> None:
    with pytest.raises(BadInput, match="has not deployed eu"):
        plan_for(admin, delegate)
    deploy(admin, delegate, connector, "ROLLED_BACK")
    StepExecution.objects.update(outputs={})
    with pytest.raises(BadInput, match="does not know which one is its own"):
        plan_for(admin, delegate)


def test_a_connector_that_only_the_delegate_serves_cannot_remove_it_but_another_one_can(
    admin: User, deployed: Delegate, connector: Connector
) -> None:
    connector.spec = {"connect_through": "Delegate", "credentials": "Delegate", "delegate_selectors": ["EU"]}
    connector.save()
    make_instance(deployed)
    with pytest.raises(BadInput, match="must not replace or end its own tasks"):
        plan_for(admin, deployed)
    other = make_connector(deployed.scope, "other")
    run = remove_delegate(actor=admin, plan=plan_for(admin, deployed, connector=other))
    assert StageExecution.objects.get(execution=run).connector == other
    end(run, "FAILED")
    connector.refresh_from_db()
    make_instance(make_delegate(deployed.scope, "us", tags=["eu"]), "host-2/10.0.0.2")
    assert plan_for(admin, deployed, connector=connector).connector == connector


def test_removal_needs_the_permissions_to_delete_delegates_and_to_run_pipelines(
    deployed: Delegate, project: Scope
) -> None:
    with pytest.raises(Forbidden):
        plan_for(make_person("manager", "delegate_manager", project), deployed)
    with pytest.raises(Forbidden):
        plan_for(make_person("runner", "pipeline_executor", project), deployed)


def test_the_page_removes_only_what_it_showed_and_offers_to_delete_the_delegate(
    admin: User, deployed: Delegate, connector: Connector
) -> None:
    browser = Client()
    browser.force_login(admin)
    url = f"/delegates/{deployed.pk}/remove/"
    assert url in browser.get(f"/delegates/{deployed.pk}/delete/").content.decode()
    page = browser.get(url)
    assert "Revisions of the task definition" in page.content.decode()
    choices = {"project": deployed.scope.pk, "connector": connector.pk}
    assert browser.post(url, choices | {"digest": "other"}).status_code == 400
    started = browser.post(url, choices | {"digest": page.context["digest"]})
    assert started.headers["Location"] == url
    assert "The removal is running" in browser.get(url).content.decode()
    run = Execution.objects.latest("created_at")
    end(run)
    text = browser.get(url).content.decode()
    assert "Removed from AWS" in text
    assert f"/delegates/{deployed.pk}/delete/" in text
    assert "What stays in AWS" not in browser.get(f"/delegates/{deployed.pk}/delete/").content.decode()


def test_a_program_removes_what_its_plan_named(
    admin: User, call: Callable[[User], APIClient], deployed: Delegate, connector: Connector
) -> None:
    client, base = call(admin), f"/api/v1/delegates/{deployed.pk}"
    plan = client.post(f"{base}/removal-plan", {}, format="json").json()
    assert (plan["stack"], plan["ecs_service"], plan["connector_id"]) == (
        "slipway-delegate-eu",
        "eu-service",
        connector.pk,
    )
    assert "ecs:DeleteService" in plan["actions"]
    runs = Execution.objects.count()
    stale = client.post(f"{base}/removals", {"digest": "0" * 64}, format="json")
    assert (stale.status_code, Execution.objects.count()) == (409, runs)
    body = {"digest": plan["digest"], "connector_id": connector.pk}
    answers = [
        client.post(f"{base}/removals", body, format="json", HTTP_IDEMPOTENCY_KEY="job-1") for _ in range(2)
    ]
    assert [answer.status_code for answer in answers] == [201, 201]
    assert Execution.objects.count() == runs + 1
