"""PostgreSQL finds the delegates of a task by indexes, and reads few of ten thousand."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from delegates.models import Delegate, DelegateTask
from delegates.task_queue import route_waiting_tasks
from rbac.models import Scope
from tests.fixtures.delegates import make_task

pytestmark = [
    pytest.mark.django_db,
    pytest.mark.only_on("postgresql", reason="the plans are those of PostgreSQL"),
]

SIZE = 10_000
TABLES = ("delegates_delegate", "delegates_delegateinstance", "delegates_delegatetag")


@pytest.fixture
def fleet(project: Scope) -> None:
    """Ten thousand connected delegates of one project with a common tag, a rare tag and their names."""
    statements = (
        """insert into delegates_delegate
               (scope_id, name, description, kind, flavour, size, tags, admission, draining, shares_scripts,
                is_built_in, spec, aws_account, last_assigned_at, created_at, updated_at)
           select %(scope)s, 'd' || n, '', 'ECS', '', '', '["linux"]', 'ENABLED', false, false,
                  false, '{}', '', now() - n * interval '1 second', now(), now()
           from generate_series(1, %(size)s) n""",
        """insert into delegates_delegateinstance
               (delegate_id, key, public_key, hostname, private_ip, version, flavour, tags, capacity,
                connection, status, session_hash, previous_session_hash, last_heartbeat_at, registered_at,
                running, max_executing, cpu_process, cpu_system, memory_mib, ecs, clock_skew_seconds,
                isolation, script_scope)
           select id, 'host', '', '', '', '', '', jsonb_build_array('zone' || id %% 100), 10,
                  'WEBSOCKET', 'REGISTERED', '', '', now(), now(), 0, 0, 0, 0, 0, '{}', 0, '', ''
           from delegates_delegate where not is_built_in""",
        """insert into delegates_delegatetag (scope_id, delegate_id, instance_id, tag)
           select scope_id, delegates_delegate.id, case when t.n = 2 then i.id end,
                  case t.n when 0 then name when 1 then 'linux'
                  else 'zone' || delegates_delegate.id %% 100 end
           from delegates_delegate
           join delegates_delegateinstance i on i.delegate_id = delegates_delegate.id,
           generate_series(0, 2) t(n)""",
        *(f"analyze {table}" for table in TABLES),
    )
    with connection.cursor() as cursor:
        for statement in statements:
            cursor.execute(statement, {"scope": project.pk, "size": SIZE})


def list_nodes(plan: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield plan
    for child in plan.get("Plans", ()):
        yield from list_nodes(child)


def explain_decision(project: Scope, selectors: list[str]) -> list[dict[str, Any]]:
    """Route a task, and return the nodes that read delegates, instances or tags."""
    task = make_task(project, selectors=selectors)
    with CaptureQueriesContext(connection) as context:
        result = route_waiting_tasks(timezone.now())
    assert result.offered == bool(task.decisions.get().chosen)
    nodes = []
    with connection.cursor() as cursor:
        for query in context.captured_queries:
            if query["sql"].startswith("SELECT") and "delegates_delegate" in query["sql"]:
                cursor.execute(f"explain (analyze, format json) {query['sql']}")
                (answer,) = cursor.fetchone()
                (plan,) = json.loads(answer) if isinstance(answer, str) else answer
                nodes += [node for node in list_nodes(plan["Plan"]) if node.get("Relation Name") in TABLES]
    return nodes


def count_rows(project: Scope, selectors: list[str]) -> dict[tuple[int, str], int]:
    """Return how many rows each node of the plans of a decision reads, by number and index."""
    return {
        (number, node.get("Index Name", node["Node Type"])): node["Actual Loops"]
        * (node["Actual Rows"] + node.get("Rows Removed by Filter", 0))
        for number, node in enumerate(explain_decision(project, selectors))
    }


@pytest.mark.usefixtures("fleet")
def test_a_decision_reads_a_few_rows_of_ten_thousand_delegates(project: Scope) -> None:
    for selectors in (["linux"], ["ZONE7"], ["linux", "zone7"], ["d4711"], ["nobody"], []):
        rows = count_rows(project, selectors)
        assert sum(rows.values()) <= 2000, (selectors, rows)
        assert not selectors or "delegate_tag_in_scope" in {name for _, name in rows}


@pytest.mark.usefixtures("fleet")
def test_a_task_that_waits_for_ten_thousand_delegates_reads_a_few_of_them(project: Scope) -> None:
    Delegate.objects.update(admission="DISABLED")
    for selectors in (["linux"], ["zone7"], []):
        rows = count_rows(project, selectors)
        assert sum(rows.values()) <= 2000, (selectors, rows)
    reason = DelegateTask.objects.get(selectors=["linux"]).reason
    assert "And at least 10" in reason
