"""Rollbacks of Terraform Cloud: what was applied before comes back, and nobody else's work is touched."""

import pytest

from deployments.execution.operations import abort_execution, retry_execution
from deployments.models import Execution, RollbackCheck, StepExecution
from tests.deployments.engine.conftest import Write
from tests.fixtures.engine_driver import Drive
from tests.fixtures.terraform_cloud import FINAL, PretendRun, TerraformCloudServer
from tests.stories.terraform_cloud.conftest import BACK, run_step, text_of

pytestmark = pytest.mark.django_db(transaction=True)

# What fails after the run: a wait for a time that is none.
FAILS = "- step: {identifier: fails, type: Wait, spec: {duration: <+steps.provision.output.planStatus>}}\n"


def earlier(server: TerraformCloudServer) -> PretendRun:
    """A run that somebody applied before."""
    variables = [{"key": "size", "value": "2"}]
    run = PretendRun("run-old", "before", [], "applied", {"variables": variables}, "cv-old", apply_began=True)
    server.runs.append(run)
    server.has_state = True
    return run


def until(drive: Drive, execution: Execution, server: TerraformCloudServer, status: str) -> None:
    """Advance time until the newest run has this status."""
    for _ in range(100):
        drive.reconcile()
        if server.runs and server.newest().status == status:
            return
        drive.clock.move(2)
    raise AssertionError(f"{execution}: {drive.log(execution)[-5:]}")


def test_what_was_applied_before_is_applied_again(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    earlier(terraform_cloud)
    execution = ready(text_of(run_step(), FAILS)).run()
    assert (execution.status, execution.outcome) == ("FAILED", "ROLLED_BACK"), drive.log(execution)
    first_run, back = terraform_cloud.sent("POST", "^runs$")
    attributes = back["data"]["attributes"]
    assert (attributes["auto-apply"], attributes["is-destroy"]) == (True, False)
    assert attributes["variables"] == [{"key": "size", "value": "2"}]
    assert back["data"]["relationships"]["configuration-version"]["data"]["id"] == "cv-old"
    assert terraform_cloud.newest().status == "applied"
    checked = RollbackCheck.objects.get(step__stage__execution=execution)
    assert (checked.subject, checked.actual, checked.passed) == (
        "Workspace acme/network",
        "as run run-old applied it",
        True,
    )
    assert first_run["data"]["attributes"]["message"] != attributes["message"]


@pytest.mark.parametrize(
    ("applied_before", "outcome"),
    [([], "ROLLED_BACK"), (["aws_vpc.main", "aws_eip.nat"], "ROLLED_BACK"), (["aws_eip.nat"], "FAILED")],
    ids=["the whole workspace", "these and others", "others"],
)
def test_only_the_resources_of_the_run_come_back_if_their_configuration_is_known(
    ready: Write,
    drive: Drive,
    terraform_cloud: TerraformCloudServer,
    applied_before: list[str],
    outcome: str,
) -> None:
    earlier(terraform_cloud).attributes["target-addrs"] = applied_before
    execution = ready(text_of(run_step("targets: [aws_vpc.main]"), FAILS)).run()
    assert execution.outcome == outcome, drive.log(execution)
    back = [request["data"]["attributes"] for request in terraform_cloud.sent("POST", "^runs$")[1:]]
    if outcome == "ROLLED_BACK":
        [attributes] = back
        assert attributes["target-addrs"] == ["aws_vpc.main"]
    else:
        assert back == []
        assert any("applied only aws_eip.nat" in line for line in drive.log(execution))


def test_what_was_made_where_nothing_was_is_destroyed(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    execution = ready(text_of(run_step(), FAILS)).run()
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)
    back = terraform_cloud.sent("POST", "^runs$")[1]["data"]
    assert back["attributes"]["is-destroy"]
    assert back["relationships"]["configuration-version"]["data"]["id"] == "cv-1"


def test_an_apply_that_failed_half_way_is_taken_back_too(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    earlier(terraform_cloud)
    terraform_cloud.apply = "error once"
    execution = ready(text_of(run_step())).run()
    assert execution.outcome == "ROLLED_BACK", drive.log(execution)
    assert (execution.failure or {})["code"] == "TERRAFORM_FAILED"
    assert [run.status for run in terraform_cloud.runs] == ["applied", "errored", "applied"]


def test_where_somebody_applied_since_nothing_is_put_back(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    earlier(terraform_cloud)
    pause = "- step: {identifier: pause, type: Wait, spec: {duration: 1m}}\n"
    execution = ready(text_of(run_step(), pause, FAILS)).start()
    until(drive, execution, terraform_cloud, "applied")
    while not StepExecution.objects.filter(identifier="pause").exclude(started_at=None).exists():
        drive.clock.move(2)
        drive.reconcile()
    terraform_cloud.runs.append(PretendRun("run-theirs", "by hand", [], "applied", apply_began=True))
    drive.until_over(execution)
    assert execution.outcome == "SUPERSEDED"
    assert len(terraform_cloud.sent("POST", "^runs$")) == 1


def test_a_state_that_no_run_has_made_cannot_be_gone_back_to(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.has_state = True
    execution = ready(text_of(run_step(), FAILS)).run()
    assert execution.outcome == "FAILED"
    assert any("was not made by a run" in line for line in drive.log(execution))


def test_a_plan_that_failed_leaves_nothing_to_put_back(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.plan = "error"
    execution = ready(text_of(run_step())).run()
    assert execution.status == "FAILED"
    assert len(terraform_cloud.runs) == 1
    assert "Nothing was applied, so there is nothing to restore" in drive.log(execution)


def test_a_run_that_broke_a_policy_is_discarded_before_anything_else(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.plan = "policy"
    execution = ready(text_of(run_step())).run()
    assert execution.status == "FAILED"
    assert [run.status for run in terraform_cloud.runs] == ["discarded"]


@pytest.mark.parametrize("status", ["planning", "applying"])
@pytest.mark.parametrize("steps", ["", BACK])
def test_an_abort_leaves_no_run_open(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer, status: str, steps: str
) -> None:
    terraform_cloud.holds = status
    execution = ready(text_of(run_step()).replace(BACK, steps)).start()
    until(drive, execution, terraform_cloud, status)
    abort_execution(actor=drive.deployer, execution=execution, roll_back=bool(steps))
    drive.until_over(execution)
    assert execution.status == "ABORTED", execution.failure
    assert all(run.status in FINAL for run in terraform_cloud.runs)
    assert terraform_cloud.runs[0].status == "canceled"


def test_a_step_that_runs_out_of_time_ends_its_run(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    waiting = PretendRun("run-old", "nobody decides", [], "policy_checked")
    terraform_cloud.runs.append(waiting)
    text = text_of(run_step().replace("type: Terra", "timeout: 2m, type: Terra")).replace(BACK, "")
    execution = ready(text).run()
    assert (execution.failure or {})["code"] == "TIMED_OUT"
    assert [run.status for run in terraform_cloud.runs] == ["policy_checked", "discarded"]


def test_a_retry_makes_a_new_run_and_discards_the_one_before(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.plan = "policy"
    action = "{type: Retry, spec: {retryCount: 1, retryIntervals: [5s]}}"
    strategies = f"[{{onFailure: {{errors: [AllErrors], action: {action}}}}}]"
    step = run_step().replace("type: Terra", f"failureStrategies: {strategies}, type: Terra")
    execution = ready(text_of(step).replace(BACK, "")).start()
    until(drive, execution, terraform_cloud, "policy_override")
    terraform_cloud.plan = "changes"
    drive.until_over(execution)
    assert execution.status == "SUCCESS", (execution.failure, drive.log(execution))
    assert [run.status for run in terraform_cloud.runs] == ["discarded", "applied"]


def test_an_execution_that_failed_is_tried_again_with_a_new_run(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    terraform_cloud.plan = "error"
    execution = ready(text_of(run_step())).run()
    terraform_cloud.plan = "changes"
    retry_execution(actor=drive.deployer, execution=execution)
    drive.until_over(execution)
    assert execution.status == "SUCCESS", (execution.failure, drive.log(execution))
    assert [run.status for run in terraform_cloud.runs] == ["errored", "applied"]


def test_what_an_attempt_before_the_last_one_applied_half_way_is_taken_back(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    earlier(terraform_cloud)
    terraform_cloud.apply = "error once"
    action = "{type: Retry, spec: {retryCount: 1, retryIntervals: [5s]}}"
    strategies = f"[{{onFailure: {{errors: [AllErrors], action: {action}}}}}]"
    step = run_step().replace("type: Terra", f"failureStrategies: {strategies}, type: Terra")
    execution = ready(text_of(step)).start()
    until(drive, execution, terraform_cloud, "errored")
    terraform_cloud.plan = "error"
    for _ in range(100):
        drive.reconcile()
        if len(terraform_cloud.runs) > 2 and terraform_cloud.newest().status == "errored":
            break
        drive.clock.move(2)
    terraform_cloud.plan = "changes"
    drive.until_over(execution)
    assert "Applying again what run run-old applied" in drive.log(execution)
    assert not any("Nothing was applied" in line for line in drive.log(execution))


def test_a_run_of_somebody_else_that_was_ahead_of_ours_is_what_comes_back(
    ready: Write, drive: Drive, terraform_cloud: TerraformCloudServer
) -> None:
    earlier(terraform_cloud)
    terraform_cloud.holds = "planning"
    execution = ready(text_of(run_step(), FAILS)).start()
    until(drive, execution, terraform_cloud, "planning")
    ahead = PretendRun("run-ahead", "of a colleague", [], "applied", {}, "cv-ahead", apply_began=True)
    terraform_cloud.runs.insert(1, ahead)
    terraform_cloud.holds = ""
    drive.until_over(execution)
    assert "Applying again what run run-ahead applied" in drive.log(execution), drive.log(execution)
