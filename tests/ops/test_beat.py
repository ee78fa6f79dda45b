"""The clock that sends the ticks: it is idle between them."""

import time
from datetime import timedelta
from pathlib import Path

import pytest
from celery.beat import ScheduleEntry
from kombu.exceptions import OperationalError as BrokerError

from config.beat import Scheduler
from config.celery import app
from ops.tasks import tick


def test_the_clock_sleeps_until_the_next_tick(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send_times: list[float] = []
    monkeypatch.setitem(app.conf, "beat_schedule", {"tick": {"task": "ops.tasks.tick", "schedule": 0.2}})
    scheduler = Scheduler(app, schedule_filename=str(tmp_path / "schedule"), lazy=True)
    monkeypatch.setattr(
        scheduler, "apply_entry", lambda entry, producer=None: send_times.append(time.monotonic())
    )
    monkeypatch.setattr(Scheduler, "producer", None)
    scheduler.setup_schedule()
    looks = 0
    while len(send_times) < 6:
        looks += 1
        wait = scheduler.tick()
        time.sleep(wait)
    scheduler.close()
    assert looks <= 2 * len(send_times) + 1
    assert min(later - sooner for sooner, later in zip(send_times[1:], send_times[2:], strict=False)) >= 0.2


def test_a_broker_on_a_full_disk_is_told_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BrokerError("MISCONF Errors writing to the AOF file: No space left on device")

    monkeypatch.setattr(app.tasks[tick.name], "apply_async", refuse)
    scheduler = Scheduler(app, schedule_filename=str(tmp_path / "schedule"), lazy=True)
    scheduler.apply_entry(ScheduleEntry("tick", tick.name, schedule=timedelta(seconds=1), app=app), object())
    assert [record.levelname for record in caplog.records] == ["WARNING"]
    assert "No space left on device" in caplog.text
    assert "Traceback" not in caplog.text
