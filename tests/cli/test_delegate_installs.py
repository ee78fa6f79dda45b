"""`slipway delegates deploy`, `upgrade` and `remove` start what they have shown."""

import json
from pathlib import Path

import pytest
from django.utils import timezone

from connectors.models import Connector
from delegates.install.wizard import WizardAnswers
from delegates.models import Delegate
from delegates.operations.installation import create_delegate
from deployments.models import Execution, StepExecution
from rbac.models import Scope
from tests.fixtures.command_line import CommandLine, sign_in
from tests.fixtures.delegates import make_token
from tests.fixtures.people import make_person
from tests.secret_watch.marker import planted

pytestmark = pytest.mark.django_db(transaction=True)
ANSWERS = WizardAnswers(
    region="us-east-1",
    aws_account_id="123456789012",
    cluster="demo",
    subnets=("subnet-1", "subnet-2"),
    security_groups=("sg-1",),
    secret_kind="CREATE",
)


def test_a_delegate_is_deployed_after_its_plan_upgraded_and_removed(
    tmp_path: Path, deployer_line: CommandLine
) -> None:
    connector = Connector.objects.get(identifier="sandbox_aws")
    manager = make_person("manager", "account_admin", Scope.objects.account())
    token = make_token(connector.scope, "west", f"slp_dlt_0123{planted('token')}")
    create_delegate(actor=manager, scope=connector.scope, name="west", answers=ANSWERS, token=token)
    line = sign_in(tmp_path, deployer_line.variables["SLIPWAY_URL"], manager)
    command = ("west", "--connector", f"{connector.scope.path.removeprefix('account/')}/sandbox_aws")

    listed = line.run("delegates")
    shown = line.run("delegates", "deploy", *command)
    assert "west" in [row.split("\t")[0] for row in listed.stdout.splitlines()]
    assert "slipway-delegate-west: secret with the token" in shown.stdout, shown.stderr
    assert (shown.returncode, "confirm with --yes" in shown.stderr) == (2, True)
    assert not Execution.objects.exists()

    started = line.run("delegates", "deploy", *command, "--yes", "--json")
    assert json.loads(started.stdout)["id"] == str(Execution.objects.get().pk), started.stderr

    empty = line.run("delegates", "upgrade", *command)
    Execution.objects.update(status="SUCCESS")
    upgraded = line.run("delegates", "upgrade", *command, "--image", "registry.example.com/d:2", "--yes")
    assert (empty.returncode, upgraded.returncode) == (2, 0), upgraded.stderr
    assert Delegate.objects.get(name="west").spec["image"] == "registry.example.com/d:2"
    assert Execution.objects.count() == 2

    Execution.objects.update(status="SUCCESS", outcome="COMPLETED", ended_at=timezone.now())
    StepExecution.objects.filter(type="EcsRollingDeploy").update(outputs={"deploymentId": "ecs-svc/1"})
    shown = line.run("delegates", "remove", "west")
    assert "west-service, unless somebody else has deployed it" in shown.stdout, shown.stderr
    assert (shown.returncode, Execution.objects.count()) == (2, 2)
    removed = line.run("delegates", "remove", "west", "--yes", "--json")
    assert json.loads(removed.stdout)["id"] == str(Execution.objects.latest("created_at").pk), removed.stderr
    assert Execution.objects.count() == 3
