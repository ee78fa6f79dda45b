"""Inventory, as people see and hear it: charts with axes, targets, tasks, and pages of their kin."""

from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, Route, expect
from pytest_django.live_server_helper import LiveServer

from deployments.models import Execution, StageExecution
from inventory.dashboards.running_services import MAX_DRAWN_PER_SERVICE
from inventory.models.drift import DriftComparison
from inventory.models.instances import EcsServiceEvent, EcsServiceRecord, ServiceInstance, SyncedCluster
from inventory.sync.upserts.usage import compute_usage_window
from rbac.models import Scope, User
from steps.states import Outcome, Status
from tests.api.sample_project import World, make_world
from tests.browser.test_accessibility import violations
from tests.inventory.dashboards.test_target_groups import GROUP, build_target

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
DENIED = {
    "operation": "DescribeScalableTargets",
    "action": "application-autoscaling:DescribeScalableTargets",
    "principal": "arn:aws:iam::123456789012:role/a-role-with-quite-a-long-name-that-has-to-be-broken",
    "why": "AWS denied it.",
    "until": "2030-01-01T00:00:00+00:00",
}
TASKS = 2000


def create_busy_service(world: World) -> World:
    """One ECS service with many tasks in several states, targets, charts with a gap, a failure, a denial."""
    now = timezone.now()
    since, _ = compute_usage_window(now)
    moments = [
        (since + timedelta(minutes=5 * number)).isoformat() for number in range(36) if not 12 < number < 19
    ]
    usage = {
        "cpu": {at: 20.0 + number for number, at in enumerate(moments)},
        "memory": dict.fromkeys(moments, 131.0),
    }
    states = ("unhealthy", "draining", "initial")
    group = {
        "arn": GROUP, "name": "web", "counts": {"healthy": 4, **dict.fromkeys(states, 1)}, "total": 7,
        "unhealthy": [build_target("10.0.0.1", "unhealthy")], "unhealthy_total": 1,
        "others": [build_target("10.0.0.2", "draining"), build_target("10.0.0.3", "initial")],
        "read_at": now.isoformat(),
    }  # fmt: skip
    EcsServiceRecord.objects.filter(service=world.service).update(
        description={"loadBalancers": [{"targetGroupArn": GROUP}]},
        targets=[group], targets_read_at=now, usage=usage, usage_read_at=now, viewed_at=now,
        desired=TASKS, running=TASKS - 40, pending=40, task_definition="app:2",
    )  # fmt: skip
    SyncedCluster.objects.update(
        denied_reads=[DENIED], failure="AWS denied ecs:ListTasks.", failure_step="Allow it."
    )
    _tasks(ServiceInstance.objects.get(), now)
    record = EcsServiceRecord.objects.get(service=world.service)
    EcsServiceEvent.objects.create(
        ecs_service=record,
        kind="COUNT",
        event="c",
        before=1,
        count=9,
        at=now,
        message="The desired count changed from 1 to 9.",
    )
    return world


def _tasks(task: ServiceInstance, now: Any) -> None:
    ServiceInstance.objects.update(address="10.0.0.1")
    tasks = []
    for number in range(TASKS):
        tasks.append(
            ServiceInstance(
                cluster_id=task.cluster_id, ecs_service_id=task.ecs_service_id, arn=f"arn:{number}",
                task_id=f"{number:032x}",
                task_definition=f"arn:aws:ecs:us-east-1:1:task-definition/app:{1 + number % 2}",
                image=f"registry/app:{1 + number % 2}", digest="sha256:aa",
                zone=f"us-east-1{'abc'[number % 3]}",
                last_status="PENDING" if number % 50 == 0 else "RUNNING", desired_status="RUNNING",
                health="UNHEALTHY" if number % 70 == 0 else "HEALTHY", created_at=now,
                fingerprint="a", seen_at=now,
                stopped_at=now if number % 40 == 1 else None, stop_code="EssentialContainerExited",
                stopped_reason="Essential container in task exited",
                containers=[{"name": "app", "exit_code": 137, "reason": "OutOfMemoryError"}],
            )
        )  # fmt: skip
    ServiceInstance.objects.bulk_create(tasks, batch_size=500)


@pytest.fixture
def world(project: Scope, admin: User) -> World:
    return create_busy_service(make_world(project, admin, admin))


def open_as(page: Page, live_server: LiveServer, person: User, theme: str, width: int) -> None:
    client = Client()
    client.force_login(person)
    cookies = {name: cookie.value for name, cookie in client.cookies.items()} | {"slipway_theme": theme}
    page.context.add_cookies(
        [{"name": name, "value": value, "url": live_server.url} for name, value in cookies.items()]
    )
    page.set_viewport_size({"width": width, "height": 800})
    page.route_web_socket("**/ws/**", lambda socket: None)


def addresses(world: World) -> list[str]:
    service = world.service.pk
    stage = StageExecution.objects.get(execution=world.execution).pk
    return [
        "/",
        "/inventory/",
        f"/services/{service}/dashboard/",
        f"/services/{service}/compare/?from={stage}&to={stage}",
        f"/services/{service}/instances/",
        f"/services/{service}/instances/?show=stopped",
        "/instances/",
        "/instances/?show=stopped",
        "/instances/?q=nothing-is-called-like-this",
        "/instances/?origin=NOBODY",
        "/events/?since=all",
        "/events/?q=nothing-is-called-like-this",
        "/drift/",
        f"/drift/{DriftComparison.objects.get(ecs_service__service=world.service).pk}/",
    ]


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("theme", "width"), [("light", 390), ("dark", 1280)])
def test_axe_finds_nothing_where_much_runs(
    page: Page, live_server: LiveServer, world: World, admin: User, theme: str, width: int
) -> None:
    open_as(page, live_server, admin, theme, width)
    violations_by_path = {}
    for path in addresses(world):
        answer = page.goto(f"{live_server.url}{path}")
        assert answer is not None
        assert answer.status == 200, path
        wrong = violations(page)
        if page.evaluate("document.documentElement.scrollWidth > document.documentElement.clientWidth"):
            wrong.append("the page is wider than the window")
        if wrong:
            violations_by_path[path] = wrong
    assert violations_by_path == {}


@pytest.mark.timeout(300)
@pytest.mark.parametrize(("theme", "width"), [("dark", 390), ("light", 1280)])
def test_axe_finds_nothing_where_nothing_runs(
    page: Page, live_server: LiveServer, project: Scope, admin: User, theme: str, width: int
) -> None:
    open_as(page, live_server, admin, theme, width)
    violations_by_path = {}
    for path in (
        "/",
        "/figures/",
        "/inventory/",
        "/instances/",
        "/instances/?show=stopped",
        "/events/?since=all",
        "/drift/",
    ):
        page.goto(f"{live_server.url}{path}")
        if wrong := violations(page):
            violations_by_path[path] = wrong
    assert violations_by_path == {}


def test_charts_have_axes_and_are_told_to_who_cannot_see_them(
    page: Page, live_server: LiveServer, world: World, admin: User
) -> None:
    open_as(page, live_server, admin, "light", 1280)
    page.goto(f"{live_server.url}/services/{world.service.pk}/dashboard/")
    cpu = page.locator("figure.measure", has_text="CPU")
    assert cpu.locator(".value-axis li").all_inner_texts() == ["100 %", "50 %", "0 %"]
    memory = page.locator("figure.measure", has_text="Memory")
    assert memory.locator(".value-axis li").all_inner_texts() == ["150 %", "75 %", "0 %"]
    assert len(cpu.locator(".time-axis li").all_inner_texts()) == 4
    name = EcsServiceRecord.objects.get(service=world.service).name
    expect(page.get_by_role("img", name="CPU of")).to_have_accessible_name(
        f"CPU of {name} in percent of the reservation, last three hours:"
        " now 49.0 %, from 20.0 % to 49.0 %; the table below has the numbers"
    )
    middle = cpu.locator("rect.gap").bounding_box()
    line = cpu.locator("path.line").bounding_box()
    assert middle
    assert line
    assert line["x"] < middle["x"] < middle["x"] + middle["width"] < line["x"] + line["width"]
    marks = [
        box["y"] + box["height"] / 2
        for label in cpu.locator(".value-axis li").all()
        if (box := label.bounding_box())
    ]
    lines = [box["y"] for grid_line in cpu.locator("path.grid").all() if (box := grid_line.bounding_box())]
    assert [abs(mark - at) < 3 for mark, at in zip(marks, lines, strict=True)] == [True] * 3
    page.get_by_text("CPU and memory values").click()
    expect(page.get_by_role("region", name="CPU and memory of").get_by_role("row")).to_have_count(37)
    expect(page.get_by_role("region", name="CPU and memory of").get_by_text("no data")).to_have_count(6)


def test_of_two_thousand_tasks_some_are_drawn_and_all_are_counted(
    page: Page, live_server: LiveServer, world: World, admin: User
) -> None:
    client = Client()
    client.force_login(admin)
    response = client.get(f"/services/{world.service.pk}/dashboard/")
    assert len(response.content) < 120 * 1024
    open_as(page, live_server, admin, "light", 1280)
    page.goto(f"{live_server.url}/services/{world.service.pk}/dashboard/")
    task_marks = page.locator("#places .map .task")
    assert 0 < task_marks.count() <= MAX_DRAWN_PER_SERVICE
    running = ServiceInstance.objects.filter(stopped_at=None).count()
    expect(page.get_by_text(f"{task_marks.count()} of {running} tasks are shown")).to_be_visible()
    sick = ServiceInstance.objects.filter(stopped_at=None, health="UNHEALTHY", last_status="RUNNING").count()
    expect(page.locator("#places .map .task.unhealthy")).to_have_count(sick)
    expect(page.get_by_role("link", name="Task list")).to_be_visible()


def test_the_figures_of_the_overview_come_after_it_and_as_they_are_chosen(
    page: Page, live_server: LiveServer, world: World, admin: User
) -> None:
    StageExecution.objects.update(status=Status.SUCCESS)
    Execution.objects.update(status=Status.SUCCESS, outcome=Outcome.COMPLETED, ended_at=timezone.now())
    open_as(page, live_server, admin, "light", 1280)
    page.goto(f"{live_server.url}/")
    runs = page.locator("section", has=page.get_by_role("heading", name="Deployments per day"))
    expect(runs.locator(".value")).to_have_text(str(Execution.objects.count()))
    page.get_by_role("link", name="90 days").click()
    page.get_by_text("Daily numbers (UTC)").click()
    expect(page.get_by_role("region", name="Deployments per day").get_by_role("row")).to_have_count(91)
    assert page.get_by_text("Computing metrics").count() == 0


def test_figures_that_cannot_be_had_are_said_to_be_missing(
    page: Page, live_server: LiveServer, world: World, admin: User
) -> None:
    open_as(page, live_server, admin, "light", 1280)
    page.route("**/figures/**", lambda route: route.fulfill(status=503))
    held: list[Route] = []
    page.route("**/failed-updates*.js", lambda route: held.append(route))
    page.goto(f"{live_server.url}/", wait_until="commit")
    page.wait_for_timeout(1000)
    held.pop().continue_()
    expect(page.get_by_role("alert")).to_contain_text("Request failed (503).")
    expect(page.get_by_role("heading", name="Deploying now")).to_be_visible()
    expect(page.get_by_role("link", name="View metrics only")).to_be_visible()
