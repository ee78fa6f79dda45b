"""The timeline of an execution: rows on one axis, a table with the same, links to the lines of the log."""

import re
from datetime import datetime, timedelta

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from deployments.execution.timelines import Timeline, TimelineRow, build_timeline
from deployments.log import NewLogLine, store_lines
from deployments.log.lines import LineOrigin
from deployments.models import (
    Approval,
    ApprovalDecision,
    AwsCall,
    AwsEvent,
    Execution,
    Interrupt,
    StepExecution,
)
from rbac.models import Scope, User
from steps.states import CallState, Status
from tests.api.sample_project import make_world
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
MOST_QUERIES = 30


@pytest.fixture
def execution(project: Scope, admin: User) -> Execution:
    """An execution that has run for ten minutes, with two lines of log a minute."""
    execution = make_world(project, admin, admin).execution
    Approval.objects.all().delete()
    start = timezone.now() - timedelta(minutes=10)
    Execution.objects.filter(pk=execution.pk).update(
        created_at=start, started_at=start + timedelta(seconds=5), status=Status.RUNNING
    )
    execution.refresh_from_db()
    steps = list(execution.stages.get().steps.order_by("section", "position"))
    StepExecution.objects.filter(pk=steps[0].pk).update(
        started_at=start + timedelta(seconds=6), status=Status.RUNNING
    )
    store_lines(
        execution.pk,
        [
            NewLogLine(
                start + timedelta(seconds=30 * n), steps[0].pk, steps[0].identifier, "", "info", f"line {n}"
            )
            for n in range(1, 20)
        ],
    )
    execution.refresh_from_db()
    return execution


@pytest.fixture
def client(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def get_step(execution: Execution) -> StepExecution:
    return execution.stages.get().steps.order_by("section", "position")[0]


def read_page(client: Client, execution: Execution) -> str:
    response = client.get(reverse("execution-timeline", args=[execution.pk]))
    assert response.status_code == 200
    return response.content.decode()


def get_timeline(execution: Execution) -> Timeline:
    return build_timeline(execution, timezone.now())


def get_row(execution: Execution, title: str) -> TimelineRow:
    return next(row for row in get_timeline(execution).rows if row.title == title)


def add_events(execution: Execution, count: int, start: datetime, seconds: float) -> None:
    AwsEvent.objects.bulk_create(
        AwsEvent(
            execution=execution,
            event_id=f"e{start:%H%M%S}{number}",
            ecs_service="arn",
            at=start + timedelta(seconds=number * seconds),
            message=f"(service myapp) has started 1 tasks: {number}",
        )
        for number in range(count)
    )


def test_steps_have_bars_that_lead_to_their_line_of_the_log(execution: Execution, client: Client) -> None:
    step = get_step(execution)
    row = get_row(execution, step.name)
    (bar,) = row.bars
    assert (bar.status, bar.end, bar.line_query) == (
        Status.RUNNING,
        None,
        f"?step={step.identifier}&line=1#L1",
    )
    page = read_page(client, execution)
    address = reverse("execution", args=[execution.pk])
    assert f'href="{address}?step={step.identifier}&amp;line=1#L1"' in page
    assert client.get(f"{address}?step={step.identifier}&line=1").status_code == 200
    assert f"timeline:{execution.pk}" in page, "it is live"
    assert reverse("execution-timeline", args=[execution.pk]) in client.get(address).content.decode()


def test_attempts_retries_and_decisions_have_their_places(execution: Execution, admin: User) -> None:
    step, start = get_step(execution), execution.created_at
    StepExecution.objects.filter(pk=step.pk).update(attempt=2)
    action = step.actions.order_by("position")[0]
    for attempt, minute in ((1, 1), (1, 2), (2, 5)):
        moment = start + timedelta(minutes=minute)
        AwsCall.objects.create(
            execution=execution,
            step=step,
            action=action,
            attempt=attempt,
            phase="start",
            number=minute,
            service="ecs",
            operation="DescribeServices",
            is_write=False,
            params_hash="",
            parameters="{}",
            state=CallState.ANSWERED,
            planned_at=moment,
            answered_at=moment + timedelta(seconds=9),
        )
    interrupt = Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.RETRY, by=admin)
    Interrupt.objects.filter(pk=interrupt.pk).update(at=start + timedelta(minutes=4))
    first, second = get_row(execution, step.name).bars
    assert (first.text, first.tone) == ("Attempt 1 of 2", "failed")
    assert (first.start, first.end) == (
        start + timedelta(minutes=1),
        start + timedelta(minutes=2, seconds=9),
    )
    assert (second.text, second.start) == ("Attempt 2 of 2: Running", start + timedelta(minutes=5))
    assert second.line is not None
    assert second.line.number == 10
    (retry,) = get_row(execution, "Retries").marks
    assert retry.start == second.start
    (decision,) = get_row(execution, "Approvals and decisions").marks
    assert decision.text == f"Retry by {admin}"


def test_an_approval_of_hours_does_not_squeeze_the_rest(execution: Execution, admin: User) -> None:
    start = execution.created_at - timedelta(hours=9)
    Execution.objects.filter(pk=execution.pk).update(created_at=start, started_at=start)
    execution.refresh_from_db()
    approval = Approval.objects.create(
        execution=execution,
        step=get_step(execution),
        attempt=1,
        status=Approval.Status.APPROVED,
        requested_at=start + timedelta(seconds=30),
        ended_at=start + timedelta(hours=9),
        expires_at=start + timedelta(days=1),
    )
    ApprovalDecision.objects.create(
        approval=approval, by=admin, by_name="mona", verdict="APPROVE", plan_hash="", at=approval.ended_at
    )
    add_events(execution, 20, start + timedelta(hours=9), 20)
    timeline = get_timeline(execution)
    (cut,) = timeline.axis.cuts
    assert cut.width < 20
    row = get_row(execution, "Approvals and decisions")
    assert row.bars[0].text.endswith("Approved")
    assert row.marks[0].text.startswith("Approve by mona")
    assert timeline.time_style == "full"


def test_thousands_of_events_are_condensed(execution: Execution, client: Client) -> None:
    add_events(execution, 4_000, execution.created_at + timedelta(minutes=1), 0.1)
    marks = get_row(execution, "ECS events").marks
    assert len(marks) < 100
    assert sum(mark.count for mark in marks) == 4_000
    page = read_page(client, execution)
    assert len(page) < 200_000
    assert "from here on, the first: (service myapp) has started 1 tasks: 0" in page


def test_changes_of_alarms_come_from_the_log_of_the_verification(execution: Execution) -> None:
    step = get_step(execution)
    StepExecution.objects.filter(pk=step.pk).update(type="Verify")
    at = execution.created_at + timedelta(minutes=3)
    for text, level in (("Alarm high: OK", "info"), ("Alarm high: ALARM", "error"), ("Alarm is", "info")):
        store_lines(execution.pk, [NewLogLine(at, step.pk, step.identifier, "", level, text)])
        at += timedelta(minutes=1)
    execution.refresh_from_db()
    marks = get_row(execution, "Alarms").marks
    assert [(mark.kind, mark.text) for mark in marks] == [
        ("alarm-calm", "Alarm high: OK"),
        ("alarm", "Alarm high: ALARM"),
    ]
    assert [mark.line.number for mark in marks if mark.line] == [20, 21]


def test_stages_and_traffic_of_a_deployment_by_ecs_come_from_its_log(execution: Execution) -> None:
    step = get_step(execution)
    StepExecution.objects.filter(pk=step.pk).update(type="EcsNativeDeploy")
    texts = (
        "Lifecycle stage SCALE_UP: new tasks start",
        "Lifecycle stage PRODUCTION_TRAFFIC_SHIFT: production traffic shifts to the new revision",
        "Production traffic: 10 % to the new revision",
        "Production traffic: everything",
    )
    times = [execution.created_at + timedelta(minutes=minute) for minute in range(3, 7)]
    for at, text in zip(times, texts, strict=True):
        store_lines(execution.pk, [NewLogLine(at, step.pk, step.identifier, "", "info", text)])
    fake = NewLogLine(times[-1], step.pk, step.identifier, "", "info", texts[0], LineOrigin.CONTAINER)
    store_lines(execution.pk, [fake])
    execution.refresh_from_db()
    row = get_row(execution, "Lifecycle stages")
    assert [(bar.text, bar.start, bar.end, bar.status) for bar in row.bars] == [
        ("SCALE_UP", times[0], times[1], Status.SUCCESS),
        ("PRODUCTION_TRAFFIC_SHIFT", times[1], None, Status.RUNNING),
    ], "and none that a container only claims"
    assert [(mark.kind, mark.text) for mark in row.marks] == [("traffic", texts[2])]
    assert [bar.line.number for bar in row.bars if bar.line] == [20, 21]


def test_texts_from_aws_stay_texts(execution: Execution, client: Client) -> None:
    AwsEvent.objects.create(
        execution=execution,
        event_id="x",
        ecs_service="arn",
        at=execution.created_at + timedelta(minutes=2),
        message="<script>alert(1)</script>",
    )
    page = read_page(client, execution)
    assert "<script>alert" not in page
    assert "&lt;script&gt;alert" in page


def test_the_number_of_queries_does_not_grow(execution: Execution, client: Client) -> None:
    counts = []
    for _ in range(2):
        add_events(execution, 300, execution.created_at + timedelta(minutes=len(counts)), 1)
        Interrupt.objects.create(execution=execution, kind=Interrupt.Kind.RETRY)
        read_page(client, execution)
        with CaptureQueriesContext(connection) as queries:
            read_page(client, execution)
        counts.append(len(queries))
    assert counts[0] == counts[1] < MOST_QUERIES


def test_an_execution_that_has_not_begun_and_one_that_ended_have_a_live_timeline(
    execution: Execution, client: Client
) -> None:
    StepExecution.objects.update(started_at=None, status=Status.QUEUED)
    Execution.objects.update(started_at=None, status=Status.QUEUED)
    page = read_page(client, execution)
    assert "Queued" in page
    assert re.search(r"\d+ steps? without a row", page)
    Execution.objects.update(status=Status.ABORTED, ended_at=timezone.now(), due_at=None)
    # A rollback can be asked for after the end.
    assert f'data-topics="timeline:{execution.pk}"' in read_page(client, execution)


def test_strangers_do_not_see_it(execution: Execution) -> None:
    client = Client()
    client.force_login(make_person("stranger"))
    assert client.get(reverse("execution-timeline", args=[execution.pk])).status_code == 404
