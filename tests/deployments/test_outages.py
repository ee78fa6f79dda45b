"""A database or broker that goes away in the middle of a look spoils no execution."""

import logging

import pytest
from django.db import OperationalError
from redis.exceptions import ConnectionError as RedisConnectionError

from deployments import tasks
from deployments.models import Interrupt
from tests.deployments.driving import Drive

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@pytest.mark.parametrize("gone", [OperationalError("deadlock"), RedisConnectionError("refused")], ids=str)
def test_a_look_that_an_outage_cut_short_is_nobodys_mistake(
    drive: Drive, gone: Exception, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    execution = drive.start("1.27")

    def cut_short(*_: object, **__: object) -> None:
        drive.look()
        raise gone

    monkeypatch.setattr(tasks, "look_at_group", cut_short)
    with caplog.at_level(logging.WARNING):
        tasks.look_group(execution_ids=[str(execution.pk)])

    assert not Interrupt.objects.exists()
    assert "cut short" in caplog.text
    drive.until_over(execution)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED")


def test_a_tick_without_a_database_leaves_it_to_the_next(
    drive: Drive, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def gone() -> list[list[object]]:
        raise OperationalError("connection refused")

    monkeypatch.setattr(tasks, "due_groups", gone)
    tasks.dispatch()

    assert "the next tick tries again" in caplog.text
