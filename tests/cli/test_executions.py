"""Commands about executions, resources and delegates, on the demo."""

import json
from pathlib import Path

import pytest

from delegates.models import Delegate
from deployments.models import Execution, Interrupt
from pipelines.models import Pipeline
from rbac.models import Scope, User
from tests.fixtures.command_line import CommandLine, sign_in
from tests.fixtures.engine_driver import Drive
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db(transaction=True)


def test_executions_are_listed_shown_and_rolled_back(deployer_line: CommandLine, drive: Drive) -> None:
    drive.run("1.27")
    drive.run("1.28")

    listed = deployer_line.run("executions", "--pipeline", "rolling_demo", "--limit", "1")
    shown = deployer_line.run("executions", "show", "2")
    asked = deployer_line.run("rollback", "rolling_demo#2")
    done = deployer_line.run("rollback", "rolling_demo#2", "--yes", "--json")

    assert listed.stdout.splitlines()[1].split("\t")[:4] == ["rolling_demo#2", "SUCCESS", "COMPLETED", "1.28"]
    assert "There are more" in listed.stderr
    assert "Deploy to dev\tECS rolling deploy\tSUCCESS" in shown.stdout
    assert "task definition fargate-task-definition:2 back to fargate-task-definition:1" in asked.stdout
    assert asked.returncode == 2
    assert json.loads(done.stdout)["number"] == 2
    assert Interrupt.objects.get().kind == Interrupt.Kind.ROLL_BACK


def test_a_running_execution_is_aborted_after_a_question(deployer_line: CommandLine, drive: Drive) -> None:
    execution = drive.start("1.27")

    asked = deployer_line.run("abort", str(execution.pk))
    done = deployer_line.run("abort", f"{drive.sandbox.url}/deployments/{execution.pk}/", "--yes")
    again = deployer_line.run("abort", "1", "--yes")

    assert (asked.returncode, "confirm with --yes" in asked.stderr) == (2, True)
    assert done.returncode == 0, done.stderr
    assert again.returncode == 7
    assert Interrupt.objects.get().kind == Interrupt.Kind.ABORT


def test_a_number_of_several_pipelines_is_not_guessed(deployer_line: CommandLine, drive: Drive) -> None:
    drive.start("1.27")
    drive.pipeline = drive.pipeline.__class__.objects.get(identifier="canary_demo")
    drive.start("1.27")

    answer = deployer_line.run("executions", "show", "1")

    assert answer.returncode == 2
    assert "rolling_demo#1 in default/demo" in answer.stderr
    assert "canary_demo#1 in default/demo" in answer.stderr


def test_a_listed_execution_is_found_by_its_label(deployer_line: CommandLine, drive: Drive) -> None:
    drive.start("1.27")
    Pipeline.objects.filter(identifier="rolling_demo").update(identifier="shop$live")

    label = deployer_line.run("executions").stdout.splitlines()[1].split("\t")[0]
    shown = deployer_line.run("executions", "show", label)

    assert label == "shop$live#1"
    assert shown.returncode == 0, shown.stderr


def test_without_the_permission_the_missing_one_is_named(tmp_path: Path, deployer_line: CommandLine) -> None:
    url = deployer_line.variables["SLIPWAY_URL"]
    viewer_line = sign_in(tmp_path, url, User.objects.get(username="viewer"))

    answer = viewer_line.run("run", "rolling_demo")

    assert answer.returncode == 4
    assert "Ask an administrator for a role with core_pipeline_execute" in answer.stderr
    assert not Execution.objects.exists()


@pytest.mark.parametrize(
    ("command", "identifier"),
    [("services", "myapp"), ("pipelines", "rolling_demo"), ("environments", "dev")],
)
def test_resources_of_a_scope_are_listed(deployer_line: CommandLine, command: str, identifier: str) -> None:
    listed = deployer_line.run(command, "--scope", "default/demo")
    documents = deployer_line.run(command, "--json")

    assert identifier in [line.split("\t")[0] for line in listed.stdout.splitlines()]
    assert identifier in [row["identifier"] for row in json.loads(documents.stdout)]


def test_a_delegate_is_listed_with_its_specification(tmp_path: Path, deployer_line: CommandLine) -> None:
    account = Scope.objects.account()
    manager = make_person("manager", "account_admin", account)
    Delegate.objects.create(name="west", scope=account, kind="ECS", flavour="v3")
    line = sign_in(tmp_path, deployer_line.variables["SLIPWAY_URL"], manager)

    listed = line.run("delegates")
    written = line.run("spec", "west", "--output", "files")
    missing = line.run("spec", "east")

    assert "west" in [row.split("\t")[0] for row in listed.stdout.splitlines()]
    assert written.returncode == 0, written.stderr
    files = list((tmp_path / "files").iterdir())
    assert files
    assert {path.stat().st_mode & 0o777 for path in files} == {0o600}
    assert (missing.returncode, "no delegate east" in missing.stderr) == (5, True)
