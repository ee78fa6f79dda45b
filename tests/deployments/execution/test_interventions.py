"""A step that waits for a person: what can be decided, by whom, and what comes of it."""

import pytest
from rest_framework.test import APIClient

from deployments.models import ActionRun, Execution, Interrupt, StepExecution
from rbac.models import AuditEntry, User
from rbac.operations.api_keys import create_api_key
from tests.deployments.execution.conftest import Strategies, UntilAsked
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)

INTERVENTION = """
- onFailure:
    errors: [AllErrors]
    action: {type: ManualIntervention, spec: {timeout: 1h, onTimeout: {action: {type: Ignore}}}}
"""


@pytest.fixture
def waiting_execution(drive: Drive, strategies: Strategies, until_asked: UntilAsked) -> Execution:
    """A deployment onto a running service whose crash waits for a person."""
    drive.run("1.27")
    strategies(INTERVENTION)
    return until_asked(drive.start("crash"))


def _get_step(execution: Execution) -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, section="EXECUTION")


def _decide(client: APIClient, execution: Execution, decision: str) -> int:
    body = {"step": _get_step(execution).identifier, "decision": decision}
    return client.post(f"/api/v1/executions/{execution.pk}/decisions", body, format="json").status_code


def test_it_waits_with_its_failure_its_time_and_its_choices(
    waiting_execution: Execution, client: APIClient
) -> None:
    body = client.get(f"/api/v1/executions/{waiting_execution.pk}").json()
    step = body["stages"][0]["steps"][0]
    assert (body["status"], step["status"]) == ("INTERVENTION_WAITING", "INTERVENTION_WAITING")
    assert "exited with code 1" in step["failure"]["message"]
    assert step["intervention"]["on_timeout"] == "Ignore"
    assert step["intervention"]["until"] > step["intervention"]["requested_at"]
    assert set(step["intervention"]["choices"]) == {
        "RETRY",
        "SKIP",
        "IGNORE",
        "MARK_AS_SUCCESS",
        "MARK_AS_FAILURE",
        "ROLL_BACK",
        "ABORT",
    }
    assert body["can"]["decide"]


@pytest.mark.parametrize(
    ("decision", "status", "outcome", "is_undone"),
    [
        ("SKIP", "SUCCESS", "FAILED", False),
        ("IGNORE", "IGNORE_FAILED", "FAILED", False),
        ("MARK_AS_SUCCESS", "SUCCESS", "FAILED", False),
        ("MARK_AS_FAILURE", "FAILED", "FAILED", False),
        ("ABORT", "ABORTED", "FAILED", False),
        ("ROLL_BACK", "FAILED", "ROLLED_BACK", True),
    ],
)
def test_what_a_person_decides_is_done_told_and_audited(
    drive: Drive,
    waiting_execution: Execution,
    client: APIClient,
    decision: str,
    status: str,
    outcome: str,
    is_undone: bool,
) -> None:
    assert _decide(client, waiting_execution, decision) == 202
    drive.until_over(waiting_execution)
    assert (waiting_execution.status, waiting_execution.outcome) == (status, outcome)
    assert any(line.startswith("deployer decided about step") for line in drive.log(waiting_execution))
    assert AuditEntry.objects.filter(action=f"execution.{decision.lower()}", actor=drive.deployer).exists()
    assert drive.service()["taskDefinition"].endswith(":1") is is_undone


def test_a_retry_is_the_next_attempt_and_asks_again_when_that_fails_too(
    drive: Drive, waiting_execution: Execution, client: APIClient, until_asked: UntilAsked
) -> None:
    assert _decide(client, waiting_execution, "RETRY") == 202
    drive.reconcile()
    until_asked(waiting_execution)
    assert _get_step(waiting_execution).attempt == 2
    assert _decide(client, waiting_execution, "ROLL_BACK") == 202
    drive.until_over(waiting_execution)
    assert drive.service()["taskDefinition"].endswith(":1")


def test_when_nobody_decides_in_time_the_pipeline_says_what_happens(
    drive: Drive, waiting_execution: Execution
) -> None:
    drive.pass_time(3500, step=50)
    waiting_execution.refresh_from_db()
    assert waiting_execution.status == "INTERVENTION_WAITING"
    drive.pass_time(150, step=50)
    drive.until_over(waiting_execution)
    assert waiting_execution.status == "IGNORE_FAILED"
    assert "Nobody decided in time. The failure is ignored." in drive.log(waiting_execution)


def test_of_two_decisions_the_first_one_counts(
    drive: Drive, waiting_execution: Execution, client: APIClient
) -> None:
    assert _decide(client, waiting_execution, "IGNORE") == 202
    assert _decide(client, waiting_execution, "RETRY") == 409
    drive.until_over(waiting_execution)
    assert _decide(client, waiting_execution, "RETRY") == 409
    assert Interrupt.objects.filter(execution=waiting_execution).count() == 1


def test_who_may_only_look_decides_nothing(drive: Drive, waiting_execution: Execution) -> None:
    viewer = User.objects.get(username="viewer")
    _, token = create_api_key(actor=viewer, user=viewer, name="a program")
    client = APIClient(raise_request_exception=False)
    client.credentials(HTTP_X_API_KEY=token)
    assert _decide(client, waiting_execution, "IGNORE") == 403
    assert not Interrupt.objects.exists()


def test_a_step_that_only_waits_for_aws_can_be_skipped_and_is_not_said_to_be_done(
    drive: Drive, client: APIClient
) -> None:
    execution = drive.start("never_healthy")
    assert _decide(client, execution, "SKIP") == 409, "nothing has begun"
    drive.pass_time(8)
    assert _decide(client, execution, "SKIP") == 202
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "")
    assert _get_step(execution).status == "SKIPPED"


def _start_with_unknown_version(drive: Drive) -> Execution:
    """Start a deployment whose update of the service this version of Slipway cannot run."""
    execution = drive.start("1.28")
    rows = ActionRun.objects.filter(step__stage__execution=execution, name="CreateOrUpdateService")
    rows.update(version=99)
    return execution


@pytest.mark.parametrize(
    ("decision", "status", "outcome"),
    [("IGNORE", "IGNORE_FAILED", "FAILED"), ("MARK_AS_SUCCESS", "SUCCESS", "")],
)
def test_a_stuck_deployment_that_a_person_ends_does_not_count_as_deployed(
    drive: Drive, client: APIClient, until_asked: UntilAsked, decision: str, status: str, outcome: str
) -> None:
    drive.run("1.27")
    mark = drive.mark()
    execution = until_asked(_start_with_unknown_version(drive))
    assert _decide(client, execution, decision) == 202
    drive.until_over(execution)
    assert "UpdateService" not in drive.effects(after=mark)
    assert (execution.status, execution.outcome) == (status, outcome)
    step = _get_step(execution)
    assert step.failure is not None
    assert step.failure["code"] == "RESULT_UNKNOWN"


def test_an_action_of_another_version_has_the_same_choices(
    drive: Drive, client: APIClient, until_asked: UntilAsked
) -> None:
    drive.run("1.27")
    mark = drive.mark()
    execution = _start_with_unknown_version(drive)
    until_asked(execution)
    step = _get_step(execution)
    assert step.intervention is not None
    assert step.intervention["kind"] == "STUCK"
    assert _decide(client, execution, "ROLL_BACK") == 202
    drive.until_over(execution)
    # Nothing had failed: a person took it back.
    assert (execution.status, execution.outcome) == ("ROLLED_BACK", "ROLLED_BACK")
    assert "UpdateService" not in drive.effects(after=mark)
