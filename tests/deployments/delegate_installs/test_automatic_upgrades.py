"""Automatic upgrades of deployed delegates: when their windows are open, how often, and with what result."""

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from celery.exceptions import SoftTimeLimitExceeded
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from connectors.models import Connector
from delegates.agent import VERSION
from delegates.models import Delegate, DelegateInstance
from deployments.delegate_installs.automatic_upgrades import finish_upgrades, start_due_upgrades
from deployments.delegate_installs.operations import deploy_delegate
from deployments.delegate_installs.upgrade_windows import (
    UpgradeTimes,
    remove_upgrade_window,
    set_upgrade_window,
)
from deployments.models import DelegateUpgrade, DelegateUpgradeWindow, Execution, FreezeWindow
from notifications.events import EventType
from notifications.models import Notification, NotificationRule
from ops.tasks import upgrade_delegates
from rbac.models import AuditEntry, Role, RoleAssignment, Scope, User
from rbac.policy import Forbidden
from tests.deployments.delegate_installs.test_plans import connector as connector
from tests.deployments.delegate_installs.test_plans import make, plan_for
from tests.fixtures.delegates import make_instance
from tests.fixtures.people import make_person
from tests.fixtures.threads import run_concurrently, split
from web.clock import get_database_time
from web.http.problems import BadInput, Conflict

ALWAYS = UpgradeTimes(tuple(range(7)), "00:00", 24 * 60)
SATURDAY_NIGHT = UpgradeTimes((5,), "23:00", 180, "Europe/Berlin")
Result = DelegateUpgrade.Status


def end_execution(execution: Execution | None, status: str = "SUCCESS", outcome: str = "COMPLETED") -> None:
    assert execution is not None
    ended = {"status": status, "outcome": outcome, "due_at": None, "ended_at": timezone.now()}
    Execution.objects.filter(pk=execution.pk).update(**ended)


@pytest.fixture
def delegate(admin: User, project: Scope, connector: Connector) -> Delegate:
    """A delegate that Slipway deployed, whose instance is of an earlier release."""
    deployed = make(admin, project)
    end_execution(deploy_delegate(actor=admin, plan=plan_for(admin, deployed, project, connector)))
    make_instance(deployed, version="0.0.9")
    return deployed


@pytest.fixture
def window(delegate: Delegate, admin: User) -> DelegateUpgradeWindow:
    return set_upgrade_window(actor=admin, delegate=delegate, times=ALWAYS)


def start() -> int:
    return start_due_upgrades(get_database_time())


def let_next_window_open() -> None:
    """Let the window be due again; what it did before was in the one of the week before."""
    DelegateUpgradeWindow.objects.update(due_at=get_database_time())
    for upgrade in DelegateUpgrade.objects.all():
        upgrade.window_begins_at -= timedelta(days=7)
        upgrade.save(update_fields=["window_begins_at"])


# --- Times


@pytest.mark.parametrize(
    ("moment", "begins"),
    [
        ("2026-06-06T20:59", None),
        ("2026-06-06T21:00", "2026-06-06T21:00"),
        # After midnight it is Sunday there, and the window is still open.
        ("2026-06-06T23:59", "2026-06-06T21:00"),
        ("2026-06-07T00:00", None),
        ("2026-01-10T22:30", "2026-01-10T22:00"),
    ],
)
def test_a_window_is_open_at_its_local_times(moment: str, begins: str | None) -> None:
    period = SATURDAY_NIGHT.get_open_period(datetime.fromisoformat(f"{moment}+00:00"))
    assert (f"{period.begins:%Y-%m-%dT%H:%M}" if period else None) == begins


def test_a_window_opens_next_on_the_next_of_its_days() -> None:
    times = replace(SATURDAY_NIGHT, days=(0, 5))
    assert times.compute_next_begin(datetime(2026, 6, 5, tzinfo=UTC)) == datetime(2026, 6, 6, 21, tzinfo=UTC)
    assert times.compute_next_begin(datetime(2026, 6, 6, 21, tzinfo=UTC)) == datetime(
        2026, 6, 8, 21, tzinfo=UTC
    )


# --- Who may set one, and for what

pytestmark = pytest.mark.django_db


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        ({"days": ()}, "days"),
        ({"days": (7,)}, "days"),
        ({"begins": "24:00"}, "begins"),
        ({"duration_minutes": 5}, "duration_minutes"),
        ({"time_zone": "Europe/Nowhere"}, "time_zone"),
        ({"time_zone": "../../etc/passwd"}, "time_zone"),
    ],
)
def test_times_that_no_week_has_are_refused(
    delegate: Delegate, admin: User, changed: dict[str, object], path: str
) -> None:
    times = replace(ALWAYS, **changed)  # type: ignore[arg-type]
    with pytest.raises(BadInput) as error:
        set_upgrade_window(actor=admin, delegate=delegate, times=times)
    assert error.value.errors[0]["path"] == path


def test_only_who_may_deploy_a_delegate_lets_it_be_upgraded(delegate: Delegate, project: Scope) -> None:
    for role in ("viewer", "pipeline_executor"):
        with pytest.raises(Forbidden):
            set_upgrade_window(actor=make_person(role, role, project), delegate=delegate, times=ALWAYS)
    assert not DelegateUpgradeWindow.objects.exists()


def test_a_delegate_that_slipway_cannot_upgrade_alone_gets_no_window(admin: User, project: Scope) -> None:
    delegate = make(admin, project)
    with pytest.raises(Conflict, match="did not deploy"):
        set_upgrade_window(actor=admin, delegate=delegate, times=ALWAYS)


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"image": f"registry.example.com/slipway-delegate@sha256:{'0' * 64}"}, "Use a tag"),
        ({"mirrors_image": True}, "mirrored by hand"),
    ],
)
def test_an_image_that_a_person_has_to_choose_gets_no_window(
    delegate: Delegate, admin: User, answers: dict[str, object], message: str
) -> None:
    delegate.spec = {**delegate.spec, **answers}
    delegate.save()
    with pytest.raises(Conflict, match=message):
        set_upgrade_window(actor=admin, delegate=delegate, times=ALWAYS)


# --- Upgrades


def test_without_a_window_nothing_is_upgraded(delegate: Delegate, window: DelegateUpgradeWindow, admin: User):
    remove_upgrade_window(actor=admin, delegate=delegate)
    assert start() == 0
    assert not DelegateUpgrade.objects.exists()


def test_an_open_window_moves_the_delegate_to_the_release_of_the_server(
    delegate: Delegate, window: DelegateUpgradeWindow, admin: User
) -> None:
    upgrade_delegates()
    upgrade = DelegateUpgrade.objects.get()
    image = f"registry.example.com/slipway-delegate:{VERSION}"
    assert (upgrade.status, upgrade.image) == (Result.RUNNING, image)
    assert upgrade.execution is not None
    assert upgrade.execution.cause == f"Automatic upgrade of the delegate eu to {VERSION}"
    assert upgrade.execution.started_by == admin
    delegate.refresh_from_db()
    assert delegate.spec["image"] == image
    entry = AuditEntry.objects.get(action="delegate.upgrade")
    assert (entry.actor, entry.actor_name, entry.thing_name) == (None, "slipway", "eu")

    end_execution(upgrade.execution)
    upgrade_delegates()
    upgrade.refresh_from_db()
    assert (upgrade.status, upgrade.problem) == (Result.SUCCEEDED, "")
    # An image whose agent still says the earlier release is not deployed each week.
    let_next_window_open()
    assert start() == 0


def test_one_window_starts_one_upgrade_although_two_beats_look(window: DelegateUpgradeWindow) -> None:
    assert [start(), start()] == [1, 0]
    # Another beat that read the row before: or a person moved the window within its hours.
    DelegateUpgradeWindow.objects.update(due_at=window.due_at)
    assert start() == 0
    assert DelegateUpgrade.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_of_two_workers_at_once_one_starts_the_upgrade(window: DelegateUpgradeWindow) -> None:
    started, raised = split(run_concurrently(start, start))
    # SQLite makes the second one wait, or fail and try again half a minute later.
    assert all(isinstance(error, DatabaseError) for error in raised)
    assert sum(started) == 1
    assert DelegateUpgrade.objects.count() == 1


def test_a_worker_that_dies_on_the_way_leaves_the_window_due(window: DelegateUpgradeWindow) -> None:
    def die(execute: Any, sql: str, *arguments: Any) -> Any:
        if 'INSERT INTO "deployments_execution"' in sql:
            raise KeyboardInterrupt
        return execute(sql, *arguments)

    with connection.execute_wrapper(die), pytest.raises(KeyboardInterrupt):
        start()
    assert not DelegateUpgrade.objects.exists()
    assert start() == 1


def test_a_worker_that_reaches_its_time_limit_leaves_the_window_due(window: DelegateUpgradeWindow) -> None:
    def interrupt(execute: Any, sql: str, *arguments: Any) -> Any:
        if 'INSERT INTO "deployments_execution"' in sql:
            raise SoftTimeLimitExceeded
        return execute(sql, *arguments)

    with connection.execute_wrapper(interrupt), pytest.raises(SoftTimeLimitExceeded):
        start()
    assert not DelegateUpgrade.objects.exists()
    assert start() == 1


def test_a_closed_window_waits_for_its_next_time(delegate: Delegate, admin: User) -> None:
    now = get_database_time()
    begin = now + timedelta(days=2)
    times = UpgradeTimes((begin.weekday(),), f"{begin:%H:%M}", 60)
    window = set_upgrade_window(actor=admin, delegate=delegate, times=times)
    assert timedelta(days=1, hours=23) < window.due_at - now <= timedelta(days=2)
    # Beats were away, and come back long after the window closed.
    late = window.due_at + timedelta(hours=2)
    assert start_due_upgrades(late) == 0
    window.refresh_from_db()
    assert window.due_at > late
    assert not DelegateUpgrade.objects.exists()


@pytest.mark.parametrize(
    "change",
    [
        lambda: DelegateInstance.objects.update(version=VERSION),
        lambda: DelegateInstance.objects.update(version="99.0.0"),
        lambda: DelegateInstance.objects.update(last_heartbeat_at=timezone.now() - timedelta(days=1)),
        lambda: Delegate.objects.update(admission=Delegate.Admission.DISABLED),
    ],
    ids=["of this release", "of a later release", "away", "disabled"],
)
def test_a_delegate_that_needs_no_upgrade_is_left_alone(
    window: DelegateUpgradeWindow, change: Callable[[], object]
) -> None:
    change()
    assert start() == 0
    assert not DelegateUpgrade.objects.exists()


def test_a_delegate_that_reconnects_within_its_window_is_upgraded(window: DelegateUpgradeWindow) -> None:
    """As after an upgrade of Slipway itself."""
    opened_at = get_database_time()
    DelegateInstance.objects.update(last_heartbeat_at=opened_at - timedelta(days=1))
    assert start_due_upgrades(opened_at) == 0
    window.refresh_from_db()
    assert window.due_at == opened_at + timedelta(minutes=5)
    DelegateInstance.objects.update(last_heartbeat_at=window.due_at)
    assert start_due_upgrades(opened_at + timedelta(minutes=4)) == 0
    assert start_due_upgrades(window.due_at) == 1
    assert DelegateUpgrade.objects.count() == 1


def test_a_delegate_that_stays_away_waits_for_the_next_window(
    delegate: Delegate, window: DelegateUpgradeWindow, admin: User
) -> None:
    set_upgrade_window(actor=admin, delegate=delegate, times=SATURDAY_NIGHT)
    end = datetime(2026, 6, 7, tzinfo=UTC)
    DelegateInstance.objects.update(last_heartbeat_at=end - timedelta(days=1))
    DelegateUpgradeWindow.objects.update(due_at=end - timedelta(minutes=2))
    assert start_due_upgrades(end - timedelta(minutes=2)) == 0
    assert start_due_upgrades(end + timedelta(minutes=3)) == 0
    window.refresh_from_db()
    assert window.due_at == datetime(2026, 6, 13, 21, tzinfo=UTC)


def test_a_failed_upgrade_is_notified_and_repeated_in_the_next_window_only(
    delegate: Delegate, window: DelegateUpgradeWindow, project: Scope
) -> None:
    NotificationRule.objects.create(
        scope=project, identifier="x", name="X", events=[EventType.DELEGATE_UPGRADE_FAILED]
    )
    assert start() == 1
    first = DelegateUpgrade.objects.get()
    end_execution(first.execution, "FAILED", "ROLLED_BACK")
    now = get_database_time()
    assert [finish_upgrades(now), finish_upgrades(now)] == [1, 0]
    first.refresh_from_db()
    assert (first.status, first.problem) == (
        Result.FAILED,
        "Delegate eu #2 failed and was rolled back.",
    )
    notification = Notification.objects.get()
    assert "The automatic upgrade of delegate eu failed" in notification.text
    DelegateUpgradeWindow.objects.update(due_at=now)
    assert start() == 0
    let_next_window_open()
    assert start() == 1


def test_an_upgrade_that_the_rights_no_longer_allow_fails_with_the_reason(
    delegate: Delegate, window: DelegateUpgradeWindow, admin: User
) -> None:
    User.objects.filter(pk=admin.pk).update(is_active=False)
    assert start() == 0
    upgrade = DelegateUpgrade.objects.get()
    assert (upgrade.status, upgrade.execution) == (Result.FAILED, None)
    assert "Save the window again" in upgrade.problem
    delegate.refresh_from_db()
    assert delegate.spec["image"].endswith(":1.2.3")


def test_a_freeze_window_skips_the_upgrade(
    delegate: Delegate, window: DelegateUpgradeWindow, project: Scope
) -> None:
    FreezeWindow.objects.create(
        scope=project, identifier="x", name="X-mas", begins="2026-01-01T00:00", ends="2126-01-01T00:00"
    )
    assert start() == 0
    upgrade = DelegateUpgrade.objects.get()
    assert upgrade.status == Result.SKIPPED
    assert "X-mas" in upgrade.problem


def test_an_internal_error_ends_the_upgrade_of_its_window(
    delegate: Delegate, window: DelegateUpgradeWindow
) -> None:
    # Answers that no form writes.
    Delegate.objects.filter(pk=delegate.pk).update(spec={**delegate.spec, "image": 5})
    assert start() == 0
    upgrade = DelegateUpgrade.objects.get()
    assert upgrade.status == Result.FAILED
    assert "internal error (TypeError)" in upgrade.problem
    assert start() == 0


# --- Page and API


def test_a_window_is_set_changed_and_ended_on_the_page(
    delegate: Delegate, admin: User, browse: Callable[[User], Client]
) -> None:
    client, address = browse(admin), f"/delegates/{delegate.pk}/upgrades/"
    spec = f"/delegates/{delegate.pk}/?tab=spec"
    assert "Slipway does not upgrade the delegate by itself" in client.get(spec).content.decode()
    form = {"days": ["5", "6"], "begins": "02:00", "duration_minutes": "120", "time_zone": "Europe/Berlin"}
    page = client.post(address, form, follow=True).content.decode()
    words = "on Saturday, Sunday from 02:00 for 2 hours (Europe/Berlin)"
    assert f"Slipway upgrades the delegate {words}." in page
    assert "Upgrades have the permissions of admin." in page
    assert words.removeprefix("on ") in client.get(spec).content.decode()
    response = client.post(address, {**form, "days": []})
    assert response.status_code == 400
    assert DelegateUpgradeWindow.objects.get().days == [5, 6]
    client.post(address, {"end": "1"})
    assert not DelegateUpgradeWindow.objects.exists()
    actions = AuditEntry.objects.filter(action__startswith="delegateupgradewindow.").order_by("pk")
    assert [entry.action.partition(".")[2] for entry in actions] == ["create", "delete"]


def test_the_page_of_the_delegate_shows_a_failed_upgrade(
    delegate: Delegate, window: DelegateUpgradeWindow, admin: User, browse: Callable[[User], Client]
) -> None:
    Connector.objects.update(scope=Scope.objects.get(path="account/default"), kind=Connector.Kind.GIT)
    assert start() == 0
    page = browse(admin).get(f"/delegates/{delegate.pk}/").content.decode()
    assert "The last automatic upgrade failed: Choose an AWS connector of" in page
    page = browse(admin).get(f"/delegates/{delegate.pk}/upgrades/").content.decode()
    assert "Choose an AWS connector of" in page


def test_a_failed_upgrade_leads_to_its_deployment_only_for_who_can_view_it(
    delegate: Delegate,
    window: DelegateUpgradeWindow,
    project: Scope,
    admin: User,
    browse: Callable[[User], Client],
) -> None:
    assert start() == 1
    upgrade = DelegateUpgrade.objects.get()
    DelegateUpgrade.objects.update(status=DelegateUpgrade.Status.FAILED, problem="It did not connect.")
    person = make_person("somebody")
    role = Role.objects.create(scope=delegate.scope, identifier="some", name="Some")
    role.set_permissions({"core_delegate_view"})
    RoleAssignment.objects.create(scope=delegate.scope, role=role, user=person)
    link = f'href="/deployments/{upgrade.execution_id}/"'
    assert link in browse(admin).get(f"/delegates/{delegate.pk}/").content.decode()
    page = browse(person).get(f"/delegates/{delegate.pk}/").content.decode()
    assert "The last automatic upgrade failed: It did not connect." in page
    assert link not in page


def test_a_window_is_set_by_api(delegate: Delegate, admin: User, call: Callable[[User], APIClient]) -> None:
    address = f"/api/v1/delegates/{delegate.pk}/upgrade-window"
    assert call(admin).get(address).json()["window"] is None
    window = {"days": ["Saturday"], "begins": "02:00", "duration_minutes": 45, "time_zone": "Europe/Berlin"}
    response = call(admin).put(address, {"window": window}, "json")
    assert response.status_code == 200, response.json()
    assert response.json()["window"] == window
    assert response.json()["allowed_by"] == "admin"
    again = call(admin).put(address, call(admin).get(address).json(), "json")
    assert again.status_code == 200, "what was read can be sent back"
    wrong = call(admin).put(address, {"window": {**window, "begins": "2"}}, "json").json()
    assert wrong["errors"][0]["path"] == "window.begins"
    assert call(admin).put(address, {"window": None}, "json").json()["window"] is None
    call(admin).put(address, {"window": window}, "json")
    assert call(admin).delete(address).status_code == 204
    assert call(admin).get(address).json()["window"] is None
