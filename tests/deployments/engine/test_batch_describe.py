"""Executions that wait for ECS services of one cluster are looked at together, and only for what changed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from aws.apis.ecs import EcsClient
from deployments.engine.dispatch import ExecutionBatch, claim_due_batches, reconcile_batch
from deployments.engine.lease import LEASE_DURATION, claim_lease, wake_execution
from deployments.engine.reconcile_context import ServiceSnapshot
from deployments.engine.service_waits import get_batch_key
from deployments.journal import rate_limits
from deployments.journal.runtime import set_hook
from deployments.models import Execution, Interrupt, StageExecution
from steps.actions.context import ServiceObservation
from tests.fixtures.engine_driver import Drive

pytestmark = pytest.mark.django_db(transaction=True)


def waiting_execution(drive: Drive) -> Execution:
    """An execution that waits for a rollout in which nothing moves."""
    drive.run("1.27")
    execution = drive.start("1.28")
    drive.reconcile()
    while drive.calls(execution)[-1].operation != "UpdateService":
        drive.clock.move(1)
        drive.reconcile()
    for _ in range(4):
        advance_to_next_check(drive, execution)
        drive.reconcile()
    execution.refresh_from_db()
    assert execution.observed_state
    return execution


def advance_to_next_check(drive: Drive, execution: Execution) -> None:
    execution.refresh_from_db()
    due_at = max(execution.due_at, execution.dispatch_backoff_until or execution.due_at)
    drive.clock.moment = max(due_at, drive.clock.moment)


def count_describe_calls(drive: Drive, after: int) -> int:
    return sum(entry["operation"] == "DescribeServices" for entry in drive.sandbox.journal(after))


def test_a_service_that_looks_the_same_costs_one_call_and_no_write(drive: Drive) -> None:
    execution = waiting_execution(drive)
    fence, mark = execution.fence, drive.mark()
    advance_to_next_check(drive, execution)
    (group,) = claim_due_batches(drive.runtime)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        reconcile_batch(group, runtime=drive.runtime)
    assert count_describe_calls(drive, mark) == 1
    assert [query["sql"].split()[0] for query in queries if not query["sql"].startswith("SELECT")] == []
    execution.refresh_from_db()
    assert execution.fence == fence


def test_a_rollback_of_an_earlier_stage_is_read_in_the_region_of_that_stage(drive: Drive) -> None:
    execution = waiting_execution(drive)
    stage = execution.stages.get()
    later = StageExecution.objects.get(pk=stage.pk)
    later.pk, later.position, later.identifier = None, stage.position + 1, "later"
    later.region, later.ecs_service = "eu-west-1", "myapp"
    later.save()
    assert execution.batch_key == get_batch_key(stage)
    advance_to_next_check(drive, execution)
    mark = drive.mark()
    (group,) = claim_due_batches(drive.runtime)
    reconcile_batch(group, runtime=drive.runtime)
    regions = {entry["region"] for entry in drive.sandbox.journal(mark)}
    assert regions == {"us-east-1"}


def test_equal_clusters_of_two_regions_share_no_service() -> None:
    snapshot = ServiceSnapshot()
    now = timezone.now()
    snapshot.add("connector|us-east-1|prod", "web", ServiceObservation("web", None, now))
    before = now - timedelta(seconds=1)
    assert snapshot.pop_observation("connector|eu-west-1|prod", "web", after=before) is None
    assert snapshot.pop_observation("connector|us-east-1|prod", "web", after=before) is not None


def test_what_a_dead_worker_has_seen_is_judged_again_though_the_service_looks_the_same(drive: Drive) -> None:
    execution = waiting_execution(drive)
    advance_to_next_check(drive, execution)
    assert claim_lease(execution.pk, owner="a worker that dies now", runtime=drive.runtime)
    drive.clock.move(LEASE_DURATION.total_seconds() + 1)
    fence = Execution.objects.get(pk=execution.pk).fence
    for group in claim_due_batches(drive.runtime):
        reconcile_batch(group, runtime=drive.runtime)
    assert Execution.objects.get(pk=execution.pk).fence == fence + 1


def test_a_message_that_a_later_one_has_overtaken_asks_nothing(drive: Drive) -> None:
    execution = waiting_execution(drive)
    advance_to_next_check(drive, execution)
    (late_batch,) = claim_due_batches(drive.runtime)
    advance_to_next_check(drive, execution)
    (next_batch,) = claim_due_batches(drive.runtime)
    mark = drive.mark()
    reconcile_batch(late_batch, runtime=drive.runtime)
    assert count_describe_calls(drive, mark) == 0
    reconcile_batch(next_batch, runtime=drive.runtime)
    assert count_describe_calls(drive, mark) == 1


def test_what_a_batch_has_no_time_for_is_dispatched_again_at_once(drive: Drive) -> None:
    changed = waiting_execution(drive)
    first, second = drive.start("1.28"), drive.start("1.28")
    advance_to_next_check(drive, changed)
    drive.clock.move(15)
    Execution.objects.filter(pk=changed.pk).update(observed_state="before the change")
    token = claim_due_batches(drive.runtime)[0].token
    set_hook(lambda name: drive.clock.move(11) if name == "lease.claimed" else None)
    try:
        batch = ExecutionBatch((first.pk, second.pk, changed.pk), token)
        reconcile_batch(batch, runtime=drive.runtime)
    finally:
        set_hook(None)
    fences = Execution.objects.filter(pk__in=(first.pk, second.pk)).values_list("fence", flat=True)
    assert sorted(fences) == [0, 1]
    changed.refresh_from_db()
    assert changed.observed_state == "", "no event may replace its check now"
    again = {pk for group in claim_due_batches(drive.runtime) for pk in group.execution_ids}
    assert {second.pk, changed.pk} <= again


def test_who_is_woken_is_looked_at_before_the_next_turn(drive: Drive) -> None:
    execution = waiting_execution(drive)
    Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.ABORT)
    wake_execution(execution.pk, drive.clock.now())
    drive.reconcile()
    execution.refresh_from_db()
    assert execution.status == "ABORTED"


def test_a_rollout_in_which_nothing_moves_still_runs_out_of_time(drive: Drive) -> None:
    execution = waiting_execution(drive)
    drive.clock.moment = execution.recheck_at - timedelta(seconds=1)
    drive.reconcile()
    execution.refresh_from_db()
    fence = execution.fence
    advance_to_next_check(drive, execution)
    drive.reconcile()
    execution.refresh_from_db()
    assert execution.fence > fence


def test_a_parked_one_that_gets_no_token_stays_due_until_there_is_one(drive: Drive) -> None:
    execution = waiting_execution(drive)
    advance_to_next_check(drive, execution)
    taken_tokens = rate_limits.take_tokens(
        execution.rate_limit_key, rate_limits.SERVICE_READS, 1000, drive.clock.now()
    )
    assert taken_tokens > 0
    assert claim_due_batches(drive.runtime) == []
    drive.clock.move(0.25)
    assert [group.execution_ids for group in claim_due_batches(drive.runtime)] == [(execution.pk,)]


def test_a_shared_response_that_nobody_can_read_leaves_each_execution_to_its_own_pass(
    drive: Drive, monkeypatch: pytest.MonkeyPatch
) -> None:
    execution = waiting_execution(drive)
    advance_to_next_check(drive, execution)
    (group,) = claim_due_batches(drive.runtime)

    describe, calls = EcsClient.describe_raw_services, list[str]()

    def fail_once(client: EcsClient, cluster: str, names: Sequence[str]) -> list[dict[str, Any]]:
        calls.append(cluster)
        if len(calls) == 1:
            raise ValueError("Unknown string format: at noon")
        return describe(client, cluster, names)

    monkeypatch.setattr(EcsClient, "describe_raw_services", fail_once)
    reconcile_batch(group, runtime=drive.runtime)
    fence = execution.fence
    execution.refresh_from_db()
    assert execution.fence > fence
