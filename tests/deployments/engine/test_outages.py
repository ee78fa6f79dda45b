"""A database or broker that goes away in the middle of a look spoils no execution."""

import logging
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError, connection
from redis.exceptions import ConnectionError as RedisConnectionError

from deployments import tasks
from deployments.engine import reconcile
from deployments.engine.lease import claim_lease
from deployments.engine.reconcile import get_lease_owner
from deployments.journal.runtime import LIVE_RUNTIME, set_hook
from deployments.models import Interrupt
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def interrupt_pass() -> Iterator[Callable[[Exception], None]]:
    """Lets looks end with the given error once they hold their lease."""

    def set_error(error: Exception) -> None:
        def raise_at_claim(name: str) -> None:
            if name == "lease.claimed":
                raise error

        set_hook(raise_at_claim)

    yield set_error
    set_hook(None)


@pytest.mark.parametrize(
    "error",
    [OperationalError("deadlock"), RedisConnectionError("refused"), SoftTimeLimitExceeded()],
    ids=str,
)
def test_a_look_that_an_outage_cut_short_is_nobodys_mistake_and_goes_on_at_once(
    drive: Drive,
    error: Exception,
    interrupt_pass: Callable[[Exception], None],
    caplog: pytest.LogCaptureFixture,
) -> None:
    execution = drive.start("1.27")
    interrupt_pass(error)
    with caplog.at_level(logging.WARNING):
        tasks.reconcile_batch_task(execution_ids=[str(execution.pk)])
    set_hook(None)

    execution.refresh_from_db()
    assert (execution.fence, execution.lease_expires_at) == (2, None)
    assert not Interrupt.objects.exists()
    assert "Reconcile pass interrupted by" in caplog.text
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")


def test_a_mistake_keeps_the_lease_and_ends_the_execution(
    drive: Drive, interrupt_pass: Callable[[Exception], None]
) -> None:
    execution = drive.start("1.27")
    interrupt_pass(ValueError("a mistake"))
    tasks.reconcile_batch_task(execution_ids=[str(execution.pk)])

    execution.refresh_from_db()
    assert execution.lease_expires_at is not None
    assert Interrupt.objects.get(execution=execution).kind == "FAIL"


def test_a_mistake_is_not_recorded_at_the_execution_that_another_worker_reconciles(
    drive: Drive, interrupt_pass: Callable[[Exception], None]
) -> None:
    execution, other = drive.start("1.27"), drive.start("1.27")

    class MistakeError(ValueError):
        """The mistake, made while another worker takes the rest of the batch."""

        def __str__(self) -> str:
            set_hook(None)
            claim_lease(other.pk, owner="elsewhere:1", runtime=LIVE_RUNTIME)
            return "a mistake"

    interrupt_pass(MistakeError())
    tasks.reconcile_batch_task(execution_ids=[str(execution.pk), str(other.pk)])

    other.refresh_from_db()
    assert other.lease_owner == "elsewhere:1"
    assert Interrupt.objects.get().execution == execution


def test_a_lease_is_given_back_as_soon_as_the_database_is_there_again(
    drive: Drive, interrupt_pass: Callable[[Exception], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = drive.start("1.27")
    failures = iter([OperationalError("refused"), OperationalError("starting up")])

    def raise_outage(execute: Callable[..., Any], *arguments: Any) -> Any:
        if error := next(failures, None):
            raise error
        return execute(*arguments)

    claim_lease(execution.pk, owner=get_lease_owner(), runtime=LIVE_RUNTIME)
    monkeypatch.setattr(reconcile.time, "sleep", lambda _seconds: None)
    with connection.execute_wrapper(raise_outage):
        assert reconcile.release_leases([execution.pk])

    execution.refresh_from_db()
    assert execution.lease_expires_at is None


def test_nobody_gives_back_the_lease_of_another(drive: Drive) -> None:
    execution = drive.start("1.27")
    claim_lease(execution.pk, owner="elsewhere:1", runtime=LIVE_RUNTIME)

    reconcile.release_leases([execution.pk])

    execution.refresh_from_db()
    assert execution.lease_expires_at is not None


def test_a_database_that_stays_away_is_not_waited_for_longer() -> None:
    def raise_outage(*_: Any) -> None:
        raise OperationalError("refused")

    with connection.execute_wrapper(raise_outage):
        assert not reconcile.release_leases([uuid.uuid4()], within=0)


def test_a_tick_without_a_database_leaves_it_to_the_next(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def raise_refusal() -> list[list[object]]:
        raise OperationalError("connection refused")

    monkeypatch.setattr(tasks, "claim_due_batches", raise_refusal)
    tasks.dispatch()

    assert "the next tick retries" in caplog.text
