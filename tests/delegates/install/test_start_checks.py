"""The page that waits for a delegate names why ECS does not run its tasks."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.test import Client
from django.utils import timezone

from connectors.models import Connector
from delegates.access.start_checks import check_start
from delegates.install.plan import SpecPlan
from delegates.install.wizard import WizardAnswers
from delegates.models import Delegate, LookupRequest
from delegates.operations.installation import build_spec_request
from rbac.models import Scope, User
from sandbox.process import SandboxProcess
from tests.delegates.install.test_network_choices import connector, remote
from tests.fixtures.delegates import make_delegate
from tests.fixtures.people import make_person
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
Browse = Callable[[User], Client]
__all__ = ["connector", "remote"]
REASON = (
    "CannotPullContainerError: failed to resolve ref registry.example.com/slipway-delegate:9: "
    "registry.example.com/slipway-delegate:9: not found"
)


@pytest.fixture
def late(project: Scope) -> Delegate:
    """A delegate on ECS that was created two minutes ago."""
    answers = WizardAnswers(cluster="main", image="registry.example.com/slipway-delegate:9")
    delegate = make_delegate(project, "late", kind="ECS", flavour="v3", spec=answers.to_json())
    Delegate.objects.update(created_at=timezone.now() - timedelta(minutes=2))
    delegate.refresh_from_db()
    return delegate


def read_page(client: Client, delegate: Delegate, **query: Any) -> str:
    return str(client.get(f"/delegates/{delegate.pk}/install/waiting/", query).content.decode())


def answer(*failures: str, running: int = 0) -> None:
    """Finish the lookup with a service whose tasks failed for these reasons."""
    rows = [{"at": "2026-01-01T12:00:00+00:00", "source": "task", "reason": reason} for reason in failures]
    report = {"seen": [{"exists": True, "desired": 1, "running": running, "failures": rows}]}
    LookupRequest.objects.update(report=report, finished_at=get_database_time())


def test_without_a_connector_the_page_says_so(admin: User, browse: Browse, late: Delegate) -> None:
    page = read_page(browse(admin), late)
    assert "You can use no connector to AWS near account/default/demo" in page
    assert "No task has started" in page


def test_nothing_is_read_before_the_delegate_is_late(
    admin: User, browse: Browse, late: Delegate, remote: Connector
) -> None:
    Delegate.objects.update(created_at=timezone.now() - timedelta(seconds=50))
    assert "Report of Amazon ECS" not in read_page(browse(admin), late)
    assert not LookupRequest.objects.exists()


def test_the_reason_of_the_last_task_is_read_once_for_all_readers(
    admin: User, browse: Browse, account: Scope, late: Delegate, remote: Connector
) -> None:
    page = read_page(browse(admin), late)
    assert "Reading events and stopped tasks of <code>late-service</code> through Remote" in page
    assert 'data-refresh-seconds="3"' in page
    answer(REASON)
    other = make_person("other", "account_admin", account)
    for client in (browse(admin), browse(other)):
        page = read_page(client, late)
        assert page.index("Image cannot be pulled") > page.index("Report of Amazon ECS")
        assert "cannot be pulled: registry.example.com/slipway-delegate:9." in page
        assert "No task has started" not in page
    lookup = LookupRequest.objects.get()
    assert (lookup.kind, lookup.subject, lookup.region) == (
        "STARTS",
        "main/late-service/late-task",
        "us-east-1",
    )


def test_an_old_answer_is_read_again(admin: User, browse: Browse, late: Delegate, remote: Connector) -> None:
    read_page(browse(admin), late)
    answer(REASON)
    minute_ago = get_database_time() - timedelta(seconds=61)
    LookupRequest.objects.update(requested_at=minute_ago, finished_at=minute_ago)
    assert "Reading events" in read_page(browse(admin), late)
    assert LookupRequest.objects.count() == 2


def test_hostile_reasons_are_text(admin: User, browse: Browse, late: Delegate, remote: Connector) -> None:
    read_page(browse(admin), late)
    answer("CannotPull <script>alert(1)</script>", "role arn:aws:iam::1:role/$(reboot)")
    page = read_page(browse(admin), late)
    assert "<script>" not in page
    assert "--role-name '$(reboot)'" not in page


def test_a_running_task_and_a_missing_service_are_told_apart(
    admin: User, browse: Browse, late: Delegate, remote: Connector
) -> None:
    read_page(browse(admin), late)
    answer(running=1)
    page = read_page(browse(admin), late)
    assert "1 of 1 task of <code>late-service</code> runs" in page
    assert "No task has started" not in page
    LookupRequest.objects.update(report={"seen": []})
    assert "Remote sees no ECS service <code>late-service</code>" in read_page(browse(admin), late)


def test_a_refusal_names_the_permissions(
    admin: User, browse: Browse, late: Delegate, remote: Connector
) -> None:
    read_page(browse(admin), late)
    LookupRequest.objects.update(report={"error": "AWS refused it."}, finished_at=get_database_time())
    page = read_page(browse(admin), late)
    assert "AWS refused it." in page
    assert "needs ecs:DescribeServices, ecs:ListTasks and ecs:DescribeTasks" in page


def test_among_several_connectors_one_is_chosen_and_kept(
    admin: User, browse: Browse, late: Delegate, remote: Connector, connector: Connector
) -> None:
    client = browse(admin)
    assert "Choose a connector to the AWS account of the delegate" in read_page(client, late)
    assert "Choose a connector" in read_page(client, late, connector="9" * 4400), (
        "no number that Python reads"
    )
    assert "through Remote" in read_page(client, late, connector=remote.pk)
    assert "through Remote" in read_page(client, late)


def test_who_may_use_no_connector_sees_neither_it_nor_its_answer(
    admin: User, viewer: User, browse: Browse, late: Delegate, remote: Connector
) -> None:
    read_page(browse(admin), late)
    answer(REASON)
    page = read_page(browse(viewer), late, connector=remote.pk)
    assert "You can use no connector" in page
    assert "failed to resolve ref" not in page


def test_slipway_itself_reads_through_a_connector_of_its_own(
    admin: User, late: Delegate, connector: Connector, sandbox: SandboxProcess
) -> None:
    check = check_start(actor=admin, delegate=late, plan=SpecPlan(build_spec_request(late)))
    assert (check.connector, check.error, check.service) == (connector, "", {})
    assert check.lookup == check_start(actor=admin, delegate=late, plan=check.plan).lookup
