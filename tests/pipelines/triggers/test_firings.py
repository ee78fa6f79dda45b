"""What workers make of events: one run, or the reason why there is none."""

import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import OperationalError
from django.test import Client
from django.utils import timezone

from deployments.models import Execution, FreezeWindow
from deployments.retention import DEPLOYMENT_RETENTION
from pipelines import tasks
from pipelines.models import Trigger, TriggerFiring
from pipelines.triggers import firings
from pipelines.triggers.base import TriggerEvent
from pipelines.triggers.events import record_event
from pipelines.triggers.operations import delete_trigger, redeliver
from pipelines.triggers.runs import StartedRun, TriggeredRun, get_run_starter, register_run_starter
from rbac.models import AuditEntry, RoleAssignment, User
from rbac.operations.service_accounts import delete_service_account
from tests.api.sample_project import World
from tests.pipelines.triggers.conftest import Send
from web.http.problems import Conflict
from web.retention import prune_rows

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]


@pytest.fixture(autouse=True)
def _only_new_rows(world: World) -> None:
    TriggerFiring.objects.all().delete()


def fire(trigger: Trigger, payload: Any = None, name: str = "1") -> TriggerFiring:
    """Write an event as the address would, and return its firing."""
    event = TriggerEvent(f"key-{name}", f"delivery-{name}", "webhook", {}, payload or {"tag": "v2"})
    return record_event(trigger, event)[0]


def handle(firing: TriggerFiring) -> TriggerFiring:
    """Have a worker handle what waits, and return the firing as it is then."""
    tasks.process_firings()
    firing.refresh_from_db()
    return firing


def runs() -> Any:
    return Execution.objects.exclude(cause="").order_by("created_at")


def test_an_event_starts_a_run_with_its_tag_as_the_service_account(
    trigger: Trigger, send: Send, admin: User, browse: Browse
) -> None:
    send({"tag": "v7"})
    firing = handle(TriggerFiring.objects.get())
    execution = runs().get()
    assert (firing.status, firing.reason) == ("STARTED", "")
    assert (firing.execution_id, firing.execution_number) == (execution.pk, execution.number)
    assert execution.artifact["tag"] == "v7"
    assert execution.started_by == trigger.service_account.user
    assert AuditEntry.objects.filter(action="pipeline.execute").latest("pk").after["cause"] == execution.cause
    page = browse(admin).get(f"/deployments/{execution.pk}/").content.decode()
    assert f'Triggered by <a href="/trigger-firings/{firing.pk}/">' in page
    listed = browse(admin).get(f"/deployments/?trigger={trigger.pk}").content.decode()
    assert f"#{execution.number}" in listed
    assert "#1</a>" not in listed


def test_two_deliveries_of_one_event_start_one_run(trigger: Trigger) -> None:
    fire(trigger, name="1")
    for event in (
        TriggerEvent("key-1", "delivery-2", "webhook", {}, {"tag": "v2"}),
        TriggerEvent("key-2", "delivery-1", "webhook", {}, {"tag": "v2"}),
    ):
        assert record_event(trigger, event)[1] is False
    tasks.process_firings()
    tasks.process_firings()
    assert runs().count() == 1


def test_of_two_workers_one_handles_an_event(trigger: Trigger) -> None:
    firing, now = fire(trigger), timezone.now()
    assert [firings.process_firing(firing.pk, now) for _ in range(2)] == [True, False]
    assert runs().count() == 1


def test_two_workers_whose_claims_overlap_start_one_run(trigger: Trigger) -> None:
    firing = fire(trigger)
    later = timezone.now() + firings.CLAIM_DURATION + timedelta(seconds=1)

    class SlowStarter:
        """The second worker takes the firing up while the first one is about to start the run."""

        def __init__(self) -> None:
            self.inner = get_run_starter()
            self.calls = 0

        def start(self, run: TriggeredRun) -> StartedRun:
            self.calls += 1
            if self.calls == 1:
                firings.process_firing(firing.pk, later)
            return self.inner.start(run)

        def check(self, run: TriggeredRun) -> None:
            self.inner.check(run)

    slow = SlowStarter()
    register_run_starter(slow)
    try:
        firings.process_firing(firing.pk, timezone.now())
    finally:
        register_run_starter(slow.inner)
    assert slow.calls == 2
    assert runs().count() == 1
    firing.refresh_from_db()
    assert firing.execution_id == runs().get().pk


def test_a_worker_that_dies_before_the_commit_leaves_neither_run_nor_result(trigger: Trigger) -> None:
    firing = fire(trigger)

    class Dying:
        """Starts the run, then ends the process."""

        def __init__(self) -> None:
            self.inner = get_run_starter()

        def start(self, run: TriggeredRun) -> StartedRun:
            self.inner.start(run)
            raise KeyboardInterrupt

        def check(self, run: TriggeredRun) -> None:
            self.inner.check(run)

    dying = Dying()
    register_run_starter(dying)
    try:
        with pytest.raises(KeyboardInterrupt):
            firings.process_firing(firing.pk, timezone.now())
    finally:
        register_run_starter(dying.inner)
    firing.refresh_from_db()
    assert (firing.status, runs().count()) == ("WAITING", 0)
    # Until its claim ends, nobody takes it up; then it starts one run.
    assert not firings.has_due_firings(timezone.now())
    assert firings.process_firing(firing.pk, timezone.now() + firings.CLAIM_DURATION * 2)
    assert runs().count() == 1


def test_what_kills_every_worker_ends(trigger: Trigger) -> None:
    firing = fire(trigger)
    TriggerFiring.objects.filter(pk=firing.pk).update(attempts=firings.MOST_ATTEMPTS)
    assert handle(firing).reason == "Slipway could not finish it in 5 attempts."
    assert not runs().exists()


class Failing:
    """A starter that fails with an error."""

    def __init__(self, error: Exception) -> None:
        self.error, self.inner = error, get_run_starter()

    def start(self, run: TriggeredRun) -> StartedRun:
        raise self.error

    def check(self, run: TriggeredRun) -> None:
        raise self.error


def test_a_bug_ends_its_firing_and_no_other(trigger: Trigger) -> None:
    firing = fire(trigger)
    failing = Failing(RuntimeError("a mistake"))
    register_run_starter(failing)
    try:
        handle(firing)
    finally:
        register_run_starter(failing.inner)
    assert firing.status == "REFUSED"
    assert "internal error (RuntimeError)" in firing.reason


def test_an_outage_ends_nothing(trigger: Trigger) -> None:
    firing = fire(trigger)
    failing = Failing(OperationalError("the connection is closed"))
    register_run_starter(failing)
    try:
        handle(firing)
    finally:
        register_run_starter(failing.inner)
    assert firing.status == "WAITING"


def test_the_time_limit_of_a_message_leaves_its_firing_to_a_later_one(trigger: Trigger) -> None:
    firing = fire(trigger)
    failing = Failing(SoftTimeLimitExceeded())
    register_run_starter(failing)
    try:
        with pytest.raises(SoftTimeLimitExceeded):
            tasks.process_firings()
    finally:
        register_run_starter(failing.inner)
    firing.refresh_from_db()
    assert (firing.status, firing.attempts) == ("WAITING", 1)
    TriggerFiring.objects.update(due_at=timezone.now())
    assert handle(firing).status == "STARTED"
    assert runs().count() == 1


def test_a_firing_that_reaches_the_time_limit_in_each_attempt_ends_and_says_so(trigger: Trigger) -> None:
    firing = fire(trigger)
    failing = Failing(SoftTimeLimitExceeded())
    register_run_starter(failing)
    try:
        for _ in range(firings.MOST_ATTEMPTS):
            with pytest.raises(SoftTimeLimitExceeded):
                tasks.process_firings()
            TriggerFiring.objects.update(due_at=timezone.now())
        assert handle(firing).status == "REFUSED"
    finally:
        register_run_starter(failing.inner)
    assert firing.reason == "Slipway could not finish it in 5 attempts."
    assert not runs().exists()


def test_a_message_starts_no_firing_for_which_it_has_no_time(
    trigger: Trigger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("1", "2"):
        fire(trigger, name=name)
    monkeypatch.setattr(tasks, "START_WITHIN_SECONDS", 0)
    tasks.process_firings()
    assert runs().count() == 1
    tasks.process_firings()
    assert runs().count() == 2


@pytest.mark.parametrize(
    ("conditions", "reason"),
    [
        (['<+trigger.payload.branch> == "main"'], 'Does not hold: <+trigger.payload.branch> is "dev".'),
        (["<+trigger.payload.missing> == 1"], "<+trigger.payload.missing> is unknown here."),
        (
            ['<+trigger.payload.tag> == "v3" && <+trigger.payload.missing> == 1'],
            'Does not hold: <+trigger.payload.tag> is "v2", <+trigger.payload.missing> is not in the event.',
        ),
    ],
)
def test_a_condition_that_does_not_hold_is_the_reason(
    trigger: Trigger, conditions: list[str], reason: str
) -> None:
    Trigger.objects.filter(pk=trigger.pk).update(conditions=['<+trigger.payload.tag> == "v2"', *conditions])
    firing = handle(fire(trigger, {"tag": "v2", "branch": "dev"}))
    assert firing.status == "IGNORED"
    assert reason in firing.reason
    first, second = firing.decision["checks"]
    assert (first["reason"], bool(second["reason"])) == ("", True)
    assert not runs().exists()


def test_a_disabled_trigger_ignores_its_events(trigger: Trigger) -> None:
    Trigger.objects.filter(pk=trigger.pk).update(is_enabled=False)
    assert handle(fire(trigger)).reason == "The trigger is disabled."


def freeze(world: World) -> str:
    now = timezone.now()
    FreezeWindow.objects.create(
        scope=world.scope,
        identifier="now",
        name="Stocktaking",
        begins=f"{now - timedelta(days=1):%Y-%m-%dT%H:%M}",
        ends=f"{now + timedelta(days=1):%Y-%m-%dT%H:%M}",
    )
    return "Stocktaking"


def archive(world: World) -> str:
    type(world.scope).objects.filter(pk=world.scope.pk).update(archived_at=timezone.now())
    return "is archived"


def remove_role(world: World) -> str:
    RoleAssignment.objects.filter(user=world.service_account.user).delete()
    return "The service account needs access to the pipeline."


def delete_account(world: World) -> str:
    delete_service_account(actor=None, account=world.service_account)
    return "The service account of the trigger was deleted."


@pytest.mark.parametrize("forbid", [freeze, archive, remove_role, delete_account])
def test_a_refused_run_says_why(world: World, trigger: Trigger, forbid: Callable[[World], str]) -> None:
    reason = forbid(world)
    firing = handle(fire(trigger))
    assert firing.status == "REFUSED"
    assert reason in firing.reason
    assert not runs().exists()


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        ({}, "tag: <+trigger.payload.tag> is unknown here."),
        ({"tag": "-rm"}, "This is not a valid image tag."),
        ({"tag": ["v2"]}, "This is not a valid image tag."),
        ({"tag": '<+secrets.getValue("account.key")>'}, "This is not a valid image tag."),
        ({"tag": "<+pipeline.name>"}, "This is not a valid image tag."),
    ],
)
def test_a_hostile_tag_is_text_and_refused(trigger: Trigger, payload: Any, reason: str) -> None:
    firing = handle(fire(trigger, {"other": 1} | payload))
    assert firing.status == "REFUSED"
    assert reason in firing.reason


def test_redelivery_uses_the_settings_of_now(trigger: Trigger, admin: User, browse: Browse) -> None:
    Trigger.objects.filter(pk=trigger.pk).update(is_enabled=False)
    firing = handle(fire(trigger, {"tag": "v9"}))
    Trigger.objects.filter(pk=trigger.pk).update(is_enabled=True)
    page = browse(admin).post(f"/trigger-firings/{firing.pk}/redeliver/", follow=True)
    assert "Redelivered by" in page.content.decode()
    tasks.process_firings()
    assert runs().get().artifact["tag"] == "v9"


def test_old_firings_go_and_those_of_executions_lose_their_payload(trigger: Trigger, admin: User) -> None:
    started = handle(fire(trigger))
    ignored = fire(trigger, name="2")
    old = timezone.now() - timedelta(days=31)
    TriggerFiring.objects.filter(pk=ignored.pk).update(status="IGNORED")
    TriggerFiring.objects.update(received_at=old)
    prune_rows(DEPLOYMENT_RETENTION, timezone.now())
    kept = TriggerFiring.objects.get()
    assert (kept.pk, kept.payload) == (started.pk, {})
    with pytest.raises(Conflict, match="payload of this firing was deleted after 30"):
        redeliver(actor=admin, firing=kept)


def test_executions_keep_their_cause_when_the_trigger_is_deleted(
    trigger: Trigger, admin: User, browse: Browse
) -> None:
    handle(fire(trigger))
    delete_trigger(actor=admin, trigger=trigger)
    page = browse(admin).get(f"/deployments/{runs().get().pk}/").content.decode()
    assert f"Triggered by {trigger.name}: webhook" in page


def test_a_tick_sees_what_waits(trigger: Trigger) -> None:
    began = time.time()
    fire(trigger)
    assert firings.has_due_firings(timezone.now())
    tasks.tick()
    assert time.time() - began < 5
