"""The page of a delegate task in a browser: while it waits, what changes is seen without loading it again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect

from delegates.models import DelegateTask
from delegates.operations.delegates import approve_delegate
from delegates.task_queue import route_waiting_tasks
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate, make_instance, make_task

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def run_in_thread(job: Callable[[], object]) -> None:
    """Do something in a thread in which no loop of Playwright runs."""

    def run_job() -> None:
        job()
        connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(run_job).result()


def sign_in(page: Page, url: str, person: User) -> None:
    client = Client()
    client.force_login(person)
    page.context.add_cookies(
        [{"name": name, "value": cookie.value, "url": url} for name, cookie in client.cookies.items()]
    )


def test_a_queued_task_tells_what_changes_and_is_ended_from_its_page(
    page: Page, complaints: list[str], live_broker: str, site: str, project: Scope, admin: User
) -> None:
    delegate = make_delegate(project, "eu", admission="PENDING_APPROVAL")
    make_instance(delegate)
    task = make_task(project, deadline=timezone.now() + timedelta(hours=1))
    run_in_thread(lambda: route_waiting_tasks(timezone.now()))
    sign_in(page, site, admin)
    page.goto(f"{site}/delegates/tasks/{task.pk}/")
    expect(page.get_by_role("heading", name="Why no delegate yet?")).to_be_visible()
    row = page.locator(".routing-table tbody").filter(has=page.get_by_role("rowheader", name="eu"))
    expect(row).to_contain_text("It is waiting for approval. Approve it.")
    expect(row.locator(".status").filter(has_text="No")).to_have_count(1)

    run_in_thread(lambda: approve_delegate(actor=admin, delegate=delegate))
    expect(row).to_contain_text("Next choice")
    expect(row.locator(".status").filter(has_text="No")).to_have_count(0)

    page.get_by_role("button", name="Abort", exact=True).click()
    page.get_by_role("button", name="Keep running").click()
    page.get_by_role("button", name="Abort", exact=True).click()
    page.get_by_role("button", name="Abort task").click()
    expect(page.locator(".page-head .status")).to_have_text("Aborted")
    expect(page.get_by_text("Aborted by admin.")).to_be_visible()
    assert DelegateTask.objects.get().status == "ABORTED"
