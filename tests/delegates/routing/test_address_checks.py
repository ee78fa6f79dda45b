"""People ask a delegate whether it reaches an address: only that one, and nothing is held against it."""

import json
from collections.abc import Callable

import pytest
from django.test import Client
from django.utils import timezone
from rest_framework.test import APIClient

from delegates.models import AllowlistEntry, BlocklistEntry, DelegateTask
from delegates.operations.tasks import start_connectivity_check
from delegates.protocol.completions import complete_task
from delegates.protocol.leases import acquire_tasks
from delegates.queries.routing_candidates import build_own_tag
from delegates.task_owners import TaskAnswer
from delegates.task_queue import route_waiting_tasks
from rbac.models import AuditEntry, Scope, User
from rbac.policy import Forbidden
from tests.fixtures.delegates import make_delegate, make_instance
from web.http.problems import BadInput

pytestmark = pytest.mark.django_db
URL = "https://ecs.us-east-1.amazonaws.com"


def read_page(person: User, path: str) -> str:
    client = Client()
    client.force_login(person)
    return client.get(path).content.decode()


@pytest.mark.parametrize(
    ("answer", "expected_text"),
    [
        (TaskAnswer("SUCCEEDED", {"ok": True, "address": "10.1.2.3"}), "at <code>10.1.2.3</code>"),
        (
            TaskAnswer("FAILED", error={"message": "No address for it.", "capability": True}),
            "No address for it.",
        ),
    ],
)
def test_the_page_of_the_check_tells_the_answer_and_no_list_keeps_it(
    project: Scope, admin: User, answer: TaskAnswer, expected_text: str
) -> None:
    target_delegate = make_delegate(project, "asked")
    instance = make_instance(target_delegate)
    make_instance(make_delegate(project, "other"))
    task = start_connectivity_check(actor=admin, delegate=target_delegate, url=f" {URL} ")
    route_waiting_tasks(timezone.now())
    (assignment,) = acquire_tasks(instance, free=5)
    assert assignment.payload.params == {"url": URL}
    assert complete_task(instance, task.pk, fence=1, answer=answer)
    assert expected_text in read_page(admin, f"/delegates/tasks/{task.pk}/")
    assert not AllowlistEntry.objects.exists()
    assert not BlocklistEntry.objects.exists()
    assert AuditEntry.objects.get(action="delegate.check").after == {"url": URL}


def test_a_delegate_of_the_same_name_elsewhere_is_not_asked(project: Scope, admin: User) -> None:
    make_instance(make_delegate(project, "twin"))
    account_delegate = make_delegate(Scope.objects.account(), "twin", tags=["twin"])
    task = start_connectivity_check(actor=admin, delegate=account_delegate, url=URL)
    route_waiting_tasks(timezone.now())
    task.refresh_from_db()
    assert (task.offered_to, task.selectors) == (None, [build_own_tag(account_delegate.pk)])
    assert "twin: It has sent no heartbeat." in task.reason


@pytest.mark.parametrize(
    "url",
    [
        "",
        "ftp://example.com",
        "example.com",
        "https://",
        "https://user:secret@example.com",
        "https://example.com:99999",
        "https://exa mple.com",
        "https://example.com/\x00",
        "http://169.254.169.254/latest/meta-data",
        "http://0xa9fea9fe/",
        "https://example.com:6379",
        f"https://example.com/{'a' * 600}",
    ],
)
def test_what_is_no_address_is_refused(project: Scope, admin: User, url: str) -> None:
    with pytest.raises(BadInput):
        start_connectivity_check(actor=admin, delegate=make_delegate(project), url=url)
    assert not DelegateTask.objects.exists()


def test_who_may_only_see_delegates_starts_no_check(project: Scope, viewer: User) -> None:
    delegate = make_delegate(project)
    with pytest.raises(Forbidden):
        start_connectivity_check(actor=viewer, delegate=delegate, url=URL)
    assert "Connectivity check" not in read_page(viewer, f"/delegates/{delegate.pk}/")


def test_a_person_starts_one_from_the_page_and_a_program_from_its_route(
    project: Scope, admin: User, call: Callable[[User], APIClient]
) -> None:
    delegate = make_delegate(project)
    assert "Check address" in read_page(admin, f"/delegates/{delegate.pk}/")
    client = Client()
    client.force_login(admin)
    response = client.post(f"/delegates/{delegate.pk}/check/", {"url": URL})
    task = DelegateTask.objects.get()
    assert response["Location"] == f"/delegates/tasks/{task.pk}/"
    invalid_response = client.post(f"/delegates/{delegate.pk}/check/", {"url": "nowhere"}, follow=True)
    assert "the address must begin with https:// or http://" in invalid_response.content.decode()
    check_response = call(admin).post(f"/api/v1/delegates/{delegate.pk}/check", {"url": URL}, format="json")
    assert check_response.status_code == 202
    assert json.loads(DelegateTask.objects.get(pk=check_response.json()["id"]).payload) == {"url": URL}
