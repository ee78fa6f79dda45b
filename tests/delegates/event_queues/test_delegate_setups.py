"""A delegate makes the calls that set up events, where a connector connects through delegates."""

import pytest
from django.test import Client

from connectors.models import Connector, EventQueue, EventQueueSetup
from connectors.operations import start_event_queue_setup, stop_event_queue_setup
from delegates.models import DelegateTask
from delegates.operations.tasks import abort_task
from delegates.task_queue import route_waiting_tasks
from rbac.models import User
from sandbox.process import SandboxProcess
from tests.delegates.event_queues.conftest import REGION, TAG, Worker, list_effects
from tests.fixtures.fake_delegates import Hand, hand
from web.clock import get_database_time

pytestmark = pytest.mark.django_db
NAME = "slipway-events-aws"
PASS = ["GetCallerIdentity", "DescribeStacks"]


def take(agent: Hand, operation: str) -> DelegateTask:
    """Take the task of a call, which is the one that is offered."""
    route_waiting_tasks(get_database_time())
    task = agent.take()
    assert task is not None
    assert agent.taken_operations[-1] == operation
    return task


def look_at_stack(worker: Worker, agent: Hand) -> None:
    """Let an agent make the calls before the creation: whose account it is, and that it has no stack."""
    for _ in PASS:
        worker.advance(1)
        assert agent.serve() == 1


def test_a_click_ends_with_a_queue_that_a_delegate_reads(
    remote_connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess, client: Client
) -> None:
    agent, mark = hand("prod-eu", tags=(TAG,)), sandbox.last_number()
    client.force_login(admin)
    page = f"/connectors/{remote_connector.pk}/"
    values = {"region": REGION, "stack_name": NAME, "confirmed": "on"}
    assert client.post(f"{page}event-queues/set-up/", values).status_code == 302
    worker.advance(1)
    assert "A delegate makes the calls to AWS." in client.get(page).content.decode()
    setup = worker.follow(EventQueueSetup.objects.get(), agent)
    assert (setup.status, setup.message, setup.account) == ("SUCCEEDED", "", "123456789012")
    assert (setup.call_task, setup.last_task, setup.answers) == ("", "", "")
    assert EventQueue.objects.get().queue_url.endswith(f"/{NAME}")
    assert list_effects(sandbox, mark) == ["CreateStack"]
    assert agent.taken_operations[:5] == [*PASS, "CreateStack", *PASS]
    # Each look at the stack is two tasks.
    assert len(agent.taken_operations) <= 3 + 2 * 12


def test_a_lost_answer_of_the_creation_is_found_by_the_tag(
    remote_connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    agent, mark = hand("prod-eu", tags=(TAG,)), sandbox.last_number()
    setup = start_event_queue_setup(actor=admin, connector=remote_connector)
    look_at_stack(worker, agent)
    worker.advance(1)
    task = take(agent, "CreateStack")
    assert (task.is_write, task.repeatable) == (True, False)
    answer = agent.perform(task)
    agent.lose(task)
    worker.advance(1)
    setup.refresh_from_db()
    assert setup.message.endswith("Slipway tries again.")
    # An answer that comes after all is nothing new.
    agent.complete(task, answer)
    assert worker.follow(setup, agent).status == "SUCCEEDED"
    assert list_effects(sandbox, mark) == ["CreateStack"]


def test_a_set_up_waits_for_a_delegate_and_says_so(
    remote_connector: Connector, worker: Worker, admin: User
) -> None:
    setup = start_event_queue_setup(actor=admin, connector=remote_connector)
    worker.advance(1)
    route_waiting_tasks(get_database_time())
    worker.advance(1)
    setup.refresh_from_db()
    assert TAG in setup.message
    assert setup.message.endswith("Slipway tries again.")
    assert worker.follow(setup, hand("prod-eu", tags=(TAG,))).status == "SUCCEEDED"


def test_one_delegate_makes_the_calls_of_a_pass(
    remote_connector: Connector, worker: Worker, admin: User
) -> None:
    """The credentials of another one could be those of another account."""
    agents = [hand(name, tags=(TAG,), hostname=name) for name in ("first", "second")]
    start_event_queue_setup(actor=admin, connector=remote_connector)
    worker.advance(1)
    route_waiting_tasks(get_database_time())
    (task,) = DelegateTask.objects.filter(offered_to__isnull=False)
    agent = next(agent for agent in agents if agent.instance.delegate == task.offered_to)
    other = next(item for item in agents if item is not agent)
    assert agent.serve() == 1
    for _ in range(2):
        worker.advance(1)
        route_waiting_tasks(get_database_time())
        assert other.take() is None
        assert agent.serve() == 1
    assert agent.taken_operations == [*PASS, "CreateStack"]


def test_a_changed_connector_begins_a_pass_again(
    remote_connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    agent, mark = hand("prod-eu", tags=(TAG,)), sandbox.last_number()
    setup = start_event_queue_setup(actor=admin, connector=remote_connector)
    look_at_stack(worker, agent)
    # Between two calls, and while a call is made.
    remote_connector.save()
    worker.advance(1)
    worker.advance(1)
    task = take(agent, "GetCallerIdentity")
    remote_connector.save()
    agent.complete(task, agent.perform(task))
    worker.advance(1)
    agent.serve()
    assert agent.taken_operations == [*PASS, PASS[0], PASS[0]]
    assert worker.follow(setup, agent).status == "SUCCEEDED"
    assert list_effects(sandbox, mark) == ["CreateStack"]


def test_a_refusal_ends_the_set_up_with_the_permission_that_is_missing(
    remote_connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    agent = hand("prod-eu", tags=(TAG,))
    sandbox.fault("denied", service="cloudformation", operation="CreateStack", count=1)
    setup = worker.follow(start_event_queue_setup(actor=admin, connector=remote_connector), agent)
    assert "Allow cloudformation:CreateStack to" in setup.message
    assert setup.message.endswith("Then set up events again.")


def test_an_aborted_call_ends_the_set_up(remote_connector: Connector, worker: Worker, admin: User) -> None:
    hand("prod-eu", tags=(TAG,))
    setup = start_event_queue_setup(actor=admin, connector=remote_connector)
    worker.advance(1)
    abort_task(actor=admin, task=DelegateTask.objects.get(title__startswith="sts:GetCallerIdentity"))
    worker.advance(1)
    setup.refresh_from_db()
    assert (setup.status, setup.message) == (
        "FAILED",
        "Aborted by admin. Set up events again if that was not meant.",
    )


def test_no_delegate_gets_a_call_of_a_stopped_set_up(
    remote_connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    agent, mark = hand("prod-eu", tags=(TAG,)), sandbox.last_number()
    setup = start_event_queue_setup(actor=admin, connector=remote_connector)
    look_at_stack(worker, agent)
    worker.advance(1)
    stop_event_queue_setup(actor=admin, setup=setup)
    assert agent.serve() == 0
    assert (setup.call_task, setup.answers) == ("", "")
    assert list_effects(sandbox, mark) == []


def test_nothing_is_created_with_a_connector_that_changed_since_its_account_was_checked(
    remote_connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    agent, mark = hand("prod-eu", tags=(TAG,)), sandbox.last_number()
    setup = start_event_queue_setup(actor=admin, connector=remote_connector)
    look_at_stack(worker, agent)
    worker.advance(1)
    assert DelegateTask.objects.filter(title__startswith="cloudformation:CreateStack").exists()
    remote_connector.save()
    assert agent.serve() == 0
    assert list_effects(sandbox, mark) == []
    assert worker.follow(setup, agent).status == "SUCCEEDED"
    assert list_effects(sandbox, mark) == ["CreateStack"]


def test_a_pass_whose_delegate_is_deleted_begins_again_with_another_one(
    remote_connector: Connector, worker: Worker, admin: User, sandbox: SandboxProcess
) -> None:
    first, mark = hand("first", tags=(TAG,), hostname="first"), sandbox.last_number()
    setup = start_event_queue_setup(actor=admin, connector=remote_connector)
    look_at_stack(worker, first)
    first.instance.delegate.delete()
    second = hand("second", tags=(TAG,), hostname="second")
    worker.advance(1)
    worker.advance(1)
    assert second.serve() == 1
    assert second.taken_operations == PASS[:1]
    assert worker.follow(setup, second).status == "SUCCEEDED"
    assert list_effects(sandbox, mark) == ["CreateStack"]
