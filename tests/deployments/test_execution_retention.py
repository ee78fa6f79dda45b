"""Retention of executions: old ones go, and what a rollback or the inventory needs stays."""

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from deployments import log
from deployments.execution.operations import (
    find_execution_to_deploy,
    retry_execution,
    roll_back_execution,
)
from deployments.models import AwsCall, AwsEvent, Execution, LogChunk, ServiceLockClaim, StepExecution
from deployments.retention import DETAIL_RETENTION, EXECUTION_RETENTION
from tests.fixtures.engine_driver import Drive
from web.http.problems import Conflict

LATER = timezone.now() + timedelta(days=100)


@pytest.fixture(autouse=True)
def _periods(settings: Settings) -> None:
    settings.RETENTION_DAYS = {
        **settings.RETENTION_DAYS,
        "SLIPWAY_KEEP_EXECUTIONS_DAYS": 90,
        "SLIPWAY_KEEP_EXECUTION_DETAILS_DAYS": 30,
    }


def test_a_superseded_execution_goes_and_the_newest_deployment_can_still_be_undone(drive: Drive) -> None:
    first, second = drive.run("1.0"), drive.run("2.0")

    assert EXECUTION_RETENTION.prune(LATER) == 1
    assert not Execution.objects.filter(pk=first.pk).exists()
    assert not LogChunk.objects.filter(execution_id=first.pk).exists()
    assert roll_back_execution(actor=drive.deployer, execution=second) == second
    drive.pass_time(1)
    assert drive.until_over(second).status == "ROLLED_BACK"


def test_the_order_of_deployments_is_that_of_their_locks_not_of_their_creation(drive: Drive) -> None:
    oldest, waited, other = drive.run("1.0"), drive.run("2.0"), drive.run("3.0")
    # As if it had waited for an approval until the other one had deployed.
    ServiceLockClaim.objects.filter(stage__execution=waited).update(
        granted_at=drive.clock.now() + timedelta(minutes=1)
    )

    assert find_execution_to_deploy(waited) is None
    assert find_execution_to_deploy(other) == oldest
    EXECUTION_RETENTION.prune(LATER)
    assert set(Execution.objects.all()) == {waited, other}, "one is what runs, the other the newest run"


def test_a_failed_deployment_is_not_all_that_is_kept_of_a_service(drive: Drive) -> None:
    first = drive.run("1.0")
    failed = drive.run("crash")

    assert failed.status == "FAILED"
    assert EXECUTION_RETENTION.prune(LATER) == 0
    assert Execution.objects.filter(pk=first.pk).exists(), "its version is the one that runs"


def test_details_go_earlier_and_the_execution_says_so(drive: Drive) -> None:
    first = drive.run("1.0")
    drive.run("2.0")

    assert DETAIL_RETENTION.prune(LATER) == 1
    assert DETAIL_RETENTION.prune(LATER) == 0
    first.refresh_from_db()
    assert first.details_deleted_at == LATER
    assert first.status == "SUCCESS"
    for model in (LogChunk, AwsCall, AwsEvent):
        assert not model.objects.filter(execution=first).exists()
    assert not log.read_lines(first.pk)
    assert not StepExecution.objects.filter(stage__execution=first).exclude(first_line=None).exists()
    assert AwsCall.objects.exclude(execution=first).exists()


def test_an_execution_without_its_calls_is_not_continued(drive: Drive) -> None:
    drive.run("1.0")
    failed = drive.run("crash")
    drive.run("2.0")

    assert DETAIL_RETENTION.prune(LATER) == 2
    with pytest.raises(Conflict, match="calls of this execution were deleted"):
        retry_execution(actor=drive.deployer, execution=failed)


def test_an_execution_that_is_about_to_be_retried_keeps_its_details(drive: Drive) -> None:
    drive.run("1.0")
    failed = drive.run("crash")
    drive.run("2.0")
    retry_execution(actor=drive.deployer, execution=failed)

    DETAIL_RETENTION.prune(LATER)
    assert AwsCall.objects.filter(execution=failed).exists()


def test_nothing_goes_without_a_period(drive: Drive, settings: Settings) -> None:
    settings.RETENTION_DAYS = {**settings.RETENTION_DAYS, "SLIPWAY_KEEP_EXECUTIONS_DAYS": 0}
    drive.run("1.0")
    drive.run("2.0")

    assert EXECUTION_RETENTION.prune(LATER) == 0
