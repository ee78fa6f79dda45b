"""Automatic upgrades of deployed delegates: start in their windows, and result."""

import logging
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Final

from django.db import transaction
from django.db.models import Q

from delegates.agent import VERSION
from delegates.connectivity import is_connected
from delegates.install.wizard import WizardAnswers
from delegates.live import publish_delegates_changed
from delegates.models import Delegate, DelegateInstance
from delegates.operations.installation import change_setup
from delegates.releases import is_earlier_release
from deployments.delegate_installs.operations import deploy_delegate, plan_delegate_deployment
from deployments.delegate_installs.upgrade_windows import (
    UpgradeTimes,
    choose_release_image,
    describe_image_problem,
)
from deployments.freezes.operations import RunFrozen
from deployments.freezes.schedule import FreezePeriod
from deployments.models import DelegateUpgrade, DelegateUpgradeWindow, Execution
from notifications.event_texts import describe_end, describe_failed_upgrade
from notifications.events import EventType, NotificationEvent
from notifications.outbox import notify
from rbac.audit import record_audit_entry
from rbac.policy import Forbidden, NotVisible
from steps.states import TERMINAL_STATUSES, Outcome, Status
from web.http.outages import is_interruption
from web.http.problems import Conflict, Problem
from web.page_paths import get_page_path

# A message of the worker starts so many; the next one goes on.
WINDOWS_PER_MESSAGE: Final = 20
# Until a delegate without a connection is looked at again while its window is open.
RECONNECT_INTERVAL: Final = timedelta(minutes=5)
_Result = DelegateUpgrade.Status
logger = logging.getLogger(__name__)


def start_due_upgrades(now: datetime) -> int:
    """Start the upgrades of windows that are open, and return their number; one window never starts two."""
    due = DelegateUpgradeWindow.objects.filter(due_at__lte=now).order_by("due_at", "pk")
    started = 0
    for pk in list(due.values_list("pk", flat=True)[:WINDOWS_PER_MESSAGE]):
        try:
            started += _start(pk, now)
        except Exception as error:
            if is_interruption(error):
                raise
            # Otherwise the window would be tried until it closes, and the others would wait.
            logger.exception("An automatic upgrade failed with an unexpected error")
            _record_crash(pk, error, now)
    return started


def finish_upgrades(now: datetime) -> int:
    """Record the results of the upgrades whose executions have ended, and return their number."""
    rows = DelegateUpgrade.objects.filter(ended_at=None).filter(
        Q(execution=None) | Q(execution__status__in=TERMINAL_STATUSES)
    )
    loaded = rows.select_related("delegate__scope", "execution__pipeline").order_by("started_at")
    return sum(_finish(upgrade, now) for upgrade in loaded[:WINDOWS_PER_MESSAGE])


def _start(pk: int, now: datetime) -> bool:
    """Start the upgrade of one window in one transaction: a worker that dies leaves the window due."""
    window = _load_window(pk)
    with transaction.atomic():
        period = _claim_period(window, now) if window else None
        if window is None or period is None:
            return False
        if not _list_connected_instances(window.delegate, now):
            _postpone(window, now)
            return False
        image = choose_release_image(window.delegate)
        upgrade = (
            _create_upgrade(window, period, image, now)
            if _needs_upgrade(window.delegate, image, now)
            else None
        )
        if upgrade is None:
            return False
        try:
            with transaction.atomic():
                upgrade.execution = _deploy(window, image)
        except RunFrozen as frozen:
            _end(upgrade, _Result.SKIPPED, str(frozen), now)
        except (Problem, Forbidden, NotVisible) as refusal:
            _end(upgrade, _Result.FAILED, str(refusal), now)
        else:
            upgrade.save(update_fields=["execution"])
            _record(upgrade)
    return upgrade.execution is not None


def _load_window(pk: int) -> DelegateUpgradeWindow | None:
    rows = DelegateUpgradeWindow.objects.select_related(
        "delegate__scope",
        "delegate__token__scope",
        "delegate__configuration",
        "infrastructure__environment__scope",
        "infrastructure__connector__scope",
        "infrastructure__connector__secret",
        "allowed_by",
    )
    return rows.prefetch_related("delegate__instances").filter(pk=pk).first()


def _claim_period(window: DelegateUpgradeWindow, now: datetime) -> FreezePeriod | None:
    """Move a window on to its next time, and return its open period; None for a second worker too."""
    times = UpgradeTimes.from_window(window)
    # The condition is the claim: of two workers, one changes the row.
    due = DelegateUpgradeWindow.objects.filter(pk=window.pk, due_at=window.due_at)
    is_claimed = due.update(due_at=times.compute_next_begin(now))
    return times.get_open_period(now) if is_claimed else None


def _postpone(window: DelegateUpgradeWindow, now: datetime) -> None:
    """Look again in the open period: the delegate may be reconnecting, as after an upgrade of Slipway."""
    due_at = min(now + RECONNECT_INTERVAL, UpgradeTimes.from_window(window).compute_next_begin(now))
    DelegateUpgradeWindow.objects.filter(pk=window.pk).update(due_at=due_at)


def _create_upgrade(
    window: DelegateUpgradeWindow, period: FreezePeriod, image: str, now: datetime
) -> DelegateUpgrade | None:
    """Create the upgrade of a period; None if the period had one, as after a change of the window."""
    upgrade, is_new = DelegateUpgrade.objects.get_or_create(
        delegate=window.delegate,
        window_begins_at=period.begins,
        defaults={"image": image, "started_at": now},
    )
    return upgrade if is_new else None


def _record_crash(pk: int, error: Exception, now: datetime) -> None:
    """End the upgrade of a window that a bug prevents from being started."""
    window = _load_window(pk)
    with transaction.atomic():
        period = _claim_period(window, now) if window else None
        upgrade = _create_upgrade(window, period, "", now) if window and period else None
        if upgrade is not None:
            problem = f"Slipway failed with an internal error ({type(error).__name__}). Report it."
            _end(upgrade, _Result.FAILED, problem, now)


def _deploy(window: DelegateUpgradeWindow, image: str) -> Execution:
    """Move the delegate to an image as its page does, with the rights of the person who allowed it."""
    actor, delegate = window.allowed_by, window.delegate
    if actor is None or not actor.is_active:
        raise Conflict("The user who allowed automatic upgrades is gone. Save the window again.")
    if problem := describe_image_problem(delegate):
        raise Conflict(problem)
    answers = WizardAnswers.from_json(delegate.spec)
    if answers.image:
        change_setup(
            actor=actor, delegate=delegate, answers=replace(answers, image=image), size=delegate.size
        )
    place = window.infrastructure
    plan = plan_delegate_deployment(
        actor=actor, delegate=delegate, project=place.environment.scope, connector=place.connector
    )
    return deploy_delegate(
        actor=actor, plan=plan, cause=f"Automatic upgrade of the delegate {delegate} to {VERSION}"
    )


def _needs_upgrade(delegate: Delegate, image: str, now: datetime) -> bool:
    """Return whether a connected instance has an earlier release, unless this image did not change that."""
    if delegate.admission != Delegate.Admission.ENABLED:
        return False
    instances = _list_connected_instances(delegate, now)
    if not any(is_earlier_release(instance.version, VERSION) for instance in instances):
        return False
    last = DelegateUpgrade.objects.filter(delegate=delegate).order_by("-window_begins_at").first()
    return last is None or last.status != _Result.SUCCEEDED or last.image != image


def _list_connected_instances(delegate: Delegate, now: datetime) -> list[DelegateInstance]:
    return [instance for instance in delegate.instances.all() if is_connected(instance, now)]


def _finish(upgrade: DelegateUpgrade, now: datetime) -> bool:
    execution = upgrade.execution
    if execution is None:
        result, problem = _Result.FAILED, "Its execution was deleted before it ended."
    elif execution.status == Status.SUCCESS:
        result, problem = _Result.SUCCEEDED, ""
    else:
        phrase = describe_end(execution.status, was_rolled_back=execution.outcome == Outcome.ROLLED_BACK)
        result, problem = _Result.FAILED, f"{execution.pipeline.name} #{execution.number} {phrase}."
    with transaction.atomic():
        # The condition is the claim: of two workers, one writes and notifies.
        if not DelegateUpgrade.objects.filter(pk=upgrade.pk, ended_at=None).update(ended_at=now):
            return False
        _end(upgrade, result, problem, now)
    return True


def _end(upgrade: DelegateUpgrade, result: DelegateUpgrade.Status, problem: str, now: datetime) -> None:
    """Write the result, with an audit entry of Slipway itself; a failure is notified."""
    upgrade.status, upgrade.problem, upgrade.ended_at = result, problem, now
    upgrade.save(update_fields=["status", "problem", "ended_at"])
    _record(upgrade)
    if result == _Result.FAILED:
        notify(_build_event(upgrade))


def _record(upgrade: DelegateUpgrade) -> None:
    after = {
        "image": upgrade.image,
        "status": upgrade.status,
        "problem": upgrade.problem,
        "execution": str(upgrade.execution_id) if upgrade.execution_id else None,
        "window_begins_at": upgrade.window_begins_at.isoformat(),
    }
    record_audit_entry(actor=None, action="delegate.upgrade", thing=upgrade.delegate, after=after)
    publish_delegates_changed(upgrade.delegate_id)


def _build_event(upgrade: DelegateUpgrade) -> NotificationEvent:
    delegate = upgrade.delegate
    return NotificationEvent(
        event=EventType.DELEGATE_UPGRADE_FAILED,
        scope=delegate.scope,
        text=describe_failed_upgrade(delegate.name, upgrade.problem),
        path=get_page_path("delegate", delegate.pk),
        status="FAILED",
        cause=upgrade.problem,
        delegate=delegate.name,
    )
