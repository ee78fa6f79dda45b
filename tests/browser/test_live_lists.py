"""Lists in a browser: nothing is asked while nothing changes, and what changes is seen all the same."""

import json
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from urllib.parse import parse_qs, urlsplit

import pytest
from django.db import connection
from django.db.models import F
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, Request, Route, WebSocketRoute, expect

from delegates.models import DelegateTask, TaskLogChunk
from deployments.execution.operations import run_pipeline
from deployments.models import Approval, Execution
from pipelines.models import Pipeline
from rbac.models import Scope, User, UserGroup
from tests.browser.conftest import Visit
from tests.browser.fake_execution_socket import Wire, line
from tests.fixtures.delegates import make_task
from tests.fixtures.processes import wait_until

pytestmark = pytest.mark.browser


class LiveSocket:
    """The server's end of the live socket, and the page's requests."""

    def __init__(self, page: Page) -> None:
        self.page = page
        self.sockets: list[WebSocketRoute] = []
        self.connected: list[dict[str, list[str]]] = []
        self.requests: list[str] = []
        self.refuses_with = 0
        self.is_stale = False
        page.route_web_socket(re.compile("/ws/live/"), self._open)
        page.on("request", self._note)

    def _open(self, socket: WebSocketRoute) -> None:
        self.connected.append(parse_qs(urlsplit(socket.url).query))
        if self.refuses_with:
            socket.close(code=self.refuses_with)
            return
        self.sockets.append(socket)
        socket.send(json.dumps({"type": "watching", "stale": self.is_stale}))

    def _note(self, request: Request) -> None:
        if request.headers.get("hx-request"):
            self.requests.append(request.url)

    def publish_changes(self, *topics: str) -> None:
        self.sockets[-1].send(json.dumps({"type": "changed", "topics": topics}))

    def wait_for(self, is_so: Callable[[], bool], description: str) -> None:
        """Wait while the browser goes on."""

        def check_page() -> bool:
            self.page.evaluate("0")
            return is_so()

        wait_until(check_page, description)


@pytest.fixture
def live(page: Page, complaints: list[str]) -> LiveSocket:
    """A page whose clock the test moves."""
    page.clock.install()
    return LiveSocket(page)


def run(person: User, pipeline: Pipeline, tag: str) -> Execution:
    return run_pipeline(actor=person, pipeline=pipeline, artifact_tag=tag)


def get_topic(live: LiveSocket) -> str:
    return live.connected[-1]["topic"][0]


@pytest.mark.parametrize("place", ["/", "/deployments/", "pipeline"])
def test_a_page_asks_nothing_until_it_hears_of_a_change(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline, deployer: User, place: str
) -> None:
    run(deployer, demo, "1.27")
    visit(f"/pipelines/{demo.pk}/" if place == "pipeline" else place)
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    # The overview fetches its figures once, by itself.
    at_first = ["/figures/?days=14"] if place == "/" else []
    live.wait_for(lambda: len(live.requests) == len(at_first), "what comes after the page")
    page.clock.run_for(60_000)
    assert [url.partition(urlsplit(url).netloc)[2] for url in live.requests] == at_first
    run(deployer, demo, "1.28")
    topics = live.connected[-1]["topic"]
    live.publish_changes(next(topic for topic in topics if topic.startswith(("executions:", "pipeline:"))))
    page.clock.run_for(1000)
    expect(page.get_by_role("link", name="Rolling demo #2").first).to_be_visible()
    assert len(live.requests) == len(at_first) + 1


@pytest.fixture
def approval(execution: Execution) -> Approval:
    """An approval that waits, with a plan."""
    now = timezone.now()
    return Approval.objects.create(
        execution=execution,
        step=execution.stages.get().steps.order_by("position")[0],
        attempt=1,
        requested_at=now,
        expires_at=now + timedelta(days=1),
        minimum_approvals=2,
        plan='{"stages": []}',
        plan_hash="d" * 64,
        planned_at=now,
        refreshes_completed=1,
    )


def test_a_list_of_approvals_shows_a_decision_of_somebody_else(
    page: Page, live: LiveSocket, visit: Visit, approval: Approval
) -> None:
    visit("/approvals/?show=all")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    expect(page.locator("#approvals tbody tr")).to_contain_text("Awaiting approval")
    Approval.objects.update(status="REJECTED", ended_at=timezone.now())
    live.publish_changes(get_topic(live))
    page.clock.run_for(1000)
    expect(page.locator("#approvals tbody tr")).to_contain_text("Rejected")


def test_the_page_of_an_approval_tells_a_change_and_leaves_the_form_alone(
    page: Page, live: LiveSocket, visit: Visit, approval: Approval, deployer: User
) -> None:
    group = UserGroup.objects.create(scope=Scope.objects.account(), identifier="ops", name="Operations")
    group.users.add(deployer)
    approval.groups.add(group)
    visit(f"/approvals/{approval.pk}/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    page.get_by_label("Comment").fill("checked the dashboards")
    news = page.locator("#news")
    for counter, is_told in (
        ("refreshes_requested", False),
        ("refreshes_completed", False),
        ("decision_count", True),
    ):
        Approval.objects.update(**{counter: F(counter) + 1})
        seen = len(live.requests)
        live.publish_changes(get_topic(live))
        page.clock.run_for(1000)
        live.wait_for(lambda: len(live.requests) == seen + 1, "the question")  # noqa: B023
        expect(news).to_be_visible(visible=is_told)
    expect(news).to_contain_text("This approval has changed since you opened this page.")
    expect(news).to_contain_text("Awaiting approval0 of 2 approvals")
    expect(page.get_by_label("Comment")).to_have_value("checked the dashboards")
    Approval.objects.update(status="EXPIRED", ended_at=timezone.now())
    live.publish_changes(get_topic(live))
    page.clock.run_for(1000)
    expect(news).to_contain_text("Expired")
    expect(page.get_by_label("Comment")).to_have_value("checked the dashboards")
    page.get_by_role("link", name="Show the changes").click()
    expect(page.get_by_label("Comment")).to_have_count(0)


def test_a_page_that_hears_of_many_changes_asks_once_a_second(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline
) -> None:
    visit("/deployments/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    seconds = 0

    def pass_second() -> None:
        nonlocal seconds
        seconds += 1
        page.clock.run_for(1000)

    for bursts in range(1, 4):
        for _ in range(50):
            live.publish_changes(get_topic(live))
        live.wait_for(lambda: pass_second() is None and len(live.requests) >= bursts, "a question")  # noqa: B023
    assert len(live.requests) <= seconds


def test_what_changes_while_an_answer_is_under_way_is_asked_for_after_it(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline, deployer: User
) -> None:
    routes: list[Route] = []
    visit("/deployments/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    page.route("**/deployments/", lambda route: route.continue_() if routes else routes.append(route))
    live.publish_changes(get_topic(live))
    page.clock.run_for(1000)
    live.wait_for(lambda: len(routes) == 1, "the first question")
    live.publish_changes(get_topic(live))
    page.clock.run_for(3000)
    assert len(routes) == 1
    routes[0].continue_()
    run(deployer, demo, "1.27")
    live.wait_for(lambda: page.clock.run_for(1000) is None and len(live.requests) == 2, "the second question")
    expect(page.get_by_role("link", name="Rolling demo #1")).to_be_visible()


def test_a_lost_socket_comes_back_and_says_how_old_the_page_is(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline, deployer: User
) -> None:
    visit("/deployments/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    page.clock.run_for(40_000)
    run(deployer, demo, "1.27")
    live.is_stale = True
    live.sockets[-1].close(code=1012)
    expect(page.locator("[data-live-status]")).to_have_text("Reconnecting…")
    page.clock.run_for(1000)
    live.wait_for(lambda: len(live.sockets) == 2, "the next socket")
    assert int(live.connected[-1]["age"][0]) > 40
    page.clock.run_for(1000)
    expect(page.get_by_role("link", name="Rolling demo #1")).to_be_visible()
    expect(page.locator("[data-live-status]")).to_be_hidden()


def test_a_page_without_a_socket_looks_every_few_seconds_and_says_so(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline, deployer: User
) -> None:
    live.refuses_with = 1013
    visit("/deployments/")
    for tries in range(1, 4):
        live.wait_for(lambda: len(live.connected) >= tries, "another try")  # noqa: B023
        page.clock.run_for(4000)
    expect(page.locator("[data-live-status]")).to_have_text("Refreshing every 5 s")
    run(deployer, demo, "1.27")
    page.clock.run_for(6000)
    expect(page.get_by_role("link", name="Rolling demo #1")).to_be_visible()

    live.refuses_with = 0
    live.wait_for(lambda: page.clock.run_for(5000) is None and bool(live.sockets), "a socket")
    expect(page.locator("[data-live-status]")).to_be_hidden()
    live.wait_for(lambda: True, "the answers under way")
    page.clock.run_for(2000)
    request_count = len(live.requests)
    page.clock.run_for(60_000)
    assert len(live.requests) <= request_count + 1


def test_a_socket_that_has_fallen_silent_is_given_up(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline
) -> None:
    visit("/deployments/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    page.clock.run_for(80_000)
    live.wait_for(lambda: len(live.sockets) == 2, "the next socket")


def test_the_socket_of_the_badges_that_has_fallen_silent_is_given_up(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline
) -> None:
    sockets: list[WebSocketRoute] = []

    def open_badges(socket: WebSocketRoute) -> None:
        sockets.append(socket)
        socket.send(json.dumps({"waiting": len(sockets)}))

    page.route_web_socket("**/ws/approvals/", open_badges)
    visit("/deployments/")
    badge = page.locator("[data-badge=waiting] .badge").first
    expect(badge).to_contain_text("1")
    page.clock.run_for(60_000)
    sockets[0].send(json.dumps({"waiting": 1}))
    live.wait_for(lambda: True, "the message")
    page.clock.run_for(60_000)
    assert len(sockets) == 1
    page.clock.run_for(20_000)
    live.wait_for(lambda: len(sockets) == 2, "the next socket")
    expect(badge).to_contain_text("2")


def test_who_may_not_listen_is_told_and_does_not_try_again(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline
) -> None:
    live.refuses_with = 4403
    visit("/deployments/")
    expect(page.locator("[data-live-status]")).to_have_text("Live updates stopped. Reload the page.")
    page.clock.run_for(60_000)
    assert len(live.connected) == 1
    assert live.requests == []


@pytest.fixture
def watching(
    page: Page, complaints: list[str], live_broker: str, site: str, demo: Pipeline, deployer: User
) -> str:
    """The address of a web server that has sockets, where the deployer is signed in."""
    client = Client()
    client.force_login(deployer)
    cookies = [{"name": name, "value": cookie.value, "url": site} for name, cookie in client.cookies.items()]
    page.context.add_cookies(cookies)
    return site


def test_a_run_of_somebody_else_appears_by_itself(
    page: Page, watching: str, demo: Pipeline, deployer: User
) -> None:
    page.goto(f"{watching}/deployments/")
    expect(page.get_by_role("heading", name="Get started")).to_be_visible()

    def runs() -> None:
        run(deployer, demo, "1.27")
        connection.close()

    with page.expect_event("websocket", lambda socket: "/ws/live/" in socket.url):
        page.reload()
    # Django takes the loop of Playwright for one of its own.
    with ThreadPoolExecutor(1) as thread:
        thread.submit(runs).result()
    expect(page.get_by_role("link", name="Rolling demo #1")).to_be_visible()


def test_a_page_that_slept_says_how_old_it_is_by_the_clock_on_the_wall(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline
) -> None:
    visit("/deployments/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    # The other clock of the browser stood still.
    page.evaluate("Date.now = ((now) => () => now() + 8 * 3600 * 1000)(Date.now)")
    live.sockets[-1].close()
    page.clock.run_for(3000)
    live.wait_for(lambda: len(live.sockets) == 2, "the next socket")
    assert int(live.connected[-1]["age"][0]) >= 8 * 3600


def test_an_ended_execution_that_somebody_reopens_goes_on_in_front_of_others(
    page: Page, live: LiveSocket, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/")
    connection_state = page.locator("[data-connection]")
    expect(connection_state).to_have_text("Live")
    wire.state = {**wire.state, "status": "SUCCESS"}
    wire.end()
    expect(connection_state).to_have_text("Ended")
    live.wait_for(lambda: bool(live.sockets), "the socket of the topics")
    assert live.connected[-1]["topic"] == [f"timeline:{execution.pk}"]
    count = len(wire.connected)
    wire.state = {**wire.state, "status": "ROLLING_BACK"}
    live.publish_changes(f"timeline:{execution.pk}")
    page.clock.run_for(1500)
    expect(connection_state).to_have_text("Live")
    expect(page.locator("[data-x-status]")).to_contain_text("Rolling back")
    assert len(wire.connected) == count + 1


def test_lines_that_are_added_to_the_log_of_an_ended_execution_appear(
    page: Page, live: LiveSocket, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/")
    connection_state = page.locator("[data-connection]")
    expect(connection_state).to_have_text("Live")
    wire.log = [line(number) for number in range(1, 4)]
    wire.state = {**wire.state, "status": "SUCCESS", "last_line": 3}
    wire.send_lines(*wire.log)
    wire.end()
    expect(connection_state).to_have_text("Ended")
    live.wait_for(lambda: bool(live.sockets), "the socket of the topics")
    wire.log += [line(4, "A line that was hidden"), line(5)]
    wire.state = {**wire.state, "last_line": 5}
    live.publish_changes(f"timeline:{execution.pk}")
    page.clock.run_for(1500)
    expect(page.locator("[data-n='4'] .x")).to_have_text("A line that was hidden")
    expect(page.locator("[data-n='5']")).to_be_attached()
    expect(connection_state).to_have_text("Ended")


def test_calls_go_on_after_more_of_them_were_loaded(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    calls = [_build_call(number) for number in range(60)]

    def answer(route: Route) -> None:
        offset = int(parse_qs(urlsplit(route.request.url).query).get("cursor", ["0"])[0])
        rest = f"/api/v1/executions/{execution.pk}/calls?cursor={offset + 50}"
        page_of_calls = {
            "results": calls[offset : offset + 50],
            "next": rest if len(calls) > offset + 50 else None,
        }
        route.fulfill(status=200, content_type="application/json", body=json.dumps(page_of_calls))

    page.route(re.compile(r"/api/v1/executions/[^/]+/calls"), answer)
    visit(f"/deployments/{execution.pk}/?tab=calls")
    rows = page.locator("[data-calls] tbody tr")
    wire.change(calls_count=60)
    expect(rows).to_have_count(50)
    page.get_by_role("button", name="Load more calls").click()
    expect(rows).to_have_count(60)
    calls.extend(_build_call(number) for number in range(60, 63))
    wire.change(calls_count=63)
    expect(rows).to_have_count(63)
    expect(rows.last).to_contain_text("Operation62")


def test_calls_that_were_not_loaded_can_be_loaded_again(
    page: Page, visit: Visit, execution: Execution, wire: Wire, complaints: list[str]
) -> None:
    statuses = [503, 200]
    body = json.dumps({"results": [_build_call(1)], "next": None})
    page.route(
        re.compile(r"/api/v1/executions/[^/]+/calls"),
        lambda route: route.fulfill(status=statuses.pop(0), content_type="application/json", body=body),
    )
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    page.get_by_role("tab", name="AWS calls").click()
    button = page.get_by_role("button", name="The calls were not loaded. Try again")
    expect(button).to_be_visible()
    button.click()
    expect(page.locator("[data-calls] tbody tr")).to_contain_text("Operation1")
    expect(page.get_by_role("button", name="Load more calls")).to_be_hidden()
    assert all("503" in complaint for complaint in complaints)
    complaints.clear()


def _build_call(number: int) -> dict[str, object]:
    return {
        "at": "2026-11-21T10:00:00+00:00",
        "service": "ecs",
        "operation": f"Operation{number}",
        "write": False,
        "state": "ANSWERED",
        "repeats": 1,
        "duration_ms": 12,
    }


def test_a_link_of_a_list_keeps_the_focus_when_the_list_is_fetched_again(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline, deployer: User
) -> None:
    visit("/pipelines/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    link = page.locator("#pipelines").get_by_role("link", name=demo.name, exact=True)
    link.focus()
    page.evaluate("document.querySelector('#pipelines').dataset.isOld = 'yes'")
    live.publish_changes(get_topic(live))
    page.clock.run_for(1000)
    expect(page.locator("#pipelines:not([data-is-old])")).to_be_visible()
    expect(link).to_be_focused()


def test_a_reader_stays_at_the_same_lines_of_a_task_that_is_fetched_again(
    page: Page, live: LiveSocket, visit: Visit, demo: Pipeline
) -> None:
    task = make_task(demo.scope, status="STARTED", started_at=timezone.now(), fence=1)
    lines = [{"t": 1000 * number, "level": "info", "text": f"line {number}"} for number in range(150)]
    TaskLogChunk.objects.create(task=task, sequence=0, count=len(lines), lines=json.dumps(lines))
    DelegateTask.objects.filter(pk=task.pk).update(next_sequence=len(lines))
    visit(f"/delegates/tasks/{task.pk}/")
    live.wait_for(lambda: len(live.sockets) == 1, "the socket")
    log = page.get_by_label("Task log")
    log.focus()
    log.evaluate("list => { list.scrollTop = 500; }")
    page.evaluate("document.querySelector('#delegate-task').dataset.isOld = 'yes'")
    live.publish_changes(f"delegate-task:{task.pk}")
    page.clock.run_for(1000)
    expect(page.locator("#delegate-task:not([data-is-old])")).to_be_visible()
    expect(log).to_be_focused()
    assert log.evaluate("list => list.scrollTop") == 500


def test_the_chosen_step_is_told_to_screen_readers(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    steps = page.locator("[data-x-steps] a[data-step]")
    steps.first.click()
    expect(steps.first).to_have_attribute("aria-current", "true")
    assert steps.count() > 1
    assert {step.get_attribute("aria-current") for step in steps.all()[1:]} <= {None, "false"}


def test_a_button_keeps_the_focus_when_its_part_of_an_execution_is_drawn_again(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    failure = {"code": "X", "message": "It broke", "step": "s", "container": None, "exit_code": None}
    wire.change(status="FAILED", failure=failure)
    button = page.get_by_role("button", name="Go to first error")
    button.focus()
    wire.change(notes=[{"text": "Somebody else has deployed since."}])
    expect(page.get_by_text("Somebody else has deployed since.")).to_be_visible()
    expect(button).to_be_focused()
