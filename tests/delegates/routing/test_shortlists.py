"""Routing by the database chooses what the plain rules choose among all delegates."""

from datetime import datetime
from random import Random

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from connectors.models import Connector
from delegates.models import Delegate, DelegateInstance, DelegateTag, DelegateTask, LastServed, TaskAttempt
from delegates.models.tags import build_tags
from delegates.queries.routing_candidates import build_own_tag, build_routing_request, read_candidate_pool
from delegates.queries.shortlists import MAX_JUDGED, RoutingField
from delegates.routing.decisions import decide_route, find_preference
from delegates.task_queue import MAX_STORED, route_waiting_tasks
from rbac.models import Scope
from tests.delegates.routing.random_fleets import create_fleet, create_task
from tests.fixtures.delegates import make_task

pytestmark = pytest.mark.django_db


def compare_with_rules(tasks: list[DelegateTask], now: datetime, sparse: int) -> int:
    """Decide tasks one after the other by both, and return the number of offers."""
    field, pool, offers = RoutingField(tasks, now, sparse=sparse), read_candidate_pool(tasks, now), 0
    for task in tasks:
        request = build_routing_request(task)
        expected = decide_route(request, pool.for_task(task))
        decision = field.decide(task)
        assert decision.chosen == expected.chosen
        assert decision.impossible == expected.impossible
        if expected.chosen:
            assert find_preference(request, decision.ranked) == find_preference(request, expected.ranked)
            pool.record_assignment(expected.chosen.key)
            offers += 1
        else:
            assert decision.sentence == expected.sentence, (decision.sentence, expected.sentence)
    return offers


@pytest.mark.parametrize(("seed", "sparse"), [(0, 1), (1, 200)])
def test_random_fleets_are_routed_as_by_the_rules(
    project: Scope, other_project: Scope, seed: int, sparse: int
) -> None:
    random, now = Random(seed), timezone.now()
    create_fleet(random, [*project.ancestors_and_self(), other_project], 50, now)
    connector = Connector.objects.create(scope=project, identifier="aws", name="AWS")
    served = random.choice(list(Delegate.objects.order_by("pk")))
    LastServed.objects.create(connector=connector, delegate=served, at=now)
    tasks = [create_task(random, project, now, connector=random.choice([None, connector])) for _ in range(16)]
    assert compare_with_rules(tasks, now, sparse)


def create_equal_delegates(project: Scope, count: int, first: int = 0) -> None:
    """Create connected delegates that any task may go to."""
    now = timezone.now()
    delegates = Delegate.objects.bulk_create(
        Delegate(scope=project, name=f"d{number}") for number in range(first, first + count)
    )
    DelegateInstance.objects.bulk_create(
        DelegateInstance(delegate=delegate, key="host-1/10.0.0.1", last_heartbeat_at=now, registered_at=now)
        for delegate in delegates
    )
    DelegateTag.objects.bulk_create(row for delegate in delegates for row in build_tags(delegate))


def count_statements_and_rows(project: Scope) -> tuple[int, int]:
    """Route one task, and return the statements and the delegates in its decision."""
    task = make_task(project)
    with CaptureQueriesContext(connection) as context:
        assert route_waiting_tasks(timezone.now()).offered == 1
    rows = task.decisions.get().rows
    return len(context), len({row["delegate"] for row in rows})


def test_a_decision_costs_the_same_among_many_delegates_as_among_few(project: Scope) -> None:
    create_equal_delegates(project, 50)
    few = count_statements_and_rows(project)
    create_equal_delegates(project, 500, first=50)
    assert count_statements_and_rows(project) == few
    assert few[0] <= 24
    assert few[1] == MAX_JUDGED


def test_a_batch_is_routed_with_as_many_reads_as_one_task(project: Scope) -> None:
    create_equal_delegates(project, 50)
    reads = []
    for count in (1, 30):
        for _ in range(count):
            make_task(project)
        with CaptureQueriesContext(connection) as context:
            assert route_waiting_tasks(timezone.now()).offered == count
        reads.append(sum(query["sql"].startswith("SELECT") for query in context))
    # Whoever has an offer already is read beside those without.
    assert reads[1] <= reads[0] + 3


def test_tasks_that_one_delegate_refused_wait_with_as_many_reads_as_one(project: Scope) -> None:
    create_equal_delegates(project, 50)
    Delegate.objects.exclude(name="d7").update(admission="DISABLED")
    instance, now = DelegateInstance.objects.get(delegate__name="d7"), timezone.now()
    reads = []
    for count in (1, 30):
        tasks = [make_task(project, attempts=1) for _ in range(count)]
        TaskAttempt.objects.bulk_create(
            TaskAttempt(task=task, fence=1, instance=instance, at=now, refusal="No program") for task in tasks
        )
        route_waiting_tasks(now)
        with CaptureQueriesContext(connection) as context:
            assert route_waiting_tasks(now).offered == 0
        reads.append(len(context))
    assert reads[1] == reads[0]


def test_a_task_for_a_single_delegate_reads_no_tags_of_others(project: Scope) -> None:
    create_equal_delegates(project, 50)
    delegate = Delegate.objects.get(name="d7")
    task = make_task(project, selectors=[build_own_tag(delegate.pk)])
    with CaptureQueriesContext(connection) as context:
        route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.offered_to == delegate
    assert not [query for query in context if "delegates_delegatetag" in query["sql"]]


def test_a_stored_decision_says_that_it_leaves_delegates_out(project: Scope) -> None:
    create_equal_delegates(project, 50)
    task = make_task(project)
    route_waiting_tasks(timezone.now())
    decision = task.decisions.get()
    assert decision.sentence == "d0 ranks first of 10 or more: it is next in round-robin order."
    assert not decision.is_complete


def test_a_task_that_waits_names_the_first_delegates_and_counts_the_others(project: Scope) -> None:
    create_equal_delegates(project, 50)
    Delegate.objects.update(admission="DISABLED")
    task = make_task(project)
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.reason.startswith("Waiting for a delegate. built-in: ")
    assert task.reason.endswith("And 48 more.")
    assert len({row["delegate"] for row in task.decisions.get().rows}) <= MAX_STORED
