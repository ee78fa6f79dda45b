"""What the agent holds, and the moment from which a write is too late."""

import json
import threading
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from delegates.agent.agent import Agent, ProtocolLimits
from delegates.agent.executors import ExecutorContext, TaskResult, dispatch, execute_task
from delegates.agent.executors.task_results import build_failure, build_success
from delegates.agent.logs import uploads
from delegates.agent.logs.spool import LogSpool, SpooledTaskLog
from delegates.agent.manager_client import ManagerUnreachable, RequestRefused
from delegates.agent.task_runner import _complete, get_assignment_time, renew_leases
from delegates.agent.tasks import AgentTask, HeldTask, HeldTasks
from tests.delegates.agent.fake_servers import start_http_server
from tests.delegates.agent.held_tasks import MemoryLog


def build_task(task_id: str = "t", *, kind: str = "aws", age: float = 0, **fields: object) -> AgentTask:
    params = {"service": "ecs", "operation": "UpdateService", "region": "us-east-1", "params": {}}
    task_fields = {"id": task_id, "kind": kind, "fence": 1, "params": params, **fields}
    return AgentTask(**task_fields, acquired_at=time.monotonic() - age)


def test_capacity_is_kept_and_given_back() -> None:
    tasks = HeldTasks(2)
    first, second = tasks.add(build_task("a")), tasks.add(build_task("b"))
    assert (tasks.free, tasks.idle.is_set()) == (0, False)
    tasks.remove(first, failed=False)
    tasks.remove(second, failed=True)
    assert (tasks.free, tasks.idle.is_set()) == (2, True)
    assert (tasks.ended_count, tasks.failed_count) == (2, 1)


def test_the_most_at_once_is_told_to_each_asker_since_it_asked_last() -> None:
    tasks = HeldTasks(5)
    assert tasks.read_peak_counts("heartbeat") == (0, 0)
    held_tasks = [tasks.add(build_task(name)) for name in "abc"]
    held_tasks.append(tasks.add(build_task("d", kind="check")))
    for held_task in held_tasks:
        tasks.remove(held_task, failed=False)
    assert tasks.read_peak_counts("heartbeat") == (3, 1)
    assert tasks.read_peak_counts("heartbeat") == (0, 0)


def test_abort_and_loss_stop_a_task_and_are_told_apart() -> None:
    tasks = HeldTasks(5)
    aborted_task, lost_task, other = (tasks.add(build_task(name)) for name in "abc")
    tasks.stop(["a"], ["b", "unknown"])
    assert (aborted_task.is_aborted, aborted_task.is_lost) == (True, False)
    assert (lost_task.is_aborted, lost_task.is_lost) == (False, True)
    assert not other.stopped.is_set()


def test_a_task_acquired_again_replaces_its_older_attempt() -> None:
    tasks = HeldTasks(5)
    first_attempt, second_attempt = tasks.add(build_task("a")), tasks.add(build_task("a"))
    assert first_attempt.is_lost
    tasks.remove(first_attempt, failed=True)
    assert tasks.list_running() == [second_attempt]


def test_a_late_loss_of_an_attempt_leaves_the_next_one_alone() -> None:
    tasks = HeldTasks(5)
    tasks.add(build_task("a", fence=1))
    reported = tasks.list_fences()
    second_attempt = tasks.add(build_task("a", fence=2))
    tasks.stop(["a"], ["a"], fences=reported)
    assert not second_attempt.stopped.is_set()
    tasks.stop([], ["a"], fences=tasks.list_fences())
    assert second_attempt.is_lost


def test_a_renewal_stops_only_the_attempt_that_it_named() -> None:
    work, ended = HeldTasks(5), threading.Event()
    work.add(build_task("a", fence=1))
    lost_task = work.add(build_task("b", fence=1))
    second_attempts: list[HeldTask] = []

    def renew(path: str, body: dict[str, Any], **_: object) -> dict[str, Any]:
        # The task comes back while the manager answers.
        second_attempts.append(work.add(build_task("a", fence=2)))
        ended.set()
        return {"lost": [task["id"] for task in body["tasks"]]}

    limits = ProtocolLimits(renew_seconds=0.01)
    renew_leases(cast(Agent, SimpleNamespace(work=work, ended=ended, limits=limits, post_with_session=renew)))
    assert lost_task.is_lost
    assert [attempt.stopped.is_set() for attempt in second_attempts] == [False]


def test_an_answer_that_lay_in_the_socket_counts_from_when_it_was_given() -> None:
    requested_at = time.monotonic() - 90
    assert get_assignment_time({"held_seconds": 12.0}, requested_at) == requested_at + 12
    assert get_assignment_time({"held_seconds": 500.0}, requested_at) <= time.monotonic()


def test_a_write_is_not_sent_more_than_five_seconds_after_it_was_acquired() -> None:
    result = execute_task(HeldTask(build_task(is_write=True, age=5.1)), ExecutorContext(MemoryLog()))
    assert result.status == TaskResult.NOT_SENT
    assert result.error is not None
    assert result.error["code"] == "TooLate"


def test_a_task_that_was_aborted_before_it_began_is_not_run() -> None:
    held_task = HeldTask(build_task())
    held_task.stopped.set()
    assert execute_task(held_task, ExecutorContext(MemoryLog())).status == TaskResult.ABORTED


def test_an_operation_outside_the_list_says_how_to_allow_it() -> None:
    params = {"service": "s3", "operation": "PutObject", "region": "us-east-1", "params": {}}
    result = execute_task(HeldTask(build_task(params=params)), ExecutorContext(MemoryLog()))
    assert result.error is not None
    assert result.error["code"] == "OperationNotAllowed"
    assert result.error["capability"] is False
    assert "SLIPWAY_DELEGATE_ALLOW_OPERATIONS=s3:PutObject" in result.error["message"]


def test_an_endpoint_whose_name_only_the_proxy_resolves_is_called(monkeypatch: pytest.MonkeyPatch) -> None:
    paths: list[str] = []
    params: dict[str, Any] = {"service": "ecs", "operation": "ListClusters", "region": "us-east-1"}
    params["credentials"] = {"kind": "access_key", "access_key_id": "AKIA", "secret_access_key": "s"}

    def answer(request: Any) -> tuple[int, dict[str, str], bytes]:
        paths.append(request.path)
        return 200, {}, b"{}"

    with start_http_server(answer) as proxy:
        monkeypatch.setenv("http_proxy", proxy)
        for host, code in (("ecs.invalid", None), ("169.254.169.254", "AddressRefused")):
            task = build_task(params=params | {"endpoint_url": f"http://{host}"})
            error = execute_task(HeldTask(task), ExecutorContext(MemoryLog())).error
            assert (error or {}).get("code") == code, error
    assert paths == ["http://ecs.invalid/"]


def test_a_task_of_an_unknown_kind_says_to_upgrade() -> None:
    result = execute_task(HeldTask(build_task(kind="teleport")), ExecutorContext(MemoryLog()))
    assert result.error is not None
    assert "upgrade" in result.error["message"]


def test_parameters_that_lack_something_fail_only_their_task() -> None:
    result = execute_task(
        HeldTask(build_task(params={"service": "ecs", "operation": "UpdateService"})),
        ExecutorContext(MemoryLog()),
    )
    assert result.error is not None
    assert result.error["code"] == "BadParameters"


class PickyManager:
    """A manager that refuses answers in which there is something long."""

    def __init__(self) -> None:
        self.bodies: list[dict[str, Any]] = []

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        self.bodies.append(dict(body))
        if len(str(body)) > 10_000:
            raise RequestRefused(413, "too_large", "The body is too large.", body={}, retry_after=0)
        return {}

    def complete(self, result: TaskResult, lines: SpooledTaskLog) -> dict[str, Any]:
        """Complete a task, and return the answer that was accepted."""
        agent = SimpleNamespace(ended=threading.Event(), post_with_session=self.post)
        _complete(cast(Agent, agent), HeldTask(build_task()), lines, result.to_json() | {"fence": 1})
        return self.bodies[-1]


@pytest.mark.parametrize(
    "result",
    [
        build_success({"text": "x" * 20_000}),
        build_failure("GitFailed", "x" * 20_000, capability=True),
        TaskResult(
            TaskResult.NOT_SENT, error={"kind": "NotSent", "code": "TooLate", "message": "x" * 20_000}
        ),
    ],
)
def test_an_answer_that_is_too_large_is_replaced_by_a_short_one(result: TaskResult, tmp_path: Path) -> None:
    manager = PickyManager()
    answer = manager.complete(result, LogSpool(tmp_path, 1_000_000).open("t", 1))
    assert len(manager.bodies) == 2
    assert (answer["fence"], answer["result"], answer["error"]["code"]) == (1, None, "AnswerRefused")
    was_done = result.status == TaskResult.SUCCEEDED
    assert answer["status"] == ("FAILED" if was_done else result.status)
    kept = {} if was_done else result.error or {}
    assert answer["error"]["kind"] == kept.get("kind", "TaskError")
    assert answer["error"]["capability"] == kept.get("capability", False)


class AwayManager:
    """A manager that is away at first, and then accepts a task's lines until it has the answer."""

    def __init__(self, folder: Path, *, away_seconds: float, accepts_lines: bool = True) -> None:
        self.away_until, self.accepts_lines = time.monotonic() + away_seconds, accepts_lines
        self.events: list[str] = []
        self.lock = threading.Lock()
        self.agent = cast(
            Agent,
            SimpleNamespace(
                ended=threading.Event(),
                registered=threading.Event(),
                limits=ProtocolLimits(log_flush_seconds=0.05),
                spool=LogSpool(folder, 1_000_000),
                post_with_session=self.post,
            ),
        )

    def post(self, path: str, body: dict[str, Any] | bytes) -> dict[str, Any]:
        with self.lock:
            if time.monotonic() < self.away_until:
                raise ManagerUnreachable("away")
            if isinstance(body, dict):
                self.events.append(f"answer after {body['next_sequence']}")
                return {}
            if not self.accepts_lines:
                raise RequestRefused(400, "bad_input", "The lines are not valid.", body={}, retry_after=0)
            if self.events and self.events[-1].startswith("answer"):
                raise RequestRefused(409, "task_answered", "finished", body={}, retry_after=0)
            chunk = json.loads(body)
            self.events.append(f"{len(chunk['lines'])} lines")
            return {"next": chunk["sequence"] + len(chunk["lines"])}

    def complete(self) -> list[str]:
        """Complete a task with 40 lines like the agent, and return what arrived."""
        lines, held_task = self.agent.spool.open("t", 1), HeldTask(build_task())
        for number in range(40):
            lines.write("INFO", f"line {number}")
        lines.close()
        uploads.upload_remaining_lines(self.agent, held_task, lines)
        _complete(self.agent, held_task, lines, build_success({}).to_json() | {"fence": 1})
        self.agent.ended.set()
        return self.events


@pytest.mark.parametrize("has_uploader", [False, True])
def test_the_last_lines_arrive_before_the_answer_after_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_uploader: bool
) -> None:
    monkeypatch.setattr(uploads, "FINAL_LINES_SECONDS", 0.1)
    manager = AwayManager(tmp_path, away_seconds=0.5)
    if has_uploader:
        threading.Thread(target=uploads.upload_task_logs, args=(manager.agent,), daemon=True).start()
    assert manager.complete() == ["40 lines", "answer after 40"]


def test_lines_that_the_manager_never_accepts_do_not_block_the_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(uploads, "FINAL_LINES_SECONDS", 0.1)
    manager = AwayManager(tmp_path, away_seconds=0.3, accepts_lines=False)
    assert manager.complete() == ["answer after 40"]


def test_a_long_error_is_cut_once_its_secrets_are_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(held_task: HeldTask, around: ExecutorContext) -> TaskResult:
        raise ValueError(f"{'x' * 3_990}the-secret-value{'y' * 1_000_000}")

    monkeypatch.setitem(dispatch.EXECUTORS, "check", fail)
    task = HeldTask(build_task(kind="check", mask=("the-secret-value",)))
    error = execute_task(task, ExecutorContext(MemoryLog())).error
    assert error is not None
    assert len(error["message"]) == 4_000
    assert error["message"].startswith(f"{'x' * 3_990}•••yyy")
