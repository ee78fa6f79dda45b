"""A database that was restored by other means, and that nobody told Slipway about."""

import uuid
from datetime import timedelta

import pytest
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from delegates.models import DelegateTask
from delegates.protocol.leases import acquire_tasks
from deployments.execution.operations import decide_step
from deployments.models import StepExecution
from deployments.tasks import dispatch
from guards.examinations import Result
from ops.backups.restores import require_settled_database, settle_restored_state
from ops.doctor import examine_installation
from ops.tasks import tick
from rbac.models import AuditEntry
from tests.delegates.protocol.fake_agents import offer_task, register_agent
from tests.fixtures.delegates import make_token
from tests.fixtures.engine_driver import Drive
from web import epochs
from web.epochs import advance_epoch, check_epoch, get_epoch, is_database_behind
from web.models import InstallationEpoch

NOON = timezone.now() - timedelta(hours=3)


@pytest.fixture(autouse=True)
def _forget_other_databases(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forget what Valkey knows of the database of another test."""
    cache.clear()
    monkeypatch.setattr(epochs, "_recent_memory", None)


def go_back() -> None:
    """Bring the epoch back to an earlier state, which is all that tells a restored database."""
    InstallationEpoch.objects.update(number=3, advanced_at=NOON)


@pytest.fixture
def _advanced(drive: Drive) -> None:
    for _ in range(9):
        advance_epoch()


@pytest.mark.usefixtures("_advanced")
def test_the_first_task_pauses_what_the_older_database_would_continue(drive: Drive) -> None:
    execution = drive.start("2.0")
    drive.pass_time(20)
    go_back()
    mark = drive.mark()
    dispatch()

    execution.refresh_from_db()
    step = StepExecution.objects.exclude(intervention=None).get()
    assert (execution.status, step.intervention["kind"]) == ("INTERVENTION_WAITING", "RESTORED")
    assert step.intervention["taken_at"] == NOON.isoformat()
    drive.pass_time(60, step=10)
    assert drive.effects(mark) == []
    entry = AuditEntry.objects.get(action="installation.restore")
    assert (entry.after["detected"], entry.after["executions"]) == (True, 1)
    [(name, finding)] = examine_installation(["restores"])
    assert (name, finding.result) == ("restores", Result.WARNING)
    assert "Nobody reported that: Valkey remembered a later state. 1 executions" in finding.message

    decide_step(actor=drive.deployer, execution=execution, step=step.identifier, decision="GO_ON")
    assert drive.until_over(execution).status == "SUCCESS"


@pytest.mark.usefixtures("_advanced")
def test_an_agent_gets_no_task_that_may_have_run_before(drive: Drive) -> None:
    agent = register_agent(make_token(drive.pipeline.scope))
    task = offer_task(agent)
    go_back()

    assert acquire_tasks(agent.instance, free=1) == []
    task.refresh_from_db()
    assert task.status not in DelegateTask.OPEN


@pytest.mark.usefixtures("_advanced")
def test_a_database_of_another_installation_is_noticed_too(drive: Drive) -> None:
    InstallationEpoch.objects.update(history=uuid.uuid4())
    assert is_database_behind()
    dispatch()
    assert not is_database_behind()


@pytest.mark.usefixtures("_advanced")
def test_the_tick_never_hides_that_the_database_is_behind(drive: Drive) -> None:
    go_back()
    advance_epoch()
    assert is_database_behind()


@pytest.mark.usefixtures("_advanced")
def test_without_a_memory_nothing_is_known_and_the_next_tick_remembers(drive: Drive) -> None:
    go_back()
    cache.clear()
    tick()
    assert not AuditEntry.objects.filter(action="installation.restore").exists()
    go_back()
    InstallationEpoch.objects.update(number=1)
    assert is_database_behind()


@pytest.mark.usefixtures("_advanced")
def test_a_restore_that_was_reported_is_not_noticed_again(drive: Drive) -> None:
    go_back()
    settle_restored_state(NOON, {})
    tick()
    assert AuditEntry.objects.filter(action="installation.restore").count() == 1
    before = get_epoch()
    assert before is not None
    # Valkey was away meanwhile, and remembers the history that the restore ended.
    cache.set("installation-epoch", f"{before.previous_history} 9", timeout=None)
    tick()
    assert AuditEntry.objects.filter(action="installation.restore").count() == 1
    # The state before the restore is older all the same.
    InstallationEpoch.objects.update(history=before.previous_history, previous_history=None)
    assert is_database_behind()


@pytest.mark.django_db
def test_a_task_compares_with_one_query_and_valkey_is_asked_once_a_second() -> None:
    for _ in range(9):
        advance_epoch()
    require_settled_database()
    cache.clear()
    with CaptureQueriesContext(connection) as queries:
        require_settled_database()
    assert len(queries) == 1

    # Nothing is settled on what was remembered a moment ago: Valkey is asked again.
    go_back()
    check = check_epoch("1 = 0")
    assert check is not None
    assert (check.holds, check.may_be_behind) == (False, True)
    require_settled_database()
    assert not AuditEntry.objects.filter(action="installation.restore").exists()


@pytest.mark.django_db
def test_a_new_database_beside_an_old_valkey_is_no_restored_one() -> None:
    cache.set("installation-epoch", f"{uuid.uuid4()} 900", timeout=None)
    tick()
    tick()
    assert not AuditEntry.objects.filter(action="installation.restore").exists()
    [(_, finding)] = examine_installation(["restores"])
    assert (finding.result, finding.message) == (Result.OK, "The database was not restored.")
