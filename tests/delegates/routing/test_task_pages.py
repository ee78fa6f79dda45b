"""What people and programs see of delegate tasks, and why each went where it went."""

import json
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from delegates.models import DelegateTask, LateAnswer, TaskLogChunk
from delegates.queries.routing_candidates import build_own_tag
from delegates.task_queue import route_waiting_tasks
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate, make_instance, make_task

pytestmark = pytest.mark.django_db
Call = Callable[[User], APIClient]
SECRET = "swordfish-4711"


def read_page(person: User, path: str) -> str:
    client = Client()
    client.force_login(person)
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def completed_task(project: Scope) -> DelegateTask:
    """A task that a delegate took, with lines, secrets and a late answer."""
    delegate = make_delegate(project, "eu", tags=["eu"])
    instance = make_instance(delegate)
    payload = json.dumps({"password": SECRET})
    task = make_task(project, selectors=["eu"], selectors_from="STEP", payload=payload, result=SECRET)
    route_waiting_tasks(timezone.now())
    DelegateTask.objects.filter(pk=task.pk).update(
        status="STARTED", instance=instance, instance_name="eu on host-1", offered_until=None, fence=2
    )
    lines = [{"t": 1000 * number, "level": "info", "text": f"<b>line {number}\x07"} for number in range(3)]
    TaskLogChunk.objects.create(task=task, sequence=0, count=2, lines=json.dumps(lines[:2]))
    TaskLogChunk.objects.create(task=task, sequence=2, count=1, lines=json.dumps(lines[2:]))
    DelegateTask.objects.filter(pk=task.pk).update(next_sequence=3)
    LateAnswer.objects.create(task=task, instance=instance, fence=1, at=timezone.now(), body=SECRET)
    task.refresh_from_db()
    return task


def test_the_page_of_a_task_says_who_has_it_and_why_but_not_what_it_carries(
    project: Scope, viewer: User
) -> None:
    task = completed_task(project)
    text = read_page(viewer, f"/delegates/tasks/{task.pk}/")
    assert "eu is the only eligible delegate." in text
    assert "Chosen" in text
    assert "It lacks the tag eu. Add the tag eu." in text
    assert "eu on host-1" in text
    assert "</svg>Running</span>" in text
    assert "with fencing token 1" in text
    assert "&lt;b&gt;line 2\ufffd" in text
    assert SECRET not in text


def test_a_line_of_a_task_has_no_colors_visible_marks_and_its_level_as_a_word(
    project: Scope, viewer: User
) -> None:
    task = make_task(project)
    lines = [
        {"t": 1000, "level": "info", "text": "\x1b[32mgreen\x1b[0m evil\u202etxt"},
        {"t": 2000, "level": "error", "text": "It broke"},
    ]
    TaskLogChunk.objects.create(task=task, sequence=0, count=2, lines=json.dumps(lines))
    DelegateTask.objects.filter(pk=task.pk).update(next_sequence=2)
    text = read_page(viewer, f"/delegates/tasks/{task.pk}/")
    assert '<li value="1">green evil⟨U+202E⟩txt</li>' in text
    assert '<li value="2" class="tone-failed"><strong>Error:</strong> It broke</li>' in text


def test_a_task_for_one_delegate_names_it_and_no_tag_that_nobody_can_add(
    project: Scope, viewer: User
) -> None:
    delegate = make_delegate(project, "eu")
    make_instance(delegate)
    make_instance(make_delegate(project, "us"))
    task = make_task(project, selectors=[build_own_tag(delegate.pk)])
    route_waiting_tasks(timezone.now())
    for path in (f"/delegates/tasks/{task.pk}/", f"/delegates/tasks/{task.pk}/delegates/"):
        text = read_page(viewer, path)
        assert "The task is for another delegate only. No tag changes this." in text
        assert f"delegate {delegate.pk}" not in text
    assert "eu</a> only" in read_page(viewer, f"/delegates/tasks/{task.pk}/")
    delegate.delete()
    waiting = make_task(project, selectors=task.selectors)
    route_waiting_tasks(timezone.now())
    text = read_page(viewer, f"/delegates/tasks/{waiting.pk}/")
    assert "The delegate that this task is for was deleted, archived or rejected." in text
    assert "One delegate only" in text


def test_a_queued_task_shows_its_place_and_what_would_help(project: Scope, viewer: User) -> None:
    delegate = make_delegate(project, "eu", admission="PENDING_APPROVAL")
    make_instance(delegate)
    now = timezone.now()
    make_task(project, queued_at=now - timedelta(seconds=9))
    task = make_task(project, queued_at=now)
    route_waiting_tasks(now)
    text = read_page(viewer, f"/delegates/tasks/{task.pk}/")
    assert "Position 2 in the queue" in text
    assert "Why no delegate yet?" in text
    assert "It is waiting for approval. Approve it." in text
    assert f"delegate-task:{task.pk} delegate-tasks:{project.pk}" in text
    delegate.admission = "ENABLED"
    delegate.save()
    assert "Next choice" in read_page(viewer, f"/delegates/tasks/{task.pk}/")


def test_delegates_that_are_out_of_reach_are_shown_only_to_those_who_may_see_them(
    project: Scope, other_project: Scope, viewer: User, admin: User, call: Call
) -> None:
    make_delegate(other_project, "hidden-one")
    task = make_task(project)
    route_waiting_tasks(timezone.now())
    for person, is_visible in ((viewer, False), (admin, True)):
        assert ("hidden-one" in read_page(person, f"/delegates/tasks/{task.pk}/")) is is_visible
        decisions = call(person).get(f"/api/v1/delegate-tasks/{task.pk}/decisions").json()
        assert ("hidden-one" in json.dumps(decisions)) is is_visible


def test_the_list_can_be_narrowed_to_a_delegate_and_a_status(project: Scope, viewer: User) -> None:
    task = completed_task(project)
    make_task(project, title="Another one", status="SUCCEEDED", finished_at=timezone.now())
    assert "Another one" in read_page(viewer, "/delegates/tasks/")
    filtered_page = read_page(viewer, f"/delegates/tasks/?delegate={task.instance.delegate_id}")  # type: ignore[union-attr]
    assert task.title in filtered_page
    assert "Another one" not in filtered_page
    assert "Another one" not in read_page(viewer, "/delegates/tasks/?status=running")
    assert "No matching delegate tasks" in read_page(viewer, "/delegates/tasks/?status=aborted")


def test_work_in_the_background_can_be_left_out_of_the_list(project: Scope, viewer: User, call: Call) -> None:
    make_task(project, title="Update service")
    for owner in ("event-queue", "sync", "drift"):
        make_task(project, title=f"Work of {owner}", owner=owner, owner_ref="1")
    page = read_page(viewer, "/delegates/tasks/")
    assert "Update service" in page
    assert page.count("Work of ") == 3
    page = read_page(viewer, "/delegates/tasks/?background=hide")
    assert "Update service" in page
    assert "Work of " not in page
    client = call(viewer)
    titles = [
        task["title"] for task in client.get("/api/v1/delegate-tasks?background=false").json()["results"]
    ]
    assert titles == ["Update service"]
    assert len(client.get("/api/v1/delegate-tasks").json()["results"]) == 4
    assert client.get("/api/v1/delegate-tasks?background=x").json()["errors"][0]["path"] == "background"


def test_the_list_says_what_tasks_are_while_there_are_none(project: Scope, viewer: User) -> None:
    assert "No delegate tasks yet" in read_page(viewer, "/delegates/tasks/")


def test_only_who_may_edit_delegates_is_offered_to_abort(project: Scope, viewer: User, admin: User) -> None:
    task = make_task(project)
    assert "Abort" not in read_page(viewer, f"/delegates/tasks/{task.pk}/")
    assert "Abort" in read_page(admin, f"/delegates/tasks/{task.pk}/")
    client = Client()
    client.force_login(admin)
    client.post(f"/delegates/tasks/{task.pk}/abort/")
    assert "Aborted by admin." in read_page(viewer, f"/delegates/tasks/{task.pk}/")


def test_a_program_reads_a_task_without_what_it_carries(project: Scope, viewer: User, call: Call) -> None:
    task = completed_task(project)
    response = call(viewer).get(f"/api/v1/delegate-tasks/{task.pk}")
    document = response.json()
    assert document["delegate"]["name"] == "eu"
    assert (document["status"], document["fence"], document["position"]) == ("STARTED", 2, None)
    assert not {"payload", "result", "error"} & set(document)
    assert SECRET not in response.content.decode()


def test_a_program_reads_the_decisions_rule_by_rule(project: Scope, viewer: User, call: Call) -> None:
    task = completed_task(project)
    (decision,) = call(viewer).get(f"/api/v1/delegate-tasks/{task.pk}/decisions").json()["results"]
    assert decision["chosen"]["name"] == "eu"
    rows = [row for row in decision["rows"] if row["name"] == "eu"]
    assert [row["verdict"] for row in rows] == ["PASS"] * 10


def test_a_program_reads_the_lines_after_a_number(project: Scope, viewer: User, call: Call) -> None:
    task = completed_task(project)
    page = call(viewer).get(f"/api/v1/delegate-tasks/{task.pk}/log?after=1").json()
    assert [(line["number"], line["text"]) for line in page["lines"]] == [
        (2, "<b>line 1\ufffd"),
        (3, "<b>line 2\ufffd"),
    ]
    assert page["end"] is False
    assert call(viewer).get(f"/api/v1/delegate-tasks/{task.pk}/log?after=x").status_code == 400


def test_a_program_lists_tasks_of_a_status_and_a_delegate(project: Scope, viewer: User, call: Call) -> None:
    task = completed_task(project)
    make_task(project)
    client = call(viewer)
    path = f"/api/v1/delegate-tasks?status=STARTED&delegate={task.instance.delegate_id}"  # type: ignore[union-attr]
    assert [row["id"] for row in client.get(path).json()["results"]] == [str(task.pk)]
    assert client.get("/api/v1/delegate-tasks?status=x").json()["errors"][0]["path"] == "status"


def test_a_list_of_many_tasks_asks_the_database_as_often_as_one_of_few(
    project: Scope, viewer: User, call: Call, django_assert_max_num_queries: Callable[[int], object]
) -> None:
    client = call(viewer)
    completed_task(project)
    for _ in range(30):
        make_task(project)
    with django_assert_max_num_queries(12):  # type: ignore[attr-defined]
        client.get("/api/v1/delegate-tasks")
