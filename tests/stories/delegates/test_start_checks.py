"""A delegate whose image cannot be pulled: the page that waits for it names the image."""

from dataclasses import replace
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from delegates.install.wizard import WizardAnswers
from delegates.models import Delegate, LookupRequest
from delegates.operations.installation import create_delegate, get_installation
from ops.demo.pipelines import SandboxFacts
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.contract.endpoint import client
from tests.fixtures.agents import Manager
from tests.fixtures.demo import fill_in_demo
from tests.fixtures.processes import wait_until
from tests.stories.delegates import aws_commands

pytestmark = pytest.mark.django_db(transaction=True)


def test_a_tag_that_cannot_be_pulled_is_named_with_a_fix(
    live_broker: str, manager: Manager, pretend_aws: SandboxProcess, settings: Settings, admin: User
) -> None:
    pretend_aws.reset()
    settings.SANDBOX_URL, settings.PUBLIC_URL = pretend_aws.url, manager.url
    seed = pretend_aws.seed()
    fill_in_demo(SandboxFacts.from_wire(seed))
    account = seed["account"]
    answers = WizardAnswers(
        region=seed["region"],
        aws_account_id=account,
        cluster=seed["cluster"],
        subnets=tuple(seed["subnets"]),
        security_groups=(seed["security_group"],),
        image=f"{account}.dkr.ecr.{seed['region']}.amazonaws.com/slipway-delegate:nopull",
        secret_kind="CREATE",
    )
    actor, scope = User.objects.get(username="admin"), Scope.objects.get(path="account/default/demo")
    delegate = create_delegate(actor=actor, scope=scope, name="broken", answers=answers)
    spec, _ = get_installation(actor=actor, delegate=delegate)
    for command in spec.list_commands("create"):
        aws_commands.run(pretend_aws.url, command.command, spec.files)
    ecs = client(pretend_aws.url, "ecs")

    def has_stopped() -> bool:
        service = {"cluster": seed["cluster"], "serviceName": "broken-service"}
        return bool(ecs.list_tasks(**service, desiredStatus="STOPPED")["taskArns"])

    wait_until(has_stopped, "a stopped task", 120)
    Delegate.objects.filter(pk=delegate.pk).update(created_at=timezone.now() - timedelta(minutes=2))
    browser = Client()
    browser.force_login(actor)
    page = browser.get(f"/delegates/{delegate.pk}/install/").content.decode()
    assert "Report of Amazon ECS" in page
    assert "Image cannot be pulled" in page
    assert f"cannot be pulled: {answers.image}." in page
    assert "aws ecr describe-images --repository-name slipway-delegate" in page
    assert "No task has started" not in page
    delegate.spec = replace(answers, cluster="elsewhere").to_json()
    delegate.save(update_fields=["spec"])
    page = browser.get(f"/delegates/{delegate.pk}/install/").content.decode()
    assert "sees no ECS service <code>broken-service</code> in the cluster <code>elsewhere</code>" in page
    assert LookupRequest.objects.count() == 2
