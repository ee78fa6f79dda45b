"""The explanation of a decision on demand counts what the rules say of each delegate."""

from collections import Counter
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rest_framework.test import APIClient

from delegates.models import Delegate
from delegates.queries.explanations import RoutingExplanation
from delegates.queries.routing_candidates import build_routing_request, read_candidate_pool
from delegates.routing.rules import evaluate_rules
from delegates.task_queue import route_waiting_tasks
from rbac.models import Scope, User
from tests.delegates.routing.random_fleets import create_fleet, create_task
from tests.delegates.routing.test_shortlists import create_equal_delegates
from tests.fixtures.delegates import make_delegate, make_task

pytestmark = pytest.mark.django_db


def test_counts_and_verdicts_are_those_of_the_rules(
    project: Scope, other_project: Scope, admin: User
) -> None:
    random, now = Random(3), timezone.now()
    create_fleet(random, [*project.ancestors_and_self(), other_project], 25, now)
    for _ in range(6):
        task = create_task(random, project, now)
        request, pool = build_routing_request(task), read_candidate_pool([task], now)
        verdicts = {one.key: evaluate_rules(request, one) for one in pool.for_task(task)}
        failed = Counter(verdict.rule for rows in verdicts.values() for verdict in rows if not verdict.ok)
        explanation = RoutingExplanation(task, admin, now)
        counts = explanation.count()
        assert {entry.rule: entry.delegates for entry in counts.failures if entry.delegates} == failed
        assert counts.total == len(verdicts)
        assert counts.eligible == sum(all(verdict.ok for verdict in rows) for rows in verdicts.values())
        for rule in failed:
            expected = {
                key for key, rows in verdicts.items() if any(v.rule == rule and not v.ok for v in rows)
            }
            assert set(explanation.list_delegates(rule).values_list("pk", flat=True)) == expected
    page = list(explanation.list_delegates().order_by("pk")[:9])
    lines = explanation.list_lines(page)
    assert [line.delegate for line in lines] == [delegate.pk for delegate in page]
    assert [{cell.rule for cell in line.faults} for line in lines] == [
        {verdict.rule.value for verdict in verdicts[delegate.pk] if not verdict.ok} for delegate in page
    ]


def read_page(person: User, path: str) -> str:
    client = Client()
    client.force_login(person)
    response = client.get(path)
    assert response.status_code == 200
    return response.content.decode()


def test_the_page_counts_failures_and_lists_delegates_by_pages(project: Scope, viewer: User) -> None:
    create_equal_delegates(project, 30)
    Delegate.objects.filter(name__in=("d3", "d4")).update(admission="DISABLED")
    task = make_task(project)
    path = f"/delegates/tasks/{task.pk}/delegates/"
    assert path in read_page(viewer, f"/delegates/tasks/{task.pk}/")
    route_waiting_tasks(timezone.now())
    text = read_page(viewer, f"{path}?page_size=20")
    assert "Last decision: d0 ranks first" in text
    # The built-in delegate has no instance here.
    assert "28 of 31 delegates are eligible now" in text
    assert text.count("It passes all rules.") + text.count("Not eligible") == 20
    text = read_page(viewer, f"{path}?failed=approved")
    assert [name for name in ("d3", "d4", "d5") if f">{name}<" in text] == ["d3", "d4"]
    assert "It is disabled. Enable it." in text


def test_page_and_api_take_as_many_queries_for_many_delegates_as_for_few(
    project: Scope, viewer: User, call: Callable[[User], APIClient]
) -> None:
    task = make_task(project, selectors=["d7"])
    counted = []
    for first in (0, 25):
        create_equal_delegates(project, 25, first=first)
        with CaptureQueriesContext(connection) as context:
            read_page(viewer, f"/delegates/tasks/{task.pk}/delegates/")
            document: Any = call(viewer).get(f"/api/v1/delegate-tasks/{task.pk}/explanation").json()
            rows = call(viewer).get(
                f"/api/v1/delegate-tasks/{task.pk}/candidates?failed=selectors&page_size=5"
            )
        counted.append(len(context))
    assert counted[0] == counted[1]
    assert (document["total"], document["eligible"]) == (51, 1)
    assert {"rule": "selectors", "delegates": 50} in document["failures"]
    assert [row["eligible"] for row in rows.json()["results"]] == [False] * 5
    assert rows.json()["next"]


def test_delegates_out_of_reach_are_counted_and_listed_only_for_those_who_see_them(
    project: Scope, other_project: Scope, viewer: User, admin: User, call: Callable[[User], APIClient]
) -> None:
    make_delegate(other_project, "hidden-one")
    task = make_task(project)
    for person, is_visible in ((viewer, False), (admin, True)):
        assert ("hidden-one" in read_page(person, f"/delegates/tasks/{task.pk}/delegates/")) is is_visible
        api = call(person)
        names = [
            row["name"] for row in api.get(f"/api/v1/delegate-tasks/{task.pk}/candidates").json()["results"]
        ]
        assert ("hidden-one" in names) is is_visible
        failures = api.get(f"/api/v1/delegate-tasks/{task.pk}/explanation").json()["failures"]
        assert {"rule": "scope", "delegates": int(is_visible)} in failures


def test_an_unknown_rule_is_refused(project: Scope, viewer: User, call: Callable[[User], APIClient]) -> None:
    task = make_task(project)
    assert call(viewer).get(f"/api/v1/delegate-tasks/{task.pk}/candidates?failed=luck").status_code == 400
