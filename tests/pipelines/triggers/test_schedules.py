"""Schedules: their times, also when clocks jump, and what workers make of times that have come."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from html import unescape
from typing import Any
from unittest.mock import patch

import pytest
import time_machine
from django.test import Client

from deployments.models import Execution
from pipelines import tasks
from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers import clock, operations
from pipelines.triggers.kinds.schedule import Schedule
from rbac.models import User
from tests.api.sample_project import World
from web import clock as web_clock

Browse = Callable[[User], Client]
BERLIN = {"cron": "30 2 * * *", "time_zone": "Europe/Berlin"}
NOON = datetime(2026, 11, 26, 12, tzinfo=UTC)


def moment(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


def times(spec: dict[str, str], after: str, count: int) -> list[str]:
    """Return the next times of a schedule, in UTC."""
    found, at = [], moment(after)
    for _ in range(count):
        due = Schedule().get_next_due(spec, at)
        assert due is not None
        found.append(f"{due:%m-%d %H:%M}")
        at = due
    return found


def test_a_time_that_clocks_skip_in_spring_comes_right_after_the_gap() -> None:
    # On 29 March 2026 clocks in Berlin go from 02:00 to 03:00, which is 01:00 UTC.
    assert times(BERLIN, "2026-03-28T00:00", 3) == ["03-28 01:30", "03-29 01:00", "03-30 00:30"]


def test_a_time_that_comes_twice_in_autumn_runs_once() -> None:
    # On 25 October 2026 clocks in Berlin go from 03:00 back to 02:00, which is 01:00 UTC.
    found = times(BERLIN, "2026-10-24T12:00", 2)
    assert [day[:5] for day in found] == ["10-25", "10-26"]
    # At 02:10 for the second time, 02:30 of that day is over.
    assert times(BERLIN, "2026-10-25T01:10", 1) == ["10-26 01:30"]
    shown = Schedule().list_next_times(BERLIN, moment("2026-10-25T01:10"))
    assert [f"{time:%m-%d %H:%M}" for time in shown[:2]] == ["10-26 01:30", "10-27 01:30"]


def test_each_hour_is_each_hour_whatever_the_clocks_do() -> None:
    hourly = {"cron": "0 * * * *", "time_zone": "Europe/Berlin"}
    assert times(hourly, "2026-10-24T23:30", 4) == [
        "10-25 00:00",
        "10-25 01:00",
        "10-25 02:00",
        "10-25 03:00",
    ]
    assert times(hourly, "2026-03-29T00:30", 2) == ["03-29 01:00", "03-29 02:00"]


def test_the_29_of_february_is_waited_for() -> None:
    spec = {"cron": "0 0 29 2 *", "time_zone": "UTC"}
    assert Schedule().get_next_due(spec, NOON) == datetime(2028, 2, 29, tzinfo=UTC)


@pytest.mark.parametrize(
    ("spec", "path", "message"),
    [
        ({"cron": "61 * * * *", "time_zone": "UTC"}, "spec.cron", "the minute is wrong"),
        ({"cron": "* * * *", "time_zone": "UTC"}, "spec.cron", "Enter 5 fields"),
        ({"cron": "* * * * * *", "time_zone": "UTC"}, "spec.cron", "Enter 5 fields"),
        ({"cron": "0 0 30 2 *", "time_zone": "UTC"}, "spec.cron", "the day of the month is wrong"),
        ({"cron": "0 0 * * *", "time_zone": "Mars/Olympus"}, "spec.time_zone", "Enter an IANA time zone"),
        ({"cron": "0 0 * * *", "time_zone": "../etc/passwd"}, "spec.time_zone", "Enter an IANA time zone"),
        ({"cron": ["0"], "time_zone": "UTC"}, "spec.cron", "must be a text"),
        ({"cron": "0 0 * * *", "zone": "UTC"}, "spec.zone", "unknown setting"),
    ],
)
def test_a_schedule_that_means_nothing_is_refused(spec: dict[str, Any], path: str, message: str) -> None:
    [problem] = Schedule().list_problems(spec)
    assert problem["path"] == path
    assert message in problem["message"]


pytestmark = pytest.mark.django_db


@contextmanager
def at_time(moment: datetime) -> Iterator[None]:
    """Set the clocks of this machine and of the database, of which PostgreSQL has its own."""
    reading = web_clock._ClockReading(moment, time.monotonic())
    with time_machine.travel(moment, tick=False), patch.object(web_clock, "_read_clock", lambda: reading):
        web_clock._readings.clear()
        yield
    web_clock._readings.clear()


@pytest.fixture
def nightly(world: World, admin: User) -> Trigger:
    """A trigger at 02:30 in Berlin, made at noon in November."""
    TriggerFiring.objects.all().delete()
    spec = operations.TriggerSpec(name="Nightly", spec=BERLIN, service_account=world.service_account)
    with at_time(NOON):
        return operations.create_trigger(
            actor=admin, pipeline=world.pipeline, identifier="nightly", kind="schedule", spec=spec
        )[0]


def work_at(at: datetime) -> list[TriggerFiring]:
    """Have a worker do what is due at a time, and return all firings, oldest first."""
    with at_time(at):
        tasks.process_firings()
    return list(TriggerFiring.objects.order_by("received_at"))


def test_a_time_that_has_come_starts_one_run(nightly: Trigger) -> None:
    assert nightly.due_at == moment("2026-11-27T01:30")
    assert not clock.has_due_triggers(moment("2026-11-27T01:29"))
    assert clock.has_due_triggers(moment("2026-11-27T01:30"))
    [firing] = work_at(moment("2026-11-27T01:30"))
    assert firing.status == "STARTED"
    assert firing.summary == "schedule 2026-11-27 02:30 Europe/Berlin"
    nightly.refresh_from_db()
    assert nightly.due_at == moment("2026-11-28T01:30")
    assert Execution.objects.get(pk=firing.execution_id).cause == f"Nightly: {firing.summary}"


def test_missed_times_are_made_up_for_once(nightly: Trigger) -> None:
    assert len(work_at(moment("2026-12-24T12:00"))) == 1
    nightly.refresh_from_db()
    assert nightly.due_at == moment("2026-12-25T01:30")


def test_of_two_workers_one_writes_the_event(nightly: Trigger) -> None:
    now = moment("2026-11-27T01:31")
    seen = Trigger.objects.get(pk=nightly.pk)
    assert clock.create_due_events(now) == 1
    assert clock._create_due_event(seen, now) is False
    assert TriggerFiring.objects.count() == 1


def test_a_clock_that_goes_back_repeats_nothing(nightly: Trigger) -> None:
    work_at(moment("2026-11-27T01:30"))
    # As if another worker had computed the next time with a clock that was behind.
    Trigger.objects.filter(pk=nightly.pk).update(due_at=moment("2026-11-27T01:30"))
    assert len(work_at(moment("2026-11-27T01:30") + timedelta(seconds=2))) == 1
    assert Execution.objects.exclude(cause="").count() == 1


def test_what_was_missed_while_it_was_disabled_is_not_made_up_for(nightly: Trigger, admin: User) -> None:
    with at_time(NOON):
        operations.set_enabled(actor=admin, trigger=nightly, is_enabled=False)
    assert nightly.due_at is None
    assert work_at(NOON + timedelta(days=9)) == []
    with at_time(NOON + timedelta(days=9)):
        operations.set_enabled(actor=admin, trigger=nightly, is_enabled=True)
    assert nightly.due_at == moment("2026-12-06T01:30")


def build_spec(world: World, **more: Any) -> operations.TriggerSpec:
    return operations.TriggerSpec(
        **{"name": "Nightly", "spec": BERLIN, "service_account": world.service_account} | more
    )


def test_a_time_that_has_come_is_kept_if_the_name_is_changed(
    nightly: Trigger, world: World, admin: User
) -> None:
    late = moment("2026-11-27T06:00")
    with at_time(late):
        operations.update_trigger(actor=admin, trigger=nightly, spec=build_spec(world, name="Each night"))
    [firing] = work_at(late)
    assert firing.summary == "schedule 2026-11-27 02:30 Europe/Berlin"
    nightly.refresh_from_db()
    assert nightly.due_at == moment("2026-11-28T01:30")
    with at_time(moment("2026-11-28T06:00")):
        morning = BERLIN | {"cron": "0 9 * * *"}
        operations.update_trigger(actor=admin, trigger=nightly, spec=build_spec(world, spec=morning))
    assert nightly.due_at == moment("2026-11-28T08:00")
    assert len(work_at(moment("2026-11-28T07:00"))) == 1


def test_enabling_it_keeps_a_time_that_somebody_else_has_saved(
    nightly: Trigger, world: World, admin: User
) -> None:
    with at_time(NOON):
        operations.set_enabled(actor=admin, trigger=nightly, is_enabled=False)
        loaded = operations.list_triggers().get(pk=nightly.pk)
        morning = BERLIN | {"cron": "0 9 * * *"}
        changed = build_spec(world, spec=morning, is_enabled=False)
        operations.update_trigger(actor=admin, trigger=nightly, spec=changed)
        operations.set_enabled(actor=admin, trigger=loaded, is_enabled=True)
    nightly.refresh_from_db()
    assert nightly.due_at == moment("2026-11-27T08:00")


def test_a_restored_database_makes_up_for_nothing(nightly: Trigger) -> None:
    assert clock.skip_missed_times(moment("2026-12-24T12:00")) == 1
    assert work_at(moment("2026-12-24T12:00")) == []


def test_the_form_shows_the_next_five_runs_before_saving(world: World, admin: User, browse: Browse) -> None:
    client, address = browse(admin), f"/pipelines/{world.pipeline.pk}/triggers/new/schedule/"
    fields = {"name": "Nightly", "service_account": world.service_account.pk, "is_enabled": "on"}
    spec = {f"spec.{name}": value for name, value in BERLIN.items()}
    with at_time(NOON):
        # Name and service account can follow later.
        page = client.post(address, spec | {"times": "1"}).content.decode()
        assert page.count("<li><time") == 5
        assert "This field is required" not in page
        assert "2026-11-27 01:30 UTC" in page
        wrong = client.post(address, fields | spec | {"spec.cron": "soon", "times": "1"})
        assert "Enter 5 fields" in unescape(wrong.content.decode())
        assert not Trigger.objects.filter(kind="schedule").exists()
        assert client.post(address, fields | spec).status_code == 302
        trigger = Trigger.objects.get(kind="schedule")
        assert trigger.secret == ""
        assert "2026-11-27 01:30 UTC" in client.get(f"/triggers/{trigger.pk}/").content.decode()
        trial = client.post(f"/triggers/{trigger.pk}/try/", {"payload": "{}"}).content.decode()
    assert "would start a run" in trial


def test_what_no_event_of_a_schedule_has_is_refused_when_it_is_saved(
    world: World, admin: User, browse: Browse
) -> None:
    client, address = browse(admin), f"/pipelines/{world.pipeline.pk}/triggers/new/schedule/"
    assert "trigger.payload" not in unescape(client.get(address).content.decode())
    fields = {"name": "Nightly", "service_account": world.service_account.pk, "is_enabled": "on"}
    fields |= {f"spec.{name}": value for name, value in BERLIN.items()}
    for wrong, message in (
        ({"tag": "<+trigger.payload.tag>"}, "Events of this kind have no payload"),
        ({"conditions": '<+trigger.payload.status> == "ok"'}, "Events of this kind have no payload"),
        ({"tag": "a b"}, "Use up to 128 letters"),
    ):
        response = client.post(address, fields | wrong)
        assert response.status_code == 400
        assert message in unescape(response.content.decode())
    right = {"tag": "nightly", "conditions": '<+trigger.scheduled_at> != ""'}
    assert client.post(address, fields | right).status_code == 302
