"""Slipway deploys a delegate by itself: to a connection, to the next image, back from a bad one, and away."""

from dataclasses import replace
from typing import Any

import pytest
from pytest_django import Settings

from connectors.models import Connector
from delegates.agent import VERSION
from delegates.install.commands import list_removal_commands
from delegates.install.wizard import WizardAnswers
from delegates.installations import list_installations
from delegates.models import Delegate, DelegateTask, get_account_id
from delegates.operations.installation import create_delegate
from delegates.operations.tokens import create_token
from deployments.delegate_installs.automatic_upgrades import finish_upgrades, start_due_upgrades
from deployments.delegate_installs.operations import deploy_delegate, plan_delegate_deployment
from deployments.delegate_installs.removal import plan_delegate_removal, remove_delegate
from deployments.delegate_installs.upgrade_windows import UpgradeTimes, set_upgrade_window
from deployments.journal import rate_limits
from deployments.log import iterate_lines
from deployments.models import AwsCall, DelegateUpgrade, Execution, LogChunk
from ops.demo.pipelines import SandboxFacts
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.contract.endpoint import client
from tests.fixtures.agents import Api, Manager, StartAgent
from tests.fixtures.delegates import make_token
from tests.fixtures.demo import fill_in_demo
from tests.fixtures.processes import wait_until
from tests.secret_watch.marker import planted
from tests.stories.delegates import aws_commands
from web.clock import get_database_time
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db(transaction=True)
BAD_TAG = "nopull"


@pytest.fixture(autouse=True)
def _demo(
    live_broker: str, manager: Manager, pretend_aws: SandboxProcess, settings: Settings, admin: User
) -> None:
    rate_limits.reset_buckets()
    pretend_aws.reset()
    settings.SANDBOX_URL, settings.PUBLIC_URL = pretend_aws.url, manager.url
    fill_in_demo(SandboxFacts.from_wire(pretend_aws.seed()))


@pytest.fixture
def project(_demo: None) -> Scope:
    return Scope.objects.get(path="account/default/demo")


def make_delegate(aws: SandboxProcess, project: Scope, tag: str, size: str = "", **others: Any) -> Delegate:
    seed = aws.seed()
    answers = WizardAnswers(
        region=seed["region"],
        aws_account_id=seed["account"],
        cluster=seed["cluster"],
        subnets=tuple(seed["subnets"]),
        security_groups=(seed["security_group"],),
        image=f"registry.example.com/slipway-delegate:{tag}",
        secret_kind="CREATE",
        **others,
    )
    return create_delegate(
        actor=User.objects.get(username="admin"),
        scope=project,
        name="deployed",
        answers=answers,
        size=size,
        token=make_token(project, "deployed", f"slp_dlt_0123{planted('t' * 27)}"),
    )


def deploy(
    delegate: Delegate, project: Scope, seconds: float = 150, *, connector: str = "sandbox_aws"
) -> Execution:
    """Deploy as the confirmed page does, and wait for the end."""
    actor, chosen = User.objects.get(username="admin"), Connector.objects.get(identifier=connector)
    plan = plan_delegate_deployment(actor=actor, delegate=delegate, project=project, connector=chosen)
    return wait_for_end(deploy_delegate(actor=actor, plan=plan), seconds)


def remove(delegate: Delegate, project: Scope) -> Execution:
    """Remove as the confirmed page does, and wait for the end."""
    actor = User.objects.get(username="admin")
    plan = plan_delegate_removal(actor=actor, delegate=delegate, project=project)
    return wait_for_end(remove_delegate(actor=actor, plan=plan), 150)


def wait_for_end(execution: Execution, seconds: float) -> Execution:
    def is_over() -> bool:
        execution.refresh_from_db()
        return execution.is_over

    wait_until(is_over, "the end of the execution", seconds)
    return execution


def list_services(aws: SandboxProcess) -> list[str]:
    answer = client(aws.url, "ecs").list_services(cluster=aws.seed()["cluster"])
    return list(answer["serviceArns"])


def list_stacks(aws: SandboxProcess) -> list[str]:
    stacks = client(aws.url, "cloudformation").describe_stacks()["Stacks"]
    return [stack["StackName"] for stack in stacks]


def read_image(aws: SandboxProcess) -> str:
    """The image that the ECS service of the delegate runs."""
    ecs, cluster = client(aws.url, "ecs"), aws.seed()["cluster"]
    (service,) = ecs.describe_services(cluster=cluster, services=["deployed-service"])["services"]
    definition = ecs.describe_task_definition(taskDefinition=service["taskDefinition"])["taskDefinition"]
    return str(definition["containerDefinitions"][0]["image"])


def test_a_deployed_delegate_connects_and_no_record_has_its_token(
    api: Api, pretend_aws: SandboxProcess, project: Scope
) -> None:
    delegate = make_delegate(pretend_aws, project, "1.0.0")
    execution = deploy(delegate, project)
    lines = [str(line) for line in iterate_lines(execution.pk)]
    assert execution.outcome == "COMPLETED", [execution.failure, *lines[-10:]]
    row = api.until("deployed", "CONNECTED")
    (program,) = pretend_aws.programs()
    assert [instance["key"] for instance in row["instances"]] == [program["task"]]
    assert list_stacks(pretend_aws) == ["slipway-delegate-deployed"]
    assert delegate.token is not None
    token = str(delegate.token.value)
    calls = AwsCall.objects.filter(execution=execution)
    texts = [*lines, *(f"{call.preview} {call.parameters} {call.result}" for call in calls)]
    assert LogChunk.objects.exists()
    assert not any(token in text for text in texts)
    (installation,) = list_installations(delegate)
    for command in list_removal_commands(installation.plan, installation.stack):
        # The tests' reading of the AWS CLI knows no waiters.
        if not command.command.startswith(("aws ecs wait", "aws cloudformation wait")):
            aws_commands.run(pretend_aws.url, command.command, {})
    wait_until(lambda: list_stacks(pretend_aws) == [], "the end of the stack", 60)
    api.until("deployed", "DISCONNECTED")


@pytest.mark.parametrize("mode", ["", "awsvpc", "host"])
def test_both_instances_on_ec2_connect_from_different_hosts(
    api: Api, pretend_aws: SandboxProcess, project: Scope, mode: str
) -> None:
    delegate = make_delegate(pretend_aws, project, "1.0.0", size="small", target="EC2", network_mode=mode)
    execution = deploy(delegate, project)
    lines = [str(line) for line in iterate_lines(execution.pk)]
    assert execution.outcome == "COMPLETED", [execution.failure, *lines[-10:]]
    api.until("deployed", "CONNECTED")
    ecs, cluster = client(pretend_aws.url, "ecs"), pretend_aws.seed()["cluster"]
    arns = ecs.list_tasks(cluster=cluster, serviceName="deployed-service")["taskArns"]
    tasks = ecs.describe_tasks(cluster=cluster, tasks=arns)["tasks"]
    assert len({task["containerInstanceArn"] for task in tasks}) == len(tasks) == 2
    wait_until(lambda: count_connected(api) == 2, "both instances", 60)


def count_connected(api: Api) -> int:
    return sum(row["status"] == "CONNECTED" for row in api.delegate("deployed")["instances"])


def test_a_bad_image_is_rolled_back_and_leaves_nothing(
    api: Api, pretend_aws: SandboxProcess, project: Scope
) -> None:
    execution = deploy(make_delegate(pretend_aws, project, BAD_TAG), project)
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), execution.failure
    assert list_stacks(pretend_aws) == []
    assert list_services(pretend_aws) == []
    assert pretend_aws.programs() == []


def test_a_removed_delegate_leaves_nothing_in_aws_and_can_be_deployed_again(
    api: Api, pretend_aws: SandboxProcess, project: Scope
) -> None:
    delegate = make_delegate(pretend_aws, project, "1.0.0")
    assert deploy(delegate, project).outcome == "COMPLETED"
    # What runs after a failed upgrade is known by its task definition.
    answers = WizardAnswers.from_json(delegate.spec)
    delegate.spec = replace(answers, image=f"registry.example.com/slipway-delegate:{BAD_TAG}").to_json()
    delegate.save(update_fields=["spec"])
    assert deploy(delegate, project).outcome == "ROLLED_BACK"
    removal = remove(delegate, project)
    lines = [str(line) for line in iterate_lines(removal.pk)]
    assert removal.status == "SUCCESS", [removal.failure, *lines[-10:]]
    assert (list_services(pretend_aws), list_stacks(pretend_aws), pretend_aws.programs()) == ([], [], [])
    api.until("deployed", "DISCONNECTED")
    assert list_installations(delegate) == []
    delegate.spec = answers.to_json()
    delegate.save(update_fields=["spec"])
    assert deploy(delegate, project).outcome == "COMPLETED"
    assert api.until("deployed", "CONNECTED")


def test_a_service_that_others_deployed_is_not_removed(
    api: Api, pretend_aws: SandboxProcess, project: Scope
) -> None:
    delegate = make_delegate(pretend_aws, project, "1.0.0")
    assert deploy(delegate, project).outcome == "COMPLETED"
    service = {"cluster": pretend_aws.seed()["cluster"], "service": "deployed-service"}
    client(pretend_aws.url, "ecs").update_service(**service, forceNewDeployment=True)
    removal = remove(delegate, project)
    assert (removal.status, (removal.failure or {}).get("code")) == ("FAILED", "SUPERSEDED")
    assert list_stacks(pretend_aws) == ["slipway-delegate-deployed"]
    assert len(list_services(pretend_aws)) == 1


def test_an_upgrade_to_a_bad_image_ends_with_the_earlier_one_connected(
    api: Api, pretend_aws: SandboxProcess, project: Scope
) -> None:
    delegate = make_delegate(pretend_aws, project, "1.0.0")
    assert deploy(delegate, project).outcome == "COMPLETED"
    answers = WizardAnswers.from_json(delegate.spec)
    for tag, outcome, left in ((BAD_TAG, "ROLLED_BACK", "1.0.0"), ("1.1.0", "COMPLETED", "1.1.0")):
        image = f"registry.example.com/slipway-delegate:{tag}"
        delegate.spec = replace(answers, image=image).to_json()
        delegate.save(update_fields=["spec"])
        execution = deploy(delegate, project)
        assert execution.outcome == outcome, execution.failure
        assert read_image(pretend_aws).endswith(f":{left}")
        assert api.until("deployed", "CONNECTED")
    assert list_stacks(pretend_aws) == ["slipway-delegate-deployed"]


def test_a_delegate_of_an_earlier_release_is_upgraded_within_its_window(
    api: Api, pretend_aws: SandboxProcess, project: Scope, admin: User
) -> None:
    delegate = make_delegate(pretend_aws, project, "0.0.9")
    assert deploy(delegate, project).outcome == "COMPLETED"
    # Agents of the sandbox all have this release, whatever the tag of their image.
    delegate.instances.update(version="0.0.9")
    times = UpgradeTimes(tuple(range(7)), "00:00", 24 * 60)
    set_upgrade_window(actor=admin, delegate=delegate, times=times)
    assert start_due_upgrades(get_database_time()) == 1
    upgrade = DelegateUpgrade.objects.get()
    assert upgrade.execution is not None
    assert wait_for_end(upgrade.execution, 150).outcome == "COMPLETED"
    finish_upgrades(get_database_time())
    upgrade.refresh_from_db()
    assert (upgrade.status, upgrade.problem) == ("SUCCEEDED", "")
    assert read_image(pretend_aws) == upgrade.image == f"registry.example.com/slipway-delegate:{VERSION}"
    assert api.until("deployed", "CONNECTED")
    assert start_due_upgrades(get_database_time()) == 0, "once in a window"


def test_upgrade_and_removal_of_a_delegate_are_performed_by_another_one(
    api: Api, pretend_aws: SandboxProcess, project: Scope, start_agent: StartAgent, admin: User
) -> None:
    delegate = make_delegate(pretend_aws, project, "1.0.0")
    assert deploy(delegate, project).outcome == "COMPLETED"
    own = {"connect_through": "Delegate", "delegate_selectors": ["shared"]}
    base = Connector.objects.get(identifier="sandbox_aws")
    spec = {**base.spec, **own}
    Connector.objects.create(
        scope=base.scope, identifier="shared", name="Shared", spec=spec, secret=base.secret
    )
    delegate.tags = ["shared"]
    delegate.save(update_fields=["tags"])
    with pytest.raises(BadInput, match="Only the delegate itself can serve this connector"):
        deploy(delegate, project, connector="shared")
    other = {
        "HARNESS_ACCOUNT_ID": get_account_id(),
        "HARNESS_TOKEN": create_token(actor=admin, scope=project, name="others").value,
        "HARNESS_URL": api.url,
        "HARNESS_NAME": "other",
        "HARNESS_TAGS": "shared",
    }
    start_agent(other)
    api.until("other", "CONNECTED")
    answers = WizardAnswers.from_json(delegate.spec)
    delegate.spec = replace(answers, image="registry.example.com/slipway-delegate:1.1.0").to_json()
    delegate.save(update_fields=["spec"])
    execution = deploy(delegate, project, connector="shared")
    assert execution.outcome == "COMPLETED", execution.failure
    tasks = DelegateTask.objects.filter(owner="call")
    assert set(tasks.values_list("instance__delegate__name", flat=True)) == {"other"}
    assert read_image(pretend_aws).endswith(":1.1.0")
    DelegateTask.objects.filter(owner="call").delete()
    removal = remove(delegate, project)
    assert removal.status == "SUCCESS", removal.failure
    assert set(tasks.values_list("instance__delegate__name", flat=True)) == {"other"}
    assert (list_services(pretend_aws), list_stacks(pretend_aws)) == ([], [])
