"""The page of one delegate: every part of it, and what people decide there."""

from datetime import timedelta

import pytest
from django.test import Client
from django.utils import timezone

from connectors.models import Connector
from delegates.models import AllowlistEntry, BlocklistEntry, Delegate, DelegateEvent, InstanceSample
from delegates.queries.history import list_load_quarters
from rbac.models import AuditEntry, Scope, User
from tests.fixtures.delegates import make_delegate, make_instance, make_task
from tests.fixtures.people import make_person

pytestmark = pytest.mark.django_db


@pytest.fixture
def delegate(project: Scope) -> Delegate:
    return make_delegate(project, "eu", tags=["prod"])


@pytest.fixture
def browser(admin: User) -> Client:
    client = Client()
    client.force_login(admin)
    return client


def read_page(client: Client, delegate: Delegate, tab: str = "instances") -> str:
    return client.get(f"/delegates/{delegate.pk}/?tab={tab}").content.decode()


def test_an_instance_is_shown_with_what_it_said_of_itself(delegate: Delegate, browser: Client) -> None:
    arn = "arn:aws:ecs:eu-west-1:123456789012:task/main/0123456789abcdef"
    make_instance(delegate, version="1.4.2", cpu_process=4.2, memory_mib=61.4, ecs={"task_arn": arn})
    page = read_page(browser, delegate)
    for text in ("10.0.0.1", "1.4.2", "4.2 %", "61 MiB", arn, "WebSocket", "0/10"):
        assert text in page


def test_connectors_whose_tags_it_has_are_named(delegate: Delegate, browser: Client) -> None:
    for name, tags in (("Fits", ["prod"]), ("Wants more", ["prod", "us"]), ("Any", [])):
        spec = {"connect_through": "Delegate", "credentials": "Delegate", "delegate_selectors": tags}
        Connector.objects.create(scope=delegate.scope, identifier=name[:3], name=name, spec=spec)
    page = read_page(browser, delegate)
    assert "Fits" in page
    assert "Any" in page
    assert "Wants more" not in page


def test_a_refused_registration_under_its_name_is_shown(delegate: Delegate, browser: Client) -> None:
    event_fields = {
        "scope": delegate.scope,
        "at": timezone.now(),
        "kind": "REFUSED",
        "address": "203.0.113.9",
    }
    DelegateEvent.objects.create(name="eu", text="The account id is another one.", **event_fields)
    DelegateEvent.objects.create(name="us", text="Not of this name.", **event_fields)
    page = read_page(browser, delegate)
    assert "The account id is another one." in page
    assert "203.0.113.9" in page
    assert "Not of this name." not in page


def test_a_day_is_drawn_and_told_as_a_table(delegate: Delegate, browser: Client) -> None:
    now = timezone.now()
    for key, cpu in (("a/1", 10.0), ("b/2", 30.0)):
        instance = make_instance(delegate, key)
        for minutes in (0, 1, 60):
            sample_time = now.replace(minute=0, second=0, microsecond=0) - timedelta(minutes=60 * 2 + minutes)
            InstanceSample.objects.create(
                instance=instance, at=sample_time, cpu_process=cpu, cpu_system=50, memory_mib=60, running=1
            )
        old_time = now - timedelta(hours=25)
        InstanceSample.objects.create(
            instance=instance, at=old_time, cpu_process=99, cpu_system=50, memory_mib=60, running=1
        )
    day = list_load_quarters(delegate, now)
    assert [(sample.cpu, sample.memory, sample.running) for sample in day] == [(20.0, 120.0, 2.0)] * 3
    page = read_page(browser, delegate)
    assert "CPU: 20.0 % now, 20.0 % at most within a day." in page
    assert page.count('<td class="num">20.0 %</td>') == 3


def test_a_day_without_samples_says_so(delegate: Delegate, browser: Client) -> None:
    assert "No measurements yet" in read_page(browser, delegate)


def test_running_tasks_come_before_those_that_are_over(delegate: Delegate, browser: Client) -> None:
    instance, now = make_instance(delegate), timezone.now()
    make_task(
        delegate.scope,
        instance=instance,
        title="It has ended",
        status="SUCCEEDED",
        started_at=now,
        finished_at=now,
    )
    start_time = now - timedelta(hours=1)
    running_task = make_task(
        delegate.scope, instance=instance, title="Under way", status="STARTED", queued_at=start_time
    )
    make_task(delegate.scope, title="Of nobody yet")
    page = read_page(browser, delegate, "tasks")
    assert page.index("Under way") < page.index("It has ended")
    assert f"/delegates/tasks/{running_task.pk}/" in page
    assert "Of nobody yet" not in page


def test_who_uses_a_delegate_of_a_scope_above_sees_no_tasks_of_other_projects(project: Scope) -> None:
    delegate = make_delegate(Scope.objects.account(), "shared")
    other = Scope.objects.create(identifier="other", name="Other", parent=project.parent, kind="PROJECT")
    instance = make_instance(delegate)
    for scope, title in ((project, "Ours"), (other, "Theirs")):
        make_task(scope, instance=instance, title=title, status="STARTED")
    client = Client()
    client.force_login(make_person("reader", "viewer", project))
    page = read_page(client, delegate, "tasks")
    assert "Ours" in page
    assert "Theirs" not in page


def test_a_block_is_shown_with_the_time_left_and_can_be_lifted(delegate: Delegate, browser: Client) -> None:
    expires_at = timezone.now() + timedelta(minutes=4, seconds=30)
    entry = BlocklistEntry.objects.create(
        delegate=delegate, criterion="https://git.example.com", reason="No such host", expires_at=expires_at
    )
    past_time = timezone.now() - timedelta(seconds=1)
    BlocklistEntry.objects.create(
        delegate=delegate, criterion="https://over.example.com", expires_at=past_time
    )
    AllowlistEntry.objects.create(
        delegate=delegate, criterion="https://ecs.example.com", validated_at=past_time, expires_at=expires_at
    )
    page = read_page(browser, delegate, "lists")
    assert "No such host" in page
    assert "4 m" in page
    assert "https://ecs.example.com" in page
    assert "over.example.com" not in page
    response = browser.post(f"/delegates/{delegate.pk}/blocks/{entry.pk}/", follow=True)
    assert "Block removed." in response.content.decode()
    assert not BlocklistEntry.objects.filter(pk=entry.pk).exists()
    assert "removed the block for https://git.example.com" in read_page(browser, delegate, "events")


def test_buttons_follow_what_a_delegate_is(delegate: Delegate, browser: Client, viewer: User) -> None:
    def list_actions() -> set[str]:
        page = read_page(browser, delegate)
        names = ("approve", "reject", "enable", "drain", "disable", "edit", "delete")
        return {name for name in names if f"/delegates/{delegate.pk}/{name}/" in page}

    common_actions = {"edit", "delete"}
    assert list_actions() == common_actions | {"drain", "disable"}
    browser.post(f"/delegates/{delegate.pk}/drain/")
    assert list_actions() == common_actions | {"enable", "disable"}
    browser.post(f"/delegates/{delegate.pk}/disable/")
    assert list_actions() == common_actions | {"enable"}
    Delegate.objects.update(admission="PENDING_APPROVAL")
    assert list_actions() == common_actions | {"approve", "reject"}
    browser.force_login(viewer)
    assert list_actions() == set()


def test_disabling_the_built_in_delegate_names_the_connectors_that_stop(
    delegate: Delegate, browser: Client
) -> None:
    Connector.objects.create(scope=delegate.scope, identifier="aws", name="From here", spec={})
    built_in = Delegate.objects.get(is_built_in=True)
    page = browser.get(f"/delegates/{built_in.pk}/disable/").content.decode()
    assert "These connectors stop working" in page
    assert "From here" in page
    response = browser.post(f"/delegates/{built_in.pk}/disable/", follow=True)
    assert "Delegate built-in disabled." in response.content.decode()


def test_tags_are_edited_as_a_text(delegate: Delegate, browser: Client) -> None:
    address = f"/delegates/{delegate.pk}/edit/"
    assert 'value="prod"' in browser.get(address).content.decode()
    response = browser.post(address, {"tags": "good, b<d", "description": ""})
    assert response.status_code == 400
    assert "is not a tag" in response.content.decode()
    browser.post(address, {"tags": "prod  eu-1,prod", "description": "New"})
    delegate.refresh_from_db()
    assert (delegate.tags, delegate.description) == (["prod", "eu-1"], "New")


def test_a_delegate_that_is_used_is_deleted_only_when_that_is_said(
    delegate: Delegate, browser: Client
) -> None:
    spec = {"connect_through": "Delegate", "credentials": "Delegate", "delegate_selectors": ["prod"]}
    Connector.objects.create(scope=delegate.scope, identifier="aws", name="Production", spec=spec)
    address = f"/delegates/{delegate.pk}/delete/"
    assert "Connectors use its tags" in browser.get(address).content.decode()
    response = browser.post(address)
    assert response.status_code == 409
    assert "Production" in response.content.decode()
    browser.post(address, {"although_used": "on"})
    assert not Delegate.objects.filter(pk=delegate.pk).exists()


def test_what_keeps_tasks_apart_is_shown_and_projects_may_be_let_share_what_does_not(
    delegate: Delegate, browser: Client
) -> None:
    make_instance(delegate, isolation="users")
    assert "own user for each task" in read_page(browser, delegate)
    assert "cannot isolate tasks" not in read_page(browser, delegate)
    make_instance(delegate, key="bare", isolation="none", script_scope="account/default/shop")
    page = read_page(browser, delegate)
    assert "runs scripts of account/default/shop" in page
    assert "Each runs scripts of one project only" in page
    edit = f"/delegates/{delegate.pk}/edit/"
    assert "Share without isolation" in browser.get(edit).content.decode()
    browser.post(edit, {"description": "", "tags": "prod", "shares_scripts": "on"})
    assert "projects share them" in read_page(browser, delegate)
    detail = browser.get(f"/api/v1/delegates/{delegate.pk}").json()
    assert detail["shares_scripts"] is True
    assert {row["isolation"]: row["script_scope"] for row in detail["instances"]} == {
        "users": "",
        "none": "account/default/shop",
    }
    # By the API it is taken back, and written down as every change is.
    response = browser.patch(
        f"/api/v1/delegates/{delegate.pk}", '{"shares_scripts": false}', content_type="application/json"
    )
    assert response.json()["shares_scripts"] is False
    before = AuditEntry.objects.latest("pk").before
    assert before is not None
    assert before["shares_scripts"] is True
