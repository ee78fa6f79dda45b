"""Blue/green through delegates that are lost in the middle of a write: traffic moves once, safely."""

from collections.abc import Iterator

import pytest

from connectors.models import Connector
from delegates.models import Delegate, DelegateTask
from delegates.task_owners import register_task_owner
from delegates.task_queue import route_waiting_tasks
from deployments.execution.operations import roll_back_execution
from deployments.journal.aws_access import CALL_OWNER, open_engine_access
from deployments.journal.call_owner import CallOwner
from deployments.journal.runtime import EngineRuntime
from deployments.models import AwsCall, Execution
from tests.fixtures.engine_driver import Drive
from tests.fixtures.fake_delegates import Hand, hand
from tests.stories.blue_green.shop import STEP, Shop
from web.clock import get_database_time

# A read is judged only if it began after the last write was answered: answers take their time here too.
ROUND_TRIP = 0.1

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def remote(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shop]:
    """The shop with one release, whose connector goes through delegates from now on."""
    shop.run("1")
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "of-the-delegate")
    connector = Connector.objects.get(identifier="sandbox_aws")
    # The client of this test still looks by itself.
    direct = open_engine_access(connector, "us-east-1")
    monkeypatch.setattr(Shop, "call", lambda _, api, verb, /, **params: direct.call(api, verb, params))
    endpoint = {"endpoint_url": connector.spec["endpoint_url"]}
    connector.spec = {
        **endpoint,
        "credentials": "Delegate",
        "connect_through": "Delegate",
        "delegate_selectors": [],
    }
    connector.secret = None
    connector.save()
    runtime = EngineRuntime(open_engine_access, shop.drive.clock.now, shop.drive.clock.monotonic)
    monkeypatch.setattr(Drive, "runtime", runtime)
    register_task_owner(CALL_OWNER, CallOwner(runtime))
    yield shop
    register_task_owner(CALL_OWNER, CallOwner())


def _until_over(shop: Shop, execution: Execution, worker: Hand) -> Execution:
    for _ in range(1500):
        shop.drive.reconcile()
        execution.refresh_from_db()
        if execution.is_over:
            return execution
        if worker.serve():
            shop.drive.clock.move(ROUND_TRIP)
            continue
        shop.visit()
        shop.drive.clock.move(STEP)
        shop.drive.sandbox.advance(STEP)
    raise AssertionError(f"{execution} is still {execution.status}: {shop.drive.log(execution)[-5:]}")


def _until_taken(shop: Shop, worker: Hand, operation: str) -> DelegateTask:
    """Serve until a call of this operation was taken, and leave that one unanswered."""
    for _ in range(1500):
        shop.drive.reconcile()
        route_waiting_tasks(get_database_time())
        task = worker.take()
        if task is None:
            shop.drive.clock.move(STEP)
            shop.drive.sandbox.advance(STEP)
        elif worker.taken_operations[-1] == operation:
            return task
        else:
            worker.complete(task, worker.perform(task))
            shop.drive.clock.move(ROUND_TRIP)
    raise AssertionError(f"{operation} never came")


def _replace_delegate(first: Hand, task: DelegateTask, *, is_made: bool) -> Hand:
    """The delegate dies after it sent the call, or before; another one takes over."""
    if is_made:
        first.perform(task)
    Delegate.objects.filter(name="first").update(admission="DISABLED")
    first.lose(task)
    assert AwsCall.objects.get(pk=int(task.owner_ref)).state == "UNKNOWN"
    return hand("second", hostname="ip-10-0-1-8")


def test_a_swap_whose_delegate_is_lost_takes_effect_once(remote: Shop) -> None:
    before = remote.state()
    mark, first = remote.drive.mark(), hand("first")
    execution = remote.drive.start("2")
    task = _until_taken(remote, first, "ModifyListener")
    second = _replace_delegate(first, task, is_made=False)
    _until_over(remote, execution, second)
    assert (execution.status, execution.outcome) == ("SUCCESS", "COMPLETED"), remote.drive.log(execution)
    assert remote.drive.effects(mark).count("ModifyListener") == 2
    roll_back_execution(actor=remote.drive.deployer, execution=execution)
    remote.drive.reconcile()
    _until_over(remote, execution, second)
    assert execution.outcome == "ROLLED_BACK", remote.drive.log(execution)
    assert remote.state() == before
    assert remote.meetings == []


def test_a_rollback_whose_delegate_is_lost_goes_on_with_the_next_one(remote: Shop) -> None:
    before, first = remote.state(), hand("first")
    execution = _until_over(remote, remote.drive.start("2"), first)
    roll_back_execution(actor=remote.drive.deployer, execution=execution)
    task = _until_taken(remote, first, "ModifyListener")
    second = _replace_delegate(first, task, is_made=True)
    _until_over(remote, execution, second)
    assert execution.outcome == "ROLLED_BACK", remote.drive.log(execution)
    assert remote.state() == before
    assert remote.meetings == []
