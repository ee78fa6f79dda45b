"""Approvals in a terminal: the plan is shown, and exactly that is decided."""

from pathlib import Path

import pytest
from pytest_django.live_server_helper import LiveServer

from deployments.models import Approval
from rbac.models import Scope, UserGroup
from tests.deployments.approvals.conftest import Panel, panel  # noqa: F401 - a fixture
from tests.deployments.engine.conftest import Write, pipeline_text, stage_text, write  # noqa: F401 - too
from tests.fixtures.command_line import CommandLine, sign_in

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def approver_line(tmp_path: Path, panel: Panel, live_server: LiveServer) -> CommandLine:  # noqa: F811
    """The command line of an approver."""
    return sign_in(tmp_path, live_server.url, panel.alice)


def test_an_approver_sees_the_plan_and_approves_it(panel: Panel, approver_line: CommandLine) -> None:  # noqa: F811
    execution = panel.start()

    waiting = approver_line.run("approvals")
    asked = approver_line.run("approve", "rolling_demo#1")
    approved = approver_line.run("approve", "rolling_demo#1", "--yes", "--comment", "looks right")

    assert str(execution.pk) in waiting.stdout
    assert (asked.returncode, "confirm with --yes" in asked.stderr) == (2, True)
    assert "ecs:CreateService" in asked.stdout
    assert approved.returncode == 0, approved.stderr
    assert "Approved rolling_demo#1: 1 of 1 approvals." in approved.stdout
    panel.drive.until_over(execution)
    assert execution.status == "SUCCESS"
    assert "alice approves this (1 of 1): looks right" in panel.drive.log(execution)


def test_a_rejection_is_an_exit_code_of_its_own(panel: Panel, approver_line: CommandLine) -> None:  # noqa: F811
    execution = panel.start()

    rejected = approver_line.run("reject", str(execution.pk), "--yes", "--comment", "not on a Friday")
    panel.drive.until_over(execution)
    followed = approver_line.run("logs", "1", "--follow")
    late = approver_line.run("approve", "1", "--yes")

    assert rejected.returncode == 0, rejected.stderr
    assert followed.returncode == 13
    assert "alice rejected this: not on a Friday" in followed.stdout
    assert late.returncode == 7
    assert "does not wait for an approval" in late.stderr


def test_of_several_approvals_the_own_one_is_decided(
    panel: Panel,  # noqa: F811
    write: Write,  # noqa: F811
    approver_line: CommandLine,
) -> None:
    others = UserGroup.objects.create(scope=Scope.objects.account(), identifier="qa", name="Testers")
    others.users.add(panel.bob)
    steps = "- parallel:\n" + "".join(
        f"    - step: {{identifier: {name}, type: HarnessApproval, timeout: 1h, "
        f"spec: {{approvers: {{userGroups: [{group}]}}}}}}\n"
        for name, group in (("tests", "qa"), ("release", "ops"))
    )
    execution = write(pipeline_text(stage_text(steps))).start("1.27")
    waiting = Approval.objects.filter(execution=execution).exclude(plan_hash="")
    for _ in range(20):
        if waiting.count() == 2:
            break
        panel.drive.pass_time(1)

    approved = approver_line.run("approve", str(execution.pk), "--yes")

    assert approved.returncode == 0, approved.stderr
    assert "release" in approved.stdout
    decided = Approval.objects.filter(decisions__isnull=False)
    assert [approval.step.identifier for approval in decided] == ["release"]
    refused = approver_line.run("approve", str(execution.pk), "--yes")
    assert refused.returncode == 4
