"""A person decides about a step that waits, and sees first what a rollback would undo."""

import re
from copy import deepcopy
from datetime import timedelta
from typing import Literal

import pytest
from django.utils import timezone
from playwright.sync_api import Page, Route, expect

from deployments.execution.restored_executions import pause_open_executions
from deployments.models import AwsCall, Execution, Interrupt, RollbackValue, StepExecution
from steps.actions.leftover_services import Leftover
from steps.actions.waits import WAITS_UNTIL
from tests.browser.conftest import Visit
from tests.browser.fake_execution_socket import Wire
from tests.browser.test_accessibility import violations

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]

FAMILY = "arn:aws:ecs:us-east-1:123456789012:task-definition/web"


def _step(execution: Execution) -> StepExecution:
    return StepExecution.objects.get(stage__execution=execution, section="EXECUTION")


@pytest.fixture(autouse=True)
def silent(page: Page) -> None:
    """A server without sockets: the page knows only its first content."""
    page.route_web_socket("**/ws/**", lambda socket: None)


@pytest.fixture
def waiting(execution: Execution) -> Execution:
    """A deployment that has updated its ECS service, failed, and waits for a person for an hour."""
    step, now = _step(execution), timezone.now()
    step.status, step.started_at = "INTERVENTION_WAITING", now
    step.failure = {
        "code": "FAILED",
        "message": "Essential container nginx exited with code 1.",
        "step": step.identifier,
        "container": "nginx",
        "exit_code": 1,
    }
    step.intervention = {
        "kind": "FAILED",
        "requested_at": now.isoformat(),
        "until": (now + timedelta(hours=1)).isoformat(),
        "on_timeout": "StageRollback",
    }
    step.outputs = {"serviceName": "myapp", "taskDefinitionArn": f"{FAMILY}:2", "desiredCount": 4}
    step.save()
    before = f'{{"status": "ACTIVE", "task_definition": "{FAMILY}:1", "desired": 2, "raw": {{}}}}'
    RollbackValue.objects.create(step=step, run=1, name="service before", value=before)
    row = step.actions.get(name="CreateOrUpdateService")
    row.state = "DONE"
    row.save()
    AwsCall.objects.create(
        execution=execution,
        step=step,
        action=row,
        attempt=1,
        phase="start",
        number=0,
        service="ecs",
        operation="UpdateService",
        is_write=True,
        params_hash="0",
        parameters="{}",
        planned_at=now,
        state="ANSWERED",
    )
    execution.status, execution.due_at = "INTERVENTION_WAITING", now + timedelta(hours=2)
    execution.save()
    execution.stages.update(status="RUNNING")
    return execution


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_the_decision_is_offered_with_its_reason_and_the_time_that_is_left(
    page: Page, visit: Visit, waiting: Execution, scheme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    visit(f"/deployments/{waiting.pk}/")
    notice = page.locator(".decision")
    expect(notice).to_contain_text("waits for a decision")
    expect(notice).to_contain_text("Essential container nginx exited with code 1.")
    expect(notice).to_contain_text("then the stage is rolled back")
    expect(notice).to_contain_text(re.compile(r"Time left: (59 m \d\d s|1 h 00 m)"))
    expect(notice.get_by_role("button")).to_have_text(
        ["Retry", "Skip", "Ignore", "Mark as success", "Mark as failure", "Roll back", "Abort"]
    )
    assert violations(page) == []


def test_the_keyboard_decides_and_the_decision_is_kept(page: Page, visit: Visit, waiting: Execution) -> None:
    visit(f"/deployments/{waiting.pk}/")
    button = page.locator(".decision").get_by_role("button", name="Ignore")
    button.focus()
    page.keyboard.press("Enter")
    dialog = page.get_by_role("dialog", name="Ignore: ")
    expect(dialog).to_contain_text("Continue with the next step; the failure stays visible.")
    assert violations(page) == []
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert not Interrupt.objects.exists()
    page.keyboard.press("Enter")
    dialog.get_by_role("button", name="Ignore").focus()
    with page.expect_navigation():
        page.keyboard.press("Enter")
    interrupt = Interrupt.objects.get(execution=waiting)
    assert (interrupt.kind, interrupt.step, interrupt.by) == (
        "IGNORE",
        _step(waiting).identifier,
        waiting.started_by,
    )


def test_skipping_a_step_that_only_waits_speaks_of_no_changes(
    page: Page, visit: Visit, execution: Execution
) -> None:
    step, now = _step(execution), timezone.now()
    step.status, step.started_at = "ASYNC_WAITING", now
    step.outputs = {WAITS_UNTIL: (now + timedelta(minutes=9)).isoformat()}
    step.save()
    step.actions.filter(name="CreateOrUpdateService").update(state="STARTED", start_done_at=now)
    execution.status, execution.due_at = "ASYNC_WAITING", now + timedelta(hours=2)
    execution.save()
    execution.stages.update(status="RUNNING")
    visit(f"/deployments/{execution.pk}/")
    page.get_by_role("button", name="Skip step").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_text("only lets time pass")).to_be_visible()
    expect(dialog.get_by_text("made all its changes")).to_be_hidden()
    with page.expect_navigation():
        dialog.get_by_role("button", name="Skip step").click()
    assert Interrupt.objects.filter(execution=execution, kind="SKIP").exists()


def _wait_in(wire: Wire, identifier: str) -> None:
    """Send the state of an execution whose first step has this identifier and waits for its result."""
    stages = deepcopy(wire.state["stages"])
    waiting = {"kind": "WAITING", "choices": ["SKIP"], "until": None}
    stages[0]["steps"][0] |= {"identifier": identifier, "name": identifier, "intervention": waiting}
    wire.change(stages=stages, can={**wire.state["can"], "decide": True})


def test_a_dialog_goes_on_asking_about_the_step_that_was_read(
    page: Page, visit: Visit, execution: Execution, wire: Wire
) -> None:
    visit(f"/deployments/{execution.pk}/")
    expect(page.locator("[data-connection]")).to_have_text("Live")
    _wait_in(wire, "first")
    page.get_by_role("button", name="Skip step").click()
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("heading")).to_have_text("Skip step first?")
    _wait_in(wire, "second")
    expect(page.locator("#step-second")).to_be_attached()
    expect(dialog.get_by_role("heading")).to_have_text("Skip step first?")
    expect(dialog.locator("input[name=step]")).to_have_value("first")
    dialog.get_by_role("button", name="Keep waiting").click()
    page.get_by_role("button", name="Skip step").click()
    expect(dialog.get_by_role("heading")).to_have_text("Skip step second?")
    expect(dialog.locator("input[name=step]")).to_have_value("second")


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_an_execution_of_a_restored_backup_asks_whether_it_goes_on(
    page: Page, visit: Visit, execution: Execution, scheme: str, width: int
) -> None:
    page.set_viewport_size({"width": width, "height": 900})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    now = timezone.now()
    pause_open_executions(taken_at=now - timedelta(days=1), now=now)
    visit(f"/deployments/{execution.pk}/")
    notice = page.locator(".decision")
    expect(notice).to_contain_text("comes from a restored database and waits for a decision")
    expect(notice).to_contain_text("Until then Slipway changes nothing.")
    expect(notice.get_by_role("button")).to_have_text(["Go on", "End without changes"])
    assert violations(page) == []
    notice.get_by_role("button", name="End without changes").click()
    dialog = page.get_by_role("dialog", name="End without changes: ")
    with page.expect_navigation():
        dialog.get_by_role("button", name="End without changes").click()
    assert Interrupt.objects.get(execution=execution).kind == "END_UNCHANGED"


def test_what_will_be_undone_is_read_before_somebody_aborts(
    page: Page, visit: Visit, waiting: Execution
) -> None:
    visit(f"/deployments/{waiting.pk}/")
    page.locator("[data-x-abort]").click()
    changes = page.locator("#abort-dialog [data-changes] li")
    expect(changes).to_have_count(2)
    expect(changes.nth(0)).to_contain_text("Service myapp: task definition web:2 back to web:1")
    expect(changes.nth(1)).to_contain_text("Service myapp: restore desired count from 4 to 2")
    assert violations(page) == []


def test_an_earlier_plan_is_not_shown_for_the_one_that_is_being_read(
    page: Page, visit: Visit, waiting: Execution
) -> None:
    visit(f"/deployments/{waiting.pk}/")
    page.locator("[data-x-abort]").click()
    dialog = page.locator("#abort-dialog")
    expect(dialog.locator("[data-changes] li")).to_have_count(2)
    dialog.get_by_role("button", name="Keep running").click()
    routes: list[Route] = []
    page.route("**/undo-plan", lambda route: routes.append(route))
    page.locator("[data-x-abort]").click()
    expect(dialog.get_by_text("Loading changes…")).to_be_visible()
    expect(dialog.locator("[data-changes] li")).to_have_count(0)
    routes[0].continue_()
    expect(dialog.locator("[data-changes] li")).to_have_count(2)


def test_rolling_back_from_the_notice_asks_once_more_with_the_changes(
    page: Page, visit: Visit, waiting: Execution
) -> None:
    visit(f"/deployments/{waiting.pk}/")
    page.locator(".decision").get_by_role("button", name="Roll back").click()
    dialog = page.locator("#decide-rollback-dialog")
    expect(dialog.locator("[data-changes] li")).to_have_count(2)
    with page.expect_navigation():
        dialog.get_by_role("button", name="Roll back").click()
    assert Interrupt.objects.get(execution=waiting).kind == "ROLL_BACK"


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 390)])
def test_leftovers_are_chosen_with_the_reason_beside_them(
    page: Page, visit: Visit, waiting: Execution, monkeypatch: pytest.MonkeyPatch, scheme: str, width: int
) -> None:
    def list_leftovers(**_: object) -> list[Leftover]:
        return [
            Leftover("myappCanary", 1, 1, is_deletable=True, reason="Service myapp runs 2 tasks."),
            Leftover(
                "myapp__1", 2, 2, is_deletable=False, reason="It receives production traffic: 2 tasks in web."
            ),
        ]

    monkeypatch.setattr("deployments.execution.leftovers.list_leftovers", list_leftovers)
    page.set_viewport_size({"width": width, "height": 800})
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    visit(f"/deployments/{waiting.pk}/leftovers/")
    expect(page.get_by_role("checkbox")).to_have_count(1)
    expect(page.get_by_role("row", name="myapp__1")).to_contain_text("In use")
    assert violations(page) == []


@pytest.mark.parametrize(("theme", "width"), [("light", 1280), ("dark", 390)])
def test_a_failed_execution_is_retried_as_its_next_attempt(
    page: Page, visit: Visit, execution: Execution, theme: Literal["light", "dark"], width: int
) -> None:
    execution.stages.update(status="FAILED")
    Execution.objects.filter(pk=execution.pk).update(status="FAILED", due_at=None)
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 900})
    visit(f"/deployments/{execution.pk}/")
    page.get_by_role("link", name="Retry").click()
    expect(page.get_by_role("radio", name="Stage Deploy")).to_be_checked()
    assert violations(page) == []
    page.get_by_role("radio", name="Whole run").check()
    page.get_by_role("button", name="Retry").click()
    page.get_by_text("Attempt 2 of 2").click()
    link = page.get_by_role("link", name=f"Attempt 1: execution {execution.number}")
    expect(link).to_be_visible()
    assert violations(page) == []
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    link.click()
    expect(page.get_by_text("Attempt 1 of 2")).to_be_visible()
    expect(page.get_by_role("link", name="Retry")).to_be_hidden()
