"""Tasks are queued, offered to delegates by their capacity, taken back, and ended when nobody takes them."""

from collections import Counter
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from connectors.models import Connector
from delegates.models import (
    AllowlistEntry,
    BlocklistEntry,
    Delegate,
    DelegateConfiguration,
    DelegateEvent,
    DelegateTask,
    LastServed,
    RoutingDecision,
    TaskAttempt,
)
from delegates.operations.tasks import abort_task, submit_task, withdraw_task
from delegates.queries.shortlists import SMALL_FLEET
from delegates.task_owners import TaskAnswer, TaskPayload, _owners, register_task_owner
from delegates.task_queue import (
    FIRST_BATCH_SIZE,
    OFFER_DURATION,
    allow_delegate,
    block_delegate,
    fill_free_place,
    route_new_task,
    route_waiting_tasks,
)
from guards.masks import EMPTY_MASK, SecretMask
from rbac.models import AuditEntry, Scope, User
from rbac.policy import NotVisible
from tests.fixtures.delegates import make_delegate, make_instance, make_task

pytestmark = pytest.mark.django_db
URL = "https://ecs.us-east-1.amazonaws.com"


class Owner:
    """Notes what it is told."""

    def __init__(self) -> None:
        self.gave_up_on: list[tuple[str, str]] = []

    def acquire(self, task: DelegateTask) -> TaskPayload | None:
        return None

    def complete(self, task: DelegateTask, reply: TaskAnswer) -> None: ...
    def requeue(self, task: DelegateTask, refusal: str = "") -> None: ...
    def record_lost(self, task: DelegateTask) -> None: ...
    def keep_hidden_lines(self, task: DelegateTask, lines: Any) -> None: ...
    def publish_log(self, task: DelegateTask) -> None: ...

    def get_mask(self, task: DelegateTask) -> SecretMask:
        return EMPTY_MASK

    def record_unanswered(self, task: DelegateTask) -> None:
        self.gave_up_on.append((task.owner_ref, task.status))


@pytest.fixture
def owner() -> Iterator[Owner]:
    task_owner = Owner()
    register_task_owner("tests", task_owner)
    yield task_owner
    del _owners["tests"]


def create_delegates(project: Scope, *capacities: int) -> list[Delegate]:
    """Create delegates d0, d1 and so on, each with one connected instance."""
    delegates = []
    for number, capacity in enumerate(capacities or (10, 20, 40)):
        delegate = make_delegate(project, f"d{number}")
        make_instance(delegate, capacity=capacity)
        delegates.append(delegate)
    return delegates


def submit_check(project: Scope, **fields: Any) -> DelegateTask:
    """Submit a connectivity check and let its transaction be committed."""
    return submit_task(
        scope=project, kind="check", title="Check", payload={"url": URL}, criterion=URL, **fields
    )


def take_task(task: DelegateTask) -> None:
    """Let the delegate that has the offer take it."""
    task.refresh_from_db()
    assert task.offered_to is not None
    DelegateTask.objects.filter(pk=task.pk).update(
        status="STARTED", instance=task.offered_to.instances.get(), offered_until=None
    )


def test_a_submitted_task_is_offered_to_the_best_delegate_with_the_commit(
    project: Scope, django_capture_on_commit_callbacks: Any
) -> None:
    create_delegates(project)
    with django_capture_on_commit_callbacks(execute=True):
        task = submit_check(project, selectors=[" d1", "d1", ""], selectors_from="STEP")
    task.refresh_from_db()
    assert (task.status, task.selectors) == ("QUEUED", ["d1"])
    assert task.offered_to == Delegate.objects.get(name="d1")
    assert task.offered_until is not None
    assert task.offered_until - task.queued_at >= OFFER_DURATION
    assert task.reason == "d1 is the only eligible delegate."
    decision = task.decisions.get()
    assert decision.chosen == task.offered_to
    assert {row["name"] for row in decision.rows if row["verdict"] == "FAIL"} == {"d0", "d2", "built-in"}


def test_a_configuration_limits_its_delegates_to_kinds_of_tasks(project: Scope) -> None:
    (delegate,) = create_delegates(project, 10)
    delegate.configuration = DelegateConfiguration.objects.create(
        scope=project, identifier="scripts", name="Scripts", task_kinds=["shell"]
    )
    delegate.save()
    call, script = make_task(project, kind="aws"), make_task(project, kind="shell")
    check = make_task(project, kind="check")
    route_waiting_tasks(timezone.now())
    for task in (call, script, check):
        task.refresh_from_db()
    assert (call.offered_to, script.offered_to, check.offered_to) == (None, delegate, delegate)
    assert "d0: Its configuration is not for tasks of kind aws." in call.reason


def test_a_hundred_tasks_spread_by_capacity_and_the_rest_queue(project: Scope) -> None:
    create_delegates(project, 10, 20, 40)
    for _ in range(100):
        make_task(project)
    now = timezone.now()
    assert route_waiting_tasks(now).offered == 70
    offers = Counter(DelegateTask.objects.values_list("offered_to__name", flat=True))
    assert offers == {"d0": 10, "d1": 20, "d2": 40, None: 30}
    assert route_waiting_tasks(now).offered == 0
    unassigned_task = DelegateTask.objects.filter(offered_to=None).first()
    assert unassigned_task is not None
    assert unassigned_task.reason == (
        "Waiting for a delegate. built-in: It has sent no heartbeat. d0: It has 10 of 10 tasks. "
        "d1: It has 20 of 20 tasks. And 1 more."
    )


def test_few_tasks_spread_evenly_over_equal_delegates(project: Scope) -> None:
    create_delegates(project, 10, 10, 10)
    for _ in range(9):
        make_task(project)
    route_waiting_tasks(timezone.now())
    offers = Counter(DelegateTask.objects.values_list("offered_to__name", flat=True))
    assert offers == {"d0": 3, "d1": 3, "d2": 3}


def test_the_oldest_waiting_task_comes_first(project: Scope) -> None:
    create_delegates(project, 1)
    now = timezone.now()
    new_task = make_task(project, queued_at=now)
    old_task = make_task(project, queued_at=now - timedelta(seconds=9))
    route_waiting_tasks(now)
    new_task.refresh_from_db()
    old_task.refresh_from_db()
    assert (old_task.offered_to is not None, new_task.offered_to) == (True, None)


def test_a_new_task_does_not_pass_those_that_wait(
    project: Scope, django_capture_on_commit_callbacks: Any
) -> None:
    create_delegates(project, 1)
    old_task = make_task(project, queued_at=timezone.now() - timedelta(seconds=9))
    with django_capture_on_commit_callbacks(execute=True):
        new_task = submit_check(project)
    new_task.refresh_from_db()
    old_task.refresh_from_db()
    assert (old_task.offered_to is not None, new_task.offered_to) == (True, None)


def test_what_runs_counts_against_the_capacity(project: Scope) -> None:
    create_delegates(project, 1)
    now = timezone.now()
    first, second = make_task(project, queued_at=now - timedelta(seconds=1)), make_task(project)
    route_waiting_tasks(now)
    take_task(first)
    assert route_waiting_tasks(now).offered == 0
    DelegateTask.objects.filter(pk=first.pk).update(status="SUCCEEDED")
    assert route_waiting_tasks(now).offered == 1
    second.refresh_from_db()
    assert second.offered_to is not None


def test_an_offer_that_nobody_took_goes_to_another(project: Scope) -> None:
    create_delegates(project, 10, 10, 10)
    task = make_task(project)
    now, offered_names = timezone.now(), []
    for _ in range(4):
        route_waiting_tasks(now)
        task.refresh_from_db()
        assert task.offered_to is not None
        offered_names.append(task.offered_to.name)
        assert route_waiting_tasks(now + OFFER_DURATION / 2).offered == 0
        now += OFFER_DURATION
    assert sorted(offered_names[:3]) == ["d0", "d1", "d2"]
    assert task.decisions.count() == 4


def test_a_decision_is_written_only_when_it_changed(project: Scope) -> None:
    create_delegates(project, 0)
    task = make_task(project)
    now = timezone.now()
    for second in range(3):
        route_waiting_tasks(now + timedelta(seconds=second))
    assert task.decisions.get().chosen is None
    Delegate.objects.filter(name="d0").update(admission="DISABLED")
    route_waiting_tasks(now + timedelta(seconds=4))
    assert [decision.number for decision in task.decisions.order_by("number")] == [1, 2]
    task.refresh_from_db()
    assert "d0: It is disabled." in task.reason


def test_the_same_delegate_again_is_no_news(project: Scope) -> None:
    create_delegates(project, 1)
    task = make_task(project)
    now = timezone.now()
    assert route_waiting_tasks(now).offered == 1
    assert route_waiting_tasks(now + OFFER_DURATION).offered == 1
    assert task.decisions.count() == 1


def test_many_tasks_are_routed_in_as_many_reads_as_few(
    project: Scope, django_assert_num_queries: Any
) -> None:
    create_delegates(project, 0, 0, 0)
    now = timezone.now()
    for count in (1, 30):
        for _ in range(count):
            make_task(project)
        route_waiting_tasks(now)
        with django_assert_num_queries(10):
            route_waiting_tasks(now)


def test_tags_that_nobody_has_end_the_task_at_once_and_its_owner_hears_of_it(
    project: Scope, owner: Owner, django_capture_on_commit_callbacks: Any
) -> None:
    create_delegates(project)
    with django_capture_on_commit_callbacks(execute=True):
        task = submit_check(project, selectors=["gpu"], owner="tests", owner_ref="7")
    task.refresh_from_db()
    assert (task.status, task.finished_at is not None) == ("FAILED", True)
    assert "has the tag gpu" in task.reason
    assert task.decisions.get().sentence == task.reason
    assert owner.gave_up_on == [("7", "FAILED")]


@pytest.mark.parametrize("status", ["REGISTERED", "GONE"])
def test_a_tag_that_only_an_agent_said_is_waited_for_while_it_is_away(project: Scope, status: str) -> None:
    delegate = make_delegate(project)
    heartbeat_at = timezone.now() - timedelta(hours=1)
    make_instance(delegate, heartbeat_at=heartbeat_at, tags=["gpu"], status=status)
    task = make_task(project, selectors=["gpu"])
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.status == "QUEUED"
    assert "eu: Last heartbeat at" in task.reason


def test_the_tags_of_a_dead_instance_do_not_linger(project: Scope) -> None:
    delegate = make_delegate(project)
    make_instance(delegate, "old", heartbeat_at=timezone.now() - timedelta(hours=1), tags=["gpu"])
    make_instance(delegate, "new", tags=["cpu"])
    task = make_task(project, selectors=["gpu"])
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.status == "FAILED"


def test_a_task_that_nobody_took_expires_at_its_deadline(project: Scope, owner: Owner) -> None:
    now = timezone.now()
    task = make_task(project, owner="tests", owner_ref="8", deadline=now + timedelta(seconds=1))
    assert route_waiting_tasks(now).expired == 0
    assert route_waiting_tasks(now + timedelta(seconds=1)).expired == 1
    task.refresh_from_db()
    assert task.status == "EXPIRED"
    assert task.reason == ("No delegate accepted the task in time. built-in: It has sent no heartbeat.")
    assert owner.gave_up_on == [("8", "EXPIRED")]


def test_a_queued_task_can_be_taken_back_and_a_running_one_cannot(project: Scope, owner: Owner) -> None:
    create_delegates(project)
    first, second = make_task(project, owner="tests"), make_task(project, owner="tests")
    route_waiting_tasks(timezone.now())
    take_task(second)
    assert withdraw_task(first, "The step was skipped.")
    assert not withdraw_task(second, "The step was skipped.")
    assert (first.status, first.reason) == ("ABORTED", "The step was skipped.")
    assert not withdraw_task(first, "Again")
    assert owner.gave_up_on == []


def test_a_person_ends_a_queued_task(project: Scope, admin: User, owner: Owner) -> None:
    task = make_task(project, owner="tests", owner_ref="9")
    abort_task(actor=admin, task=task)
    assert (task.status, task.reason) == ("ABORTED", "Aborted by admin.")
    assert owner.gave_up_on == [("9", "ABORTED")]
    assert AuditEntry.objects.get(action="delegate_task.abort").actor == admin


def test_a_person_asks_for_the_end_of_a_running_task_once(project: Scope, admin: User) -> None:
    create_delegates(project)
    task = make_task(project)
    route_waiting_tasks(timezone.now())
    take_task(task)
    for _ in range(2):
        abort_task(actor=admin, task=task)
    assert (task.status, task.abort_requested) == ("STARTED", True)
    assert AuditEntry.objects.filter(action="delegate_task.abort").count() == 1


def test_who_may_not_edit_delegates_ends_no_task(project: Scope, stranger: User) -> None:
    task = make_task(project)
    with pytest.raises(NotVisible):
        abort_task(actor=stranger, task=task)
    task.refresh_from_db()
    assert task.status == "QUEUED"


def test_success_is_remembered_for_six_hours_and_renewed(project: Scope) -> None:
    delegate = make_delegate(project)
    allow_delegate(delegate, URL)
    first = AllowlistEntry.objects.get()
    assert first.expires_at - first.validated_at == timedelta(hours=6)
    allow_delegate(delegate, URL)
    assert AllowlistEntry.objects.get().expires_at > first.expires_at


def test_what_reached_a_url_is_tried_first_for_it(project: Scope) -> None:
    _, second, _ = create_delegates(project, 10, 10, 10)
    allow_delegate(second, URL)
    task, other = make_task(project), make_task(project, criterion="https://example.com")
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    other.refresh_from_db()
    assert (task.offered_to, task.reason) == (second, f"d1 ranks first of 3: it reached {URL} recently.")
    assert other.offered_to != second


def test_what_lacks_a_capability_is_left_out_for_five_minutes(project: Scope) -> None:
    (delegate,) = create_delegates(project, 10)
    allow_delegate(delegate, URL)
    block_delegate(delegate, URL, "No address for the name.")
    task, other = make_task(project), make_task(project, criterion="https://example.com")
    now = timezone.now()
    route_waiting_tasks(now)
    task.refresh_from_db()
    other.refresh_from_db()
    assert task.offered_to is None
    assert f"d0: It could not reach {URL}: No address for the name." in task.reason
    assert other.offered_to == delegate
    assert DelegateEvent.objects.get().kind == "BLOCKED"
    now += timedelta(minutes=5)
    delegate.instances.update(last_heartbeat_at=now)
    route_waiting_tasks(now)
    task.refresh_from_db()
    assert task.offered_to == delegate


@pytest.mark.parametrize("others", [0, SMALL_FLEET])
def test_a_task_that_a_delegate_refused_holds_back_no_younger_one(project: Scope, others: int) -> None:
    (delegate,) = create_delegates(project, 10)
    for number in range(others):
        make_delegate(project, f"away{number}")
    now = timezone.now()
    refused = make_task(project, attempts=1)
    TaskAttempt.objects.create(
        task=refused, fence=1, instance=delegate.instances.get(), at=now, refusal="No program"
    )
    younger = make_task(project)
    route_waiting_tasks(now)
    refused.refresh_from_db()
    younger.refresh_from_db()
    assert refused.offered_to is None
    assert "It could not begin this task: No program" in refused.reason
    assert younger.offered_to == delegate


def test_success_ends_being_blocked(project: Scope) -> None:
    delegate = make_delegate(project)
    block_delegate(delegate, URL, "No address")
    allow_delegate(delegate, URL)
    assert not BlocklistEntry.objects.exists()


def test_the_delegate_that_served_the_connector_last_comes_first(project: Scope) -> None:
    connector = Connector.objects.create(scope=project, identifier="aws", name="AWS")
    _, second, _ = create_delegates(project, 10, 10, 10)
    allow_delegate(second, "", connector)
    task = make_task(project, connector=connector)
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert task.offered_to == second
    assert LastServed.objects.get().delegate == second
    assert RoutingDecision.objects.get().sentence.endswith("it served this connector last.")


def test_a_free_place_is_filled_at_once_from_the_front_of_the_queue(project: Scope) -> None:
    (delegate,) = create_delegates(project, 1)
    now = timezone.now()
    tasks = [
        make_task(project, queued_at=now + timedelta(milliseconds=n)) for n in range(FIRST_BATCH_SIZE + 2)
    ]
    assert fill_free_place(delegate.pk, now + timedelta(seconds=1)).offered == 1
    tasks[0].refresh_from_db()
    assert tasks[0].offered_to is not None
    reasons = DelegateTask.objects.exclude(reason="").values_list("pk", flat=True)
    assert set(reasons) == {task.pk for task in tasks[:FIRST_BATCH_SIZE]}


def test_the_end_of_a_task_routes_nothing_where_its_delegate_had_room_before(project: Scope) -> None:
    """Whatever waits does not wait for it, and would be routed in vain after each end."""
    (delegate,) = create_delegates(project, 3)
    task = make_task(project)
    for started, is_routed in ((0, False), (1, False), (2, True)):
        if started:
            make_task(project, status="STARTED", instance=delegate.instances.get(), started_at=timezone.now())
        offered = fill_free_place(delegate.pk, timezone.now()).offered
        assert (offered == 1) is is_routed, started
    task.refresh_from_db()
    assert task.offered_to == delegate


def test_a_new_task_is_routed_alone_while_many_wait(project: Scope) -> None:
    create_delegates(project, 3)
    now = timezone.now()
    tasks = [
        make_task(project, queued_at=now + timedelta(milliseconds=n)) for n in range(FIRST_BATCH_SIZE + 1)
    ]
    assert route_new_task(tasks[-1].pk, now + timedelta(seconds=1)).offered == 1
    assert list(DelegateTask.objects.exclude(reason="")) == [tasks[-1]]
