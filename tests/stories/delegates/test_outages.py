"""What is cut, killed or flushed between agents and manager costs neither a result nor a line of a log."""

import json
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import pytest
import redis
from django.utils import timezone

from delegates.models import DelegateTask, TaskLogChunk
from delegates.models.delegates import get_account_id
from delegates.operations.tasks import submit_task
from rbac.models import Scope
from tests.faults.killable_process import Part
from tests.fixtures.agents import Api, Manager, Refusal, StartAgent, request_json
from tests.fixtures.processes import wait_until
from tests.stories.delegates.proxy import Proxy, proxied

pytestmark = pytest.mark.django_db(transaction=True)
LINES = 60
PAUSE = 0.05
SCRIPT = f"for n in $(seq 1 {LINES}); do echo line $n; sleep {PAUSE}; done"


@pytest.fixture
def network(manager: Manager) -> Iterator[Proxy]:
    """The network between the agents of these stories and their manager."""
    with proxied(urlsplit(manager.url).port or 80) as proxy:
        yield proxy


@pytest.fixture
def agent(api: Api, network: Proxy, start_agent: StartAgent, live_broker: str) -> Part:
    """A connected agent, whose only way is the network."""
    environment = {
        "HARNESS_ACCOUNT_ID": get_account_id(),
        "HARNESS_TOKEN": api.token()["token"],
        "HARNESS_URL": network.url,
        "HARNESS_NAME": "survivor",
        "SLIPWAY_DELEGATE_HEARTBEAT": "1",
    }
    started = start_agent(environment)
    api.until("survivor", "CONNECTED")
    return started


def submit(scope: Scope, script: str = SCRIPT, *, to: str = "survivor") -> DelegateTask:
    return submit_task(
        scope=scope,
        kind=DelegateTask.Kind.SHELL,
        title="Sixty lines",
        payload={"script": script, "environment": {}, "outputs": [], "interpreter": "bash"},
        timeout_seconds=600,
        # Else the workers might do it themselves.
        selectors=[to],
    )


def status(task: DelegateTask) -> str:
    task.refresh_from_db()
    return task.status


def lines(task: DelegateTask) -> list[str]:
    """Return the output of the task in line order."""
    chunks = TaskLogChunk.objects.filter(task=task).order_by("sequence")
    texts = [line["text"] for chunk in chunks for line in json.loads(chunk.lines)]
    return [text for text in texts if text.startswith("line ")]


def until_writing(task: DelegateTask) -> None:
    """Wait until the manager has the first lines: the agent is in the middle of it."""
    wait_until(lambda: lines(task), "the first line")


def expect_all(task: DelegateTask, *, within: float = 30) -> None:
    wait_until(lambda: status(task) not in DelegateTask.OPEN, "the end of the task", within)
    assert (task.status, task.attempts) == (DelegateTask.Status.SUCCEEDED, 1), task.reason
    wait_until(lambda: len(lines(task)) >= LINES, "the last line")
    assert lines(task) == [f"line {n}" for n in range(1, LINES + 1)]


def test_a_network_that_is_cut_loses_nothing(agent: Part, network: Proxy, account: Scope, api: Api) -> None:
    task = submit(account)
    until_writing(task)
    network.cut()
    wait_until(lambda: api.delegate("survivor")["status"] != "CONNECTED", "the manager's suspicion")
    network.mend()
    expect_all(task)
    api.until("survivor", "CONNECTED")


def test_without_sockets_the_agent_polls(agent: Part, network: Proxy, account: Scope, api: Api) -> None:
    network.bar_sockets()

    def is_polling() -> bool:
        (instance,) = api.delegate("survivor")["instances"]
        return bool(instance["connection"] == "POLLING")

    wait_until(is_polling, "polling")
    task = submit(account)
    expect_all(task)


def test_a_manager_that_is_killed_finds_its_agents_and_their_tasks_again(
    agent: Part, manager: Manager, account: Scope, api: Api
) -> None:
    task = submit(account)
    until_writing(task)
    manager.kill()
    manager.start()
    expect_all(task)
    expect_all(submit(account))


def test_a_flushed_broker_costs_nothing(agent: Part, broker_url: str, account: Scope) -> None:
    task = submit(account)
    until_writing(task)
    with redis.Redis.from_url(broker_url) as client:
        client.flushall()
    expect_all(task)
    expect_all(submit(account))


def _slowly(seconds: float) -> str:
    """The same lines, over so many seconds."""
    return SCRIPT.replace(f"sleep {PAUSE}", f"sleep {seconds / LINES:.2f}")


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_five_minutes_without_sockets_cost_a_running_task_nothing(
    agent: Part, network: Proxy, account: Scope, api: Api
) -> None:
    task = submit(account, _slowly(310))
    until_writing(task)
    network.bar_sockets()
    time.sleep(300)
    assert api.delegate("survivor")["status"] == "CONNECTED"
    network.mend()
    expect_all(task, within=60)


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.parametrize("seconds", [10, 25, 120])
def test_an_outage_of_slipway_itself_costs_a_running_task_nothing(
    agent: Part, manager: Manager, account: Scope, seconds: int
) -> None:
    task = submit(account, _slowly(seconds + 20))
    until_writing(task)
    manager.kill()
    time.sleep(seconds)
    manager.start()
    expect_all(task, within=60)


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_a_network_cut_for_longer_than_a_lease_is_told_as_such_and_what_came_late_is_kept(
    agent: Part, network: Proxy, account: Scope
) -> None:
    task = submit(account, _slowly(20))
    DelegateTask.objects.filter(pk=task.pk).update(repeatable=False)
    until_writing(task)
    network.cut()
    wait_until(lambda: status(task) == DelegateTask.Status.FAILED, "the loss", 60)
    assert (task.error or {})["code"] == "DELEGATE_LOST"
    network.mend()
    wait_until(lambda: task.late_answers.exists(), "the late answer", 60)
    assert status(task) == DelegateTask.Status.FAILED


def test_an_answer_under_an_old_fence_is_refused(manager: Manager, api: Api, account: Scope) -> None:
    slow = _registered(manager.url, api.token("slow")["token"], "slow")
    task = submit(account, "echo done", to="slow")
    wait_until(lambda: _offered(task) == "slow", "the offer")
    acquired = _acquire(manager.url, slow)
    assert acquired["id"] == str(task.pk)
    DelegateTask.objects.filter(pk=task.pk).update(fence=acquired["fence"] + 1, lease_until=timezone.now())
    answer = {
        "fence": acquired["fence"],
        "status": "SUCCEEDED",
        "result": {"exit_code": 0, "outputs": {}},
        "error": None,
        "next_sequence": 0,
        "duration_ms": 1,
    }
    with pytest.raises(Refusal) as refused:
        request_json(manager.url, "POST", f"/agent/v1/tasks/{task.pk}/complete", answer, Authorization=slow)
    assert refused.value.status == 409
    assert "stale_fence" in refused.value.problem
    assert status(task) != DelegateTask.Status.SUCCEEDED
    assert task.late_answers.count() == 1


def _registered(url: str, token: str, name: str) -> str:
    """Register by hand; the header that the session is shown with."""
    body = {
        "account_id": get_account_id(),
        "name": name,
        "instance_key": f"{name}/127.0.0.1",
        "hostname": name,
        "private_ip": "127.0.0.1",
        "version": "1.0.0",
        "flavour": "v3",
        "kind": "DOCKER",
        "tags": [],
        "capacity": 1,
        "ecs": None,
        "time": timezone.now().timestamp(),
    }
    answer = request_json(url, "POST", "/agent/v1/register", body, Authorization=f"Bearer {token}")
    header = f"Bearer {answer['session']}"
    beat = {"running": [], "cpu_process": 0, "cpu_system": 0, "memory_mib": 1, "max_executing": 0}
    request_json(url, "POST", "/agent/v1/heartbeat", {**beat, "draining": False}, Authorization=header)
    return header


def _offered(task: DelegateTask) -> str:
    task.refresh_from_db()
    return task.offered_to.name if task.offered_to else ""


def _acquire(url: str, session: str) -> dict[str, Any]:
    answer = request_json(
        url, "POST", "/agent/v1/tasks/acquire", {"wait_seconds": 5, "free": 1}, Authorization=session
    )
    (task,) = answer["tasks"]
    acquired: dict[str, Any] = task
    return acquired
