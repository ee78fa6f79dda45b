"""Rows of acceptance runs: how long they are kept, and how a restore of the database ends them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from ops.acceptance.runs import LeaseLost, RunPass, list_due_runs
from ops.backups.restores import settle_restored_state
from ops.models import AcceptanceRun
from ops.tasks import advance_acceptance_run, prune
from rbac.models import AuditEntry, Scope
from web.epochs import advance_epoch
from web.models import InstallationEpoch

pytestmark = pytest.mark.django_db
NOW = timezone.now()


def store_run(key: str, **values: object) -> AcceptanceRun:
    """Store an open run that is due."""
    row = {"cluster": key, "started_at": NOW, "due_at": NOW, "scope": Scope.objects.account(), **values}
    return AcceptanceRun.objects.create(
        key=key, connector_name="aws", region="us-east-1", target={}, scenarios=["first"], **row
    )


def store_ended_run(key: str, days: int, **values: object) -> AcceptanceRun:
    return store_run(key, status="SUCCESS", ended_at=NOW - timedelta(days=days), due_at=None, **values)


def test_ended_runs_are_kept_for_a_year_and_one_that_left_something_until_it_is_deleted() -> None:
    store_ended_run("old", 366)
    store_ended_run("leaving", 366, left=["The service a is left."])
    store_ended_run("new", 364)
    store_run("open", started_at=NOW - timedelta(days=400))

    prune(group="acceptance")

    assert {run.key for run in AcceptanceRun.objects.all()} == {"leaving", "new", "open"}


def test_a_restore_ends_open_runs_as_unknown_and_no_worker_of_the_later_state_may_write() -> None:
    ended = store_ended_run("ended", 1)
    run = store_run("open", status="CLEANING_UP", progress={"actor": 1})
    later = AcceptanceRun.objects.get(pk=run.pk)
    later.fence = 1

    state = settle_restored_state(NOW, {})

    run.refresh_from_db()
    ended.refresh_from_db()
    assert (state.acceptance_runs, ended.status) == (1, "SUCCESS")
    assert (run.status, run.get_status_display()) == ("UNKNOWN", "Unknown, restored")
    assert (run.is_over, run.due_at, list_due_runs(NOW)) == (True, None, [])
    assert "may be left" in run.left[0]
    assert run.verdicts["held"] == 0
    with pytest.raises(LeaseLost):
        RunPass(later, NOW).perform()


def test_a_run_of_a_database_that_went_back_in_time_is_not_continued() -> None:
    for _ in range(3):
        advance_epoch()
    run = store_run("open")
    InstallationEpoch.objects.update(number=1)

    advance_acceptance_run(run=run.pk)

    run.refresh_from_db()
    assert (run.status, run.failed_passes) == ("UNKNOWN", 0)
    assert AuditEntry.objects.get(action="installation.restore").after["acceptance_runs"] == 1
