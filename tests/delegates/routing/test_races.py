"""What two processes that route in the same moment do, and what many tasks on few delegates come to."""

from collections import Counter
from datetime import timedelta

import pytest
from django.utils import timezone

from delegates.models import Delegate, DelegateTask, RoutingDecision
from delegates.operations.tasks import withdraw_task
from delegates.task_queue import OFFER_DURATION, route_waiting_tasks
from rbac.models import Scope
from tests.fixtures.delegates import make_delegate, make_instance, make_task
from tests.fixtures.threads import run_concurrently, split


def create_delegates(project: Scope, *capacities: int) -> dict[int, Delegate]:
    delegates_by_id = {}
    for number, capacity in enumerate(capacities):
        delegate = make_delegate(project, f"d{number}")
        make_instance(delegate, capacity=capacity)
        delegates_by_id[delegate.pk] = delegate
    return delegates_by_id


@pytest.mark.django_db(transaction=True)
def test_a_task_is_offered_once_however_many_route(project: Scope) -> None:
    create_delegates(project, 5, 5)
    for _ in range(20):
        make_task(project)
    now = timezone.now()
    passes, errors = split(run_concurrently(*[lambda: route_waiting_tasks(now)] * 4))
    assert errors == []
    assert sum(routing_pass.offered for routing_pass in passes) == 10
    assert DelegateTask.objects.exclude(offered_to=None).count() == 10
    # And each decision is kept once, also of those that go on waiting.
    assert RoutingDecision.objects.exclude(chosen=None).count() == 10
    assert RoutingDecision.objects.count() == 20


@pytest.mark.django_db(transaction=True)
def test_a_task_is_either_taken_back_or_offered(project: Scope) -> None:
    create_delegates(project, 5)
    task = make_task(project)
    now = timezone.now()
    outcomes, errors = split(
        run_concurrently(
            lambda: withdraw_task(task, "Not needed."), lambda: bool(route_waiting_tasks(now).offered)
        )
    )
    assert errors == []
    assert outcomes[0] is True
    task.refresh_from_db()
    assert (task.status, task.offered_to) == ("ABORTED", None)


@pytest.mark.django_db
def test_a_thousand_tasks_over_three_delegates_end_fairly_and_in_order(project: Scope) -> None:
    """Delegates of equal size that take a tenth of a second for each task: none is idle, none is spared."""
    delegates_by_id = create_delegates(project, 10, 10, 10)
    start_time = timezone.now()
    tasks = [make_task(project, queued_at=start_time + timedelta(milliseconds=n)) for n in range(1000)]
    finished_tasks: list[DelegateTask] = []
    served: Counter[int] = Counter()
    now = start_time + timedelta(seconds=2)
    while len(finished_tasks) < len(tasks):
        assert route_waiting_tasks(now).offered == min(30, len(tasks) - len(finished_tasks))
        offered_tasks = list(DelegateTask.objects.filter(status="QUEUED", offered_until__gt=now))
        by_delegate = Counter(task.offered_to_id for task in offered_tasks if task.offered_to_id)
        assert max(by_delegate.values()) - min(by_delegate[pk] for pk in delegates_by_id) <= 1
        assert max(by_delegate.values()) <= 10
        served.update(by_delegate)
        DelegateTask.objects.filter(pk__in=[task.pk for task in offered_tasks]).update(status="SUCCEEDED")
        finished_tasks += sorted(offered_tasks, key=lambda task: task.queued_at)
        now += timedelta(seconds=0.1)
    assert [task.pk for task in finished_tasks] == [task.pk for task in tasks]
    assert max(served.values()) - min(served.values()) <= 1
    assert now - start_time < OFFER_DURATION * 2
