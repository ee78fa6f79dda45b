"""How the database reads the list of executions: from an index, in order, without looking at all of them."""

from typing import Any

import pytest
from django.db import connection
from django.db.models import QuerySet
from django.test import RequestFactory

from deployments.execution import queries
from deployments.models import Execution
from rbac.models import Scope, User
from steps.states import Status
from tests.api.sample_project import World, make_world
from web.http.pagination import Cursor, paginate_queryset

pytestmark = pytest.mark.django_db


@pytest.fixture
def sample(project: Scope, admin: User) -> World:
    return make_world(project, admin, admin)


def explain_query(rows: QuerySet[Any], *, cursor: bool = False, columns: QuerySet[Any] | None = None) -> str:
    """Return the plan of the query for a page of `rows`, as if there were too many rows to sort."""
    query = {"cursor": Cursor(False, rows[0].created_at, rows[0].pk).encode()} if cursor else {}
    plans: list[str] = []

    class Explained(QuerySet[Any]):
        def __iter__(self) -> Any:
            plans.append(QuerySet(self.model, self.query).explain())
            return iter(())

    with connection.cursor() as settings:
        if connection.vendor == "postgresql":
            for plan_method in ("seqscan", "bitmapscan", "sort", "hashjoin", "mergejoin"):
                settings.execute(f"SET LOCAL enable_{plan_method} = off")
        explained = Explained(rows.model, rows.query)
        loaded = None if columns is None else Explained(columns.model, columns.query)
        request = RequestFactory().get("/", query)
        paginate_queryset(explained, request, order="created_at", columns=loaded)
    return plans[0]


def is_read_in_order(plan: str, index: str) -> bool:
    return index in plan and "Sort" not in plan and "TEMP B-TREE" not in plan


def starts_at_cursor(plan: str) -> bool:
    """Return whether the index is read from the cursor instead of from its beginning."""
    return "Index Cond: (created_at <=" in plan or "execution_newest (created_at<?)" in plan


@pytest.mark.parametrize("cursor", [False, True])
def test_the_list_of_a_project_is_read_in_order_from_an_index(sample: World, admin: User, cursor: bool):
    plan = explain_query(queries.list_visible_executions(admin, sample.scope), cursor=cursor)
    assert is_read_in_order(plan, "execution_newest_in_scope"), plan


@pytest.mark.only_on("sqlite", reason="PostgreSQL chooses by statistics")
@pytest.mark.parametrize("cursor", [False, True])
def test_sqlite_sorts_only_keys_for_the_list_of_an_organization(
    sample: World, other_project: Scope, admin: User, cursor: bool
):
    executions = queries.list_visible_executions(admin, sample.scope.parent)
    plan = explain_query(executions, cursor=cursor, columns=queries.select_list_columns())
    assert "COVERING INDEX execution_newest_in_scope" in plan, plan
    assert "(id=?)" in plan, plan


@pytest.mark.parametrize("cursor", [False, True])
def test_the_list_of_everything_is_read_in_order_from_an_index(sample: World, cursor: bool):
    plan = explain_query(Execution.objects.all(), cursor=cursor)
    assert is_read_in_order(plan, "execution_newest"), plan
    assert starts_at_cursor(plan) == cursor, plan


def test_the_executions_of_a_pipeline_are_read_in_order_from_an_index(sample: World, admin: User):
    plan = explain_query(Execution.objects.filter(pipeline=sample.pipeline))
    assert is_read_in_order(plan, "execution_newest_of_pipeline"), plan


def test_a_status_that_is_rare_is_found_without_reading_the_others(sample: World, admin: User):
    plan = explain_query(Execution.objects.filter(status=Status.APPROVAL_REJECTED))
    assert is_read_in_order(plan, "execution_newest_with_status"), plan


@pytest.mark.parametrize("index", ["execution_number", "execution_tag"])
def test_a_number_and_a_tag_are_looked_up(sample: World, admin: User, index: str):
    with connection.cursor() as settings:
        if connection.vendor == "postgresql":
            settings.execute("SET LOCAL enable_seqscan = off")
    executions = queries.filter_by_text(Execution.objects.all(), admin, "12")
    assert index in executions.explain(), executions.explain()
