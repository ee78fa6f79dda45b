"""The clock that sends the ticks: it is idle between them, and of two one acts."""

import time
from datetime import timedelta
from pathlib import Path

import pytest
from celery.beat import ScheduleEntry
from kombu.exceptions import OperationalError as BrokerError
from pytest_django import Settings

from config import beat
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


def test_ticks_go_on_after_the_clock_was_set_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []
    clock, ahead = app.now, timedelta(hours=1)
    monkeypatch.setattr(app, "now", lambda: clock() + ahead)
    monkeypatch.setitem(app.conf, "beat_schedule", {"tick": {"task": tick.name, "schedule": 0.01}})
    scheduler = Scheduler(app, schedule_filename=str(tmp_path / "schedule"), lazy=True)
    monkeypatch.setattr(scheduler, "apply_entry", lambda entry, producer=None: sent.append(entry.name))
    monkeypatch.setattr(Scheduler, "producer", None)
    scheduler.setup_schedule()
    time.sleep(scheduler.tick())
    scheduler.tick()
    monkeypatch.setattr(app, "now", clock)
    sent.clear()
    for _ in range(3):
        assert (wait := scheduler.tick()) < 1
        time.sleep(wait)
    scheduler.close()
    assert sent


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


@pytest.fixture
def two_beats(
    live_broker: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[list[Scheduler], list[Scheduler]]:
    """Two schedulers with one broker, and the schedulers that sent a tick so far."""
    senders: list[Scheduler] = []
    monkeypatch.setitem(app.conf, "beat_schedule", {"tick": {"task": tick.name, "schedule": 0.01}})
    monkeypatch.setattr(Scheduler, "apply_entry", lambda self, entry, producer=None: senders.append(self))
    monkeypatch.setattr(Scheduler, "producer", None)
    beats = [Scheduler(app, schedule_filename=str(tmp_path / f"{n}"), lazy=True) for n in range(2)]
    for scheduler in beats:
        scheduler.setup_schedule()
    return beats, senders


def let_both_tick(beats: list[Scheduler], rounds: int = 3) -> None:
    for _ in range(rounds):
        for scheduler in beats:
            scheduler.tick()
        time.sleep(0.02)


def test_of_two_beats_one_sends_the_ticks(two_beats: tuple[list[Scheduler], list[Scheduler]]) -> None:
    beats, senders = two_beats
    let_both_tick(beats)
    assert set(senders) == {beats[0]}


def test_a_beat_that_ends_hands_over_at_once(two_beats: tuple[list[Scheduler], list[Scheduler]]) -> None:
    beats, senders = two_beats
    let_both_tick(beats)
    beats[0].close()
    let_both_tick(beats[1:])
    assert senders[-1] is beats[1]


def test_a_beat_that_hangs_is_replaced_and_waits_when_it_is_back(
    two_beats: tuple[list[Scheduler], list[Scheduler]], monkeypatch: pytest.MonkeyPatch
) -> None:
    beats, senders = two_beats
    monkeypatch.setattr(beat, "LEASE_SECONDS", 0.2)
    let_both_tick(beats)
    time.sleep(0.25)
    let_both_tick(beats[::-1])
    assert set(senders[-3:]) == {beats[1]}


def test_beats_without_a_broker_go_on(tmp_path: Path, settings: Settings) -> None:
    settings.REDIS_URL = f"unix://{tmp_path / 'nobody.sock'}"
    lease = beat.BeatLease()
    assert lease.hold()
    lease.release()
