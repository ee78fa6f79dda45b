"""The pages of delegates in a browser: what changes is seen without loading anything again."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import pairwise

import pytest
from django.db import connection
from django.test import Client
from django.utils import timezone
from playwright.sync_api import Page, expect

from delegates import live
from delegates.live import LOG_SOURCE_NAME as LOG
from delegates.models import Delegate, DelegateInstance, DelegateLogChunk, DelegateTask
from rbac.models import Scope, User
from tests.fixtures.delegates import make_delegate, make_instance, make_task
from web.live import publish_change_on_commit

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


@pytest.fixture
def delegate(project: Scope) -> Delegate:
    eu_delegate = make_delegate(project, "eu", tags=["prod"])
    make_instance(eu_delegate, tags=["eu-west-1"], version="1.0.0")
    return eu_delegate


@pytest.fixture
def open_list(
    page: Page, complaints: list[str], live_broker: str, site: str, admin: User
) -> Callable[[], None]:
    """Opens the list as an administrator, on a web server that has sockets."""
    client = Client()
    client.force_login(admin)
    page.context.add_cookies(
        [{"name": name, "value": cookie.value, "url": site} for name, cookie in client.cookies.items()]
    )

    def open_page() -> None:
        page.goto(f"{site}/delegates/")

    return open_page


def publish_delegate_change(delegate: Delegate, *, of_its_log: bool = False) -> None:
    """Say that a delegate changed, from a thread in which no loop of Playwright runs."""

    def publish_change() -> None:
        if of_its_log:
            publish_change_on_commit(LOG, delegate.pk)
        else:
            live.publish_delegates_changed(delegate.pk)
        connection.close()

    with ThreadPoolExecutor(1) as thread:
        thread.submit(publish_change).result()


def age_heartbeat(delegate: Delegate, *, seconds: float) -> None:
    """Move the last heartbeat of a delegate into the past."""
    heartbeat_at = timezone.now() - timedelta(seconds=seconds)
    DelegateInstance.objects.filter(delegate=delegate).update(last_heartbeat_at=heartbeat_at)
    publish_delegate_change(delegate)


def test_a_heartbeat_that_stops_changes_the_open_list(
    page: Page, delegate: Delegate, open_list: Callable[[], None]
) -> None:
    open_list()
    row = page.get_by_role("row").filter(has_text="eu-west-1")
    expect(row.locator(".status")).to_have_text("Connected")
    expect(row.locator(".status use")).to_have_attribute("href", "#s-connected")
    row.get_by_role("link", name="eu", exact=True).first.focus()
    age_heartbeat(delegate, seconds=100)
    expect(row.locator(".status")).to_have_text("Late")
    expect(row.locator(".status use")).to_have_attribute("href", "#s-warning")
    expect(page.locator("#announcer")).to_have_text("eu: Late")
    age_heartbeat(delegate, seconds=200)
    delegate_row = page.locator(f'[data-delegate="{delegate.pk}"]')
    expect(delegate_row.locator(".status use")).to_have_attribute("href", "#s-failed")
    # Tags of instances that are not here any more are not shown (N10).
    expect(delegate_row).not_to_contain_text("eu-west-1")
    age_heartbeat(delegate, seconds=0)
    expect(row.locator(".status")).to_have_text("Connected")


def test_a_new_delegate_appears_in_the_open_list(
    page: Page, delegate: Delegate, open_list: Callable[[], None]
) -> None:
    open_list()
    second_delegate = make_delegate(delegate.scope, "second")
    publish_delegate_change(second_delegate)
    expect(page.get_by_role("link", name="second").first).to_be_visible()
    made_once = Delegate.objects.get(pk=second_delegate.pk)
    second_delegate.delete()
    publish_delegate_change(made_once)
    expect(page.get_by_role("link", name="second")).to_have_count(0)


def test_the_page_of_a_delegate_follows_its_log_and_its_status(
    page: Page, site: str, delegate: Delegate, open_list: Callable[[], None], complaints: list[str]
) -> None:
    instance = delegate.instances.get()
    DelegateLogChunk.objects.create(instance=instance, sequence=1, count=1, text="The <b>first</b> line")
    open_list()
    page.goto(f"{site}/delegates/{delegate.pk}/?tab=log")
    expect(page.get_by_role("log")).to_have_text("The <b>first</b> line")
    more = "\n".join(f"line {number}" for number in range(2, 202))
    DelegateLogChunk.objects.create(instance=instance, sequence=2, count=200, text=more)
    publish_delegate_change(delegate, of_its_log=True)
    last = page.get_by_text("line 201", exact=True)
    expect(last).to_be_in_viewport()
    follow = page.get_by_role("button", name="Follow")
    follow.click()
    expect(follow).to_have_attribute("aria-pressed", "false")
    DelegateLogChunk.objects.create(instance=instance, sequence=202, count=3, text="more\nmore\nunseen")
    publish_delegate_change(delegate, of_its_log=True)
    expect(page.get_by_text("unseen")).to_have_count(1)
    expect(page.get_by_text("unseen")).not_to_be_in_viewport()
    age_heartbeat(delegate, seconds=200)
    expect(page.locator("[data-live=status]")).to_have_text("Disconnected")
    expect(page.locator("[data-live=reason]")).to_have_text("No heartbeat for 150 seconds.")
    reloaded = Delegate.objects.get(pk=delegate.pk)
    assert complaints == []
    delegate.delete()
    publish_delegate_change(reloaded)
    expect(page.get_by_text("This delegate was deleted.", exact=True).first).to_be_visible()
    # Its log may be asked for once before the page has heard, and then never again.
    page.wait_for_timeout(2_500)
    assert len(complaints) <= 1
    assert all("404" in complaint for complaint in complaints)
    complaints.clear()


def test_why_tasks_wait_is_shown_and_goes_away_by_itself(
    page: Page, delegate: Delegate, open_list: Callable[[], None], site: str
) -> None:
    def change(work: Callable[[], object]) -> None:
        with ThreadPoolExecutor(1) as thread:
            thread.submit(lambda: (work(), connection.close())).result()

    page.clock.install()
    open_list()
    page.goto(f"{site}/delegates/{delegate.pk}/")
    reason = page.get_by_text("1 task waits for a delegate that fits")
    expect(page.locator("#delays")).to_be_attached()
    expect(reason).not_to_be_attached()

    change(lambda: make_task(delegate.scope, reason="No delegate has the tag gpu."))
    page.clock.run_for(10_000)
    expect(reason).to_be_visible()
    expect(page.get_by_role("link", name="Show queued tasks")).to_be_visible()

    change(DelegateTask.objects.all().delete)
    page.clock.run_for(10_000)
    expect(reason).not_to_be_attached()


def test_a_part_of_a_delegate_in_which_something_was_pressed_is_fetched_again(
    page: Page, delegate: Delegate, open_list: Callable[[], None], site: str
) -> None:
    arn = "arn:aws:ecs:us-east-1:123456789012:task/demo/0123456789"
    delegate.instances.update(ecs={"task_arn": arn, "cluster": "demo"}, version="1.0.0")
    open_list()
    page.goto(f"{site}/delegates/{delegate.pk}/")
    button = page.get_by_role("button", name="Copy the ARN of the ECS task")
    button.click()
    expect(page.locator("#announcer")).to_have_text("Copied")
    delegate.instances.update(version="1.0.1")
    publish_delegate_change(delegate)
    expect(page.locator("[data-live=instances]")).to_contain_text("1.0.1")
    expect(button).to_be_focused()


NOTE_ANNOUNCEMENTS = """node => {
    window.said = [];
    const note = () => window.said.push([Date.now(), node.textContent]);
    new MutationObserver(note).observe(node, { childList: true });
}"""


def test_new_lines_of_an_agent_are_announced_every_five_seconds_at_most(
    page: Page, site: str, delegate: Delegate, open_list: Callable[[], None]
) -> None:
    instance = delegate.instances.get()
    open_list()
    page.goto(f"{site}/delegates/{delegate.pk}/?tab=log")
    page.locator("[data-log-added]").evaluate(NOTE_ANNOUNCEMENTS)
    for number in range(1, 5):
        text = f"line {number}"
        DelegateLogChunk.objects.create(instance=instance, sequence=number, count=1, text=text)
        publish_delegate_change(delegate, of_its_log=True)
        expect(page.get_by_text(text, exact=True)).to_be_visible()
    page.wait_for_timeout(5_500)
    said = page.evaluate("window.said")
    assert sum(int(text.split()[0]) for _, text in said) == 4
    assert all(later - earlier >= 4_900 for (earlier, _), (later, _) in pairwise(said))
