"""Running a pipeline and watching it through the API: the fixed shapes."""

import gzip
import uuid
from collections.abc import Callable
from datetime import UTC, datetime

import pytest
from asgiref.sync import sync_to_async
from django.db import connections, transaction
from django.test import AsyncClient
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries
from rest_framework.test import APIClient

from deployments import log
from deployments.log import queries
from deployments.models import ActionRun, AwsCall, Execution, Interrupt
from rbac.models import Role, RoleAssignment, Scope, User
from tests.api.sample_project import World
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db
CallAs = Callable[[User], APIClient]


@pytest.fixture
def client(deployer: User, call: CallAs) -> APIClient:
    return call(deployer)


def runs(world: World) -> str:
    return f"/api/v1/pipelines/{world.pipeline.pk}/executions"


def build_address(world: World, suffix: str = "") -> str:
    return f"/api/v1/executions/{world.execution.pk}{suffix}"


def write_lines(world: World, count: int) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    with transaction.atomic():
        log.store_lines(
            world.execution.pk,
            [log.NewLogLine(at, None, "deploy", "Deploy", "info", f"line {n + 1}") for n in range(count)],
        )


def write_calls(world: World, count: int) -> None:
    action = ActionRun.objects.filter(step__stage__execution=world.execution).first()
    assert action is not None
    AwsCall.objects.bulk_create(
        AwsCall(
            execution=world.execution,
            step=action.step,
            action=action,
            attempt=1,
            phase="start",
            number=number,
            service="ecs",
            operation="DescribeServices",
            is_write=False,
            params_hash="0",
            parameters="{}",
            planned_at=timezone.now(),
        )
        for number in range(count)
    )


@pytest.mark.parametrize(
    "body",
    [
        None,
        {},
        {"inputs": {}},
        {"artifact": {}},
        {"artifact": {"tag": ""}},
        {"inputs": {}, "artifact": {"tag": "v2"}},
    ],
)
def test_a_run_answers_201_with_id_number_and_status(world: World, client: APIClient, body: object):
    response = client.post(runs(world), body, format="json") if body is not None else client.post(runs(world))
    assert response.status_code == 201
    answer = response.json()
    assert set(answer) == {"id", "number", "status"}
    assert (answer["number"], answer["status"]) == (2, "QUEUED")
    execution = client.get(response["Location"]).json()
    assert execution["id"] == answer["id"]
    tag = (body or {}).get("artifact", {}).get("tag") if isinstance(body, dict) else None  # type: ignore[union-attr]
    assert execution["artifact"] == {"image": "myapp", "tag": tag or "v1"}


@pytest.mark.parametrize(
    "body",
    [
        {"artefact": {"tag": "v2"}},
        {"artifact": {"tag": "no good"}},
        {"artifact": {"tag": ["v2"]}},
        {"artifact": "v2"},
        {"inputs": {"unknown": 1}},
        {"inputs": []},
    ],
)
def test_a_run_with_input_that_makes_no_sense_is_refused(world: World, client: APIClient, body: object):
    response = client.post(runs(world), body, format="json")
    assert response.status_code == 400, response.json()
    assert response.json()["errors"]
    assert Execution.objects.count() == 1


def test_the_same_idempotency_key_runs_once(world: World, client: APIClient):
    body = {"artifact": {"tag": "v2"}}
    first = client.post(runs(world), body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    second = client.post(runs(world), body, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert (first.status_code, second.status_code) == (201, 201)
    assert first.json()["id"] == second.json()["id"]
    third = client.post(runs(world), body, format="json", HTTP_IDEMPOTENCY_KEY="k2")
    assert third.json()["id"] != first.json()["id"]
    other = client.post(runs(world), {"artifact": {"tag": "v3"}}, format="json", HTTP_IDEMPOTENCY_KEY="k1")
    assert other.status_code == 422
    bad = client.post(runs(world), body, format="json", HTTP_IDEMPOTENCY_KEY="k" * 129)
    assert bad.status_code == 400


def test_an_execution_has_the_fixed_shape(world: World, client: APIClient):
    execution = client.get(build_address(world)).json()
    assert {"status", "outcome", "failure", "stages", "checklist", "can", "last_line"} <= set(execution)
    assert execution["outcome"] is None
    assert execution["failure"] is None
    steps = execution["stages"][0]["steps"]
    assert [step["type"] for step in steps] == ["EcsRollingDeploy", "EcsRollingRollback"]
    assert {"identifier", "type", "status", "units", "outputs"} <= set(steps[0])
    assert steps[0]["units"][0]["actions"][0]["state"] == "WAITING"
    assert execution["can"] == {
        "abort": True,
        "rollback": True,
        "retry": False,
        "attempt": False,
        "decide": True,
        "stop": True,
    }


def test_buttons_depend_on_who_looks(world: World, viewer: User, call: CallAs):
    execution = call(viewer).get(build_address(world)).json()
    assert execution["can"] == {
        "abort": False,
        "rollback": False,
        "retry": False,
        "attempt": False,
        "decide": False,
        "stop": False,
    }


def test_who_cannot_abort_is_offered_no_rollback_of_what_runs(
    world: World, project: Scope, call: CallAs
) -> None:
    role = Role.objects.create(scope=project, identifier="runner", name="Runner")
    role.set_permissions({"core_pipeline_view", "core_pipeline_execute"})
    runner = make_person("runner")
    RoleAssignment.objects.create(scope=project, role=role, user=runner)
    client = call(runner)
    assert client.get(build_address(world)).json()["can"]["rollback"] is False
    Execution.objects.update(status="SUCCESS")
    assert client.get(build_address(world)).json()["can"]["rollback"] is True


def test_the_list_is_newest_first_and_can_be_narrowed(world: World, client: APIClient):
    for _ in range(3):
        client.post(runs(world), {}, format="json")
    executions = client.get("/api/v1/executions").json()["results"]
    assert [row["number"] for row in executions] == [4, 3, 2, 1]
    assert executions[0]["pipeline"]["identifier"] == "rolling"
    assert client.get("/api/v1/executions?status=SUCCESS").json()["results"] == []
    assert len(client.get("/api/v1/executions?identifier=rolling&status=QUEUED").json()["results"]) == 4
    of_pipeline = client.get(f"/api/v1/executions?pipeline={world.pipeline.pk}&page_size=3").json()
    assert len(of_pipeline["results"]) == 3
    assert len(client.get(of_pipeline["next"]).json()["results"]) == 1
    assert client.get("/api/v1/executions?pipeline=x").status_code == 400


def test_the_log_comes_in_pages_of_a_thousand_and_ends(world: World, client: APIClient):
    write_lines(world, 1200)
    first = client.get(build_address(world, "/log")).json()
    assert len(first["lines"]) == 1000
    assert set(first["lines"][0]) == {"number", "at", "step", "unit", "level", "origin", "text"}
    assert first["end"] is False
    second = client.get(build_address(world, "/log?after=1000")).json()
    assert [line["number"] for line in second["lines"]] == list(range(1001, 1201))
    assert second["end"] is False
    Execution.objects.filter(pk=world.execution.pk).update(status="SUCCESS")
    assert client.get(build_address(world, "/log?after=0")).json()["end"] is False
    assert client.get(build_address(world, "/log?after=1000")).json()["end"] is True
    assert client.get(build_address(world, "/log?after=1200")).json() == {"lines": [], "end": True}


@pytest.mark.parametrize("after", ["-1", "x", "1.5", "9" * 40, "٣"])
def test_a_strange_after_is_refused(world: World, client: APIClient, after: str):
    assert client.get(build_address(world, f"/log?after={after}")).status_code == 400


def test_the_whole_log_can_be_downloaded_as_text(world: World, client: APIClient):
    write_lines(world, 1200)
    response = client.get(build_address(world, "/log?download=1"))
    assert response["Content-Type"] == "text/plain; charset=utf-8"
    assert response["Content-Disposition"] == 'attachment; filename="rolling-1.log"'
    assert response["X-Content-Type-Options"] == "nosniff"
    text = response.getvalue().decode()
    lines = text.splitlines()
    assert len(lines) == 1200
    assert lines[0].endswith("line 1")
    assert lines[-1].endswith("line 1200")

    raw = client.get(build_address(world, "/log?download=raw"))
    assert raw["Content-Disposition"].startswith("inline")
    assert raw.getvalue().decode() == text
    packed = client.get(build_address(world, "/log?download=gz"))
    assert packed["Content-Disposition"] == 'attachment; filename="rolling-1.log.gz"'
    assert gzip.decompress(packed.getvalue()).decode() == text


@pytest.mark.django_db(transaction=True)
async def test_the_download_is_the_same_from_the_asynchronous_server(world: World, admin: User):
    await sync_to_async(write_lines)(world, 3000)
    client = AsyncClient()
    await client.aforce_login(admin)
    response = await client.get(build_address(world, "/log?download=1"))
    pages = [page async for page in response.streaming_content]
    assert b"".join(pages).count(b"\n") == 3000
    await sync_to_async(connections.close_all)()


def test_the_log_is_searched_by_text_and_kind(world: World, client: APIClient):
    at = timezone.now()
    log.store_lines(
        world.execution.pk,
        [
            log.NewLogLine(at, None, "one", "u", "info", "Alpha \x1b[31mBe\x1b[0mta"),
            log.NewLogLine(at, None, "one", "u", "error", 'a "quoted" beta'),
            log.NewLogLine(at, None, "two", "u", "event", "gamma"),
            log.NewLogLine(at, None, "two", "u", "warning", "BETA again"),
        ],
    )

    def search_log(query: str) -> list[int]:
        return client.get(build_address(world, f"/log/search?{query}")).json()["numbers"]

    assert search_log("q=beta") == [1, 2, 4]
    assert search_log("q=beta&after=1") == [2, 4]
    assert search_log("q=beta&case=1") == [2]
    assert search_log("q=%22quoted%22") == [2]
    assert search_log("q=31m") == []
    assert search_log("level=error,warning") == [2, 4]
    assert search_log("origin=aws") == [3]
    assert search_log("step=two&level=warning") == [4]
    assert search_log("q=nowhere") == []


def test_a_long_log_is_searched_page_by_page(
    world: World, client: APIClient, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(queries, "MOST_CHUNKS", 2)
    write_lines(world, 4500)
    numbers: list[int] = []
    after: int | None = 0
    rounds = 0
    while after is not None:
        page = client.get(build_address(world, f"/log/search?q=7&after={after}")).json()
        numbers, after, rounds = numbers + page["numbers"], page["next"], rounds + 1
    assert rounds > 1
    assert numbers == [number for number in range(1, 4501) if "7" in str(number)]


@pytest.mark.parametrize("query", ["level=loud", "origin=me", "q=" + "x" * 513, "after=-1"])
def test_a_strange_search_is_refused(world: World, client: APIClient, query: str):
    assert client.get(build_address(world, f"/log/search?{query}")).status_code == 400


def test_the_calls_are_listed_in_order(world: World, client: APIClient):
    write_calls(world, 5)
    page = client.get(build_address(world, "/calls?page_size=3")).json()
    assert [row["number"] for row in page["results"]] == [0, 1, 2]
    assert {"service", "operation", "phase", "step", "action", "state", "write"} <= set(page["results"][0])
    next_page = client.get(page["next"]).json()
    assert [row["number"] for row in next_page["results"]] == [3, 4]
    assert next_page["next"] is None


def test_wishes_are_passed_on_to_the_engine(world: World, client: APIClient):
    aborted = client.post(build_address(world, "/abort"), {"rollback": True}, format="json")
    assert aborted.status_code == 202
    assert aborted.json()["id"] == str(world.execution.pk)
    assert Interrupt.objects.get().kind == "ABORT_AND_ROLL_BACK"
    conflict = client.post(build_address(world, "/abort"), {"rollback": True}, format="json")
    assert conflict.status_code == 409
    assert client.post(build_address(world, "/abort"), {"roll_back": True}, format="json").status_code == 400
    assert client.post(build_address(world, "/retry")).status_code == 409


def test_what_is_over_cannot_be_aborted(world: World, client: APIClient):
    Execution.objects.filter(pk=world.execution.pk).update(status="SUCCESS")
    response = client.post(build_address(world, "/abort"))
    assert (response.status_code, response.json()["code"]) == (409, "conflict")
    assert client.post(build_address(world, "/rollback")).status_code == 409


def test_an_unknown_execution_is_404(client: APIClient):
    assert client.get(f"/api/v1/executions/{uuid.uuid4()}").status_code == 404
    assert client.get("/api/v1/executions/1").status_code == 404


LISTS = {
    "orgs": 4,
    "roles": 5,
    "connectors": 4,
    "secrets": 4,
    "files": 4,
    "services": 5,
    "environments": 4,
    "pipelines": 4,
    "executions": 5,
}


@pytest.mark.parametrize(("name", "most"), LISTS.items())
def test_a_list_costs_the_same_however_long_it_is(
    world: World,
    admin: User,
    call: CallAs,
    name: str,
    most: int,
    django_assert_max_num_queries: DjangoAssertNumQueries,
):
    client = call(admin)
    client.get(f"/api/v1/{name}")
    make_more(world, admin)
    with django_assert_max_num_queries(most):
        results = client.get(f"/api/v1/{name}").json()["results"]
    assert results


def make_more(world: World, admin: User) -> None:
    """Add a second and a third of everything."""
    for number in range(2):
        for row in (world.connector, world.secret, world.environment, world.service, world.role):
            clone = type(row).objects.get(pk=row.pk)
            clone.pk, clone.identifier = None, f"{row.identifier}{number}"
            clone.save()
        file = type(world.file).objects.get(pk=world.file.pk)
        file.pk, file.path = None, f"/more{number}.yaml"
        file.save()
        pipeline = type(world.pipeline).objects.get(pk=world.pipeline.pk)
        pipeline.pk, pipeline.identifier = None, f"more{number}"
        pipeline.save()
        execution = Execution.objects.get(pk=world.execution.pk)
        execution.pk, execution.number, execution._state.adding = uuid.uuid4(), 10 + number, True
        execution.save()


def test_the_state_of_an_execution_costs_a_fixed_number_of_queries(
    world: World, client: APIClient, django_assert_max_num_queries: DjangoAssertNumQueries
):
    write_calls(world, 20)
    write_lines(world, 20)
    client.get(build_address(world))
    with django_assert_max_num_queries(14):
        client.get(build_address(world))
    with django_assert_max_num_queries(5):
        client.get(build_address(world, "/log"))
    with django_assert_max_num_queries(5):
        client.get(build_address(world, "/calls"))
