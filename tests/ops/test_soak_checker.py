"""The checker of a soak finds each broken promise in a small history made by hand."""

import os
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import replace
from email.message import Message
from pathlib import Path
from typing import cast

import pytest

from benchmarks.soak.clocks import build_clock_library, create_clock, set_shift
from benchmarks.soak.crowds import Crowds
from benchmarks.soak.faults import FaultInjector
from benchmarks.soak.history import (
    NUMBERED,
    ExecutionRow,
    History,
    Limits,
    LogRows,
    SandboxWrite,
    ServiceState,
    WriteRow,
    check_history,
    find_expected_tag,
)
from benchmarks.soak.idle_workers import WorkerMonitor
from benchmarks.soak.memory import Sample, compute_slope, read_allocated
from benchmarks.soak.records import choose_production, parse_parameters
from benchmarks.soak.site import Site
from tests.faults.installation import Answer
from tests.faults.killable_process import Part
from tests.fixtures.processes import wait_until

KEY = ("ecs", "UpdateService", "abc")
LIMITS = Limits(open=600, overdue=120, bad_tags=frozenset({"crash"}))
RUN = ExecutionRow("e1", "app1", "1.27", "SUCCESS", "COMPLETED", 60, False, None, 4)
WRITE, EFFECT = WriteRow(7, "e1", KEY, "ANSWERED"), SandboxWrite(3, KEY, changed=True)
LOG = LogRows("e1", [(1, 2), (3, 4)], [f"{NUMBERED}1", f"{NUMBERED}2"], expected=2)
STATE = ServiceState("app1", "1.27", True, [RUN])
GOOD = History([RUN], [WRITE], [EFFECT], [LOG], [STATE])


def test_a_history_without_fault_has_no_breach() -> None:
    assert check_history(GOOD, LIMITS) == []


@pytest.mark.parametrize(
    ("changes", "promise", "rows"),
    [
        ({"effects": [EFFECT, replace(EFFECT, number=4)]}, "an effect more than once", "call 7"),
        ({"writes": []}, "an effect without a row", "UpdateService"),
        ({"writes": [replace(WRITE, state="NOT_SENT")]}, "an effect more than once", "NOT_SENT"),
        ({"effects": []}, "an answered write without an effect", "call 7"),
        ({"logs": [replace(LOG, spans=[(1, 2), (4, 4)])]}, "a missing line", "4-4"),
        ({"logs": [replace(LOG, spans=[(1, 2)])]}, "a missing line", "4 lines"),
        ({"logs": [replace(LOG, spans=[(1, 2), (2, 4)])]}, "a line more than once", "2-4"),
        ({"logs": [replace(LOG, texts=[f"{NUMBERED}2"])]}, "a missing line", "[1]"),
        ({"logs": [replace(LOG, texts=[f"{NUMBERED}1"])]}, "a missing line", "[2]"),
        ({"logs": [replace(LOG, texts=["1 line was lost here: x"])]}, "a missing line", "1 of 2 stated"),
        ({"logs": [replace(LOG, texts=[*LOG.texts, f"{NUMBERED}2"])]}, "a line more than once", "[2]"),
        ({"logs": [replace(LOG, texts=[*reversed(LOG.texts)])]}, "lines out of order", "[2, 1]"),
        ({"executions": [replace(RUN, tag="crash")]}, "a wrong status", "crash"),
        ({"services": [replace(STATE, tag="1.26")]}, "a wrong status", "1.26"),
        ({"services": [replace(STATE, is_steady=False)]}, "a wrong status", "not steady"),
    ],
)
def test_a_broken_promise_is_named_with_its_rows(changes: dict[str, object], promise: str, rows: str) -> None:
    (breach,) = check_history(replace(GOOD, **changes), LIMITS)
    assert breach.promise == promise
    assert rows in breach.rows
    assert breach.execution == ("e1" if changes != {"writes": []} else "")


@pytest.mark.parametrize(
    "changes",
    [
        {"overdue": None},
        {"overdue": 121.0},
        {"overdue": -5.0, "age": 601.0},
        {"overdue": -3600.0, "age": -3500.0},
    ],
)
def test_an_execution_that_nothing_will_continue_is_hung(changes: dict[str, object]) -> None:
    row = replace(RUN, status="RUNNING", outcome="", is_open=True, **changes)
    breaches = check_history(replace(GOOD, executions=[row], services=[]), LIMITS)
    assert [(breach.promise, breach.execution) for breach in breaches] == [("a hung execution", "e1")]


def test_nothing_may_be_open_at_the_end_whatever_clock_it_was_started_by() -> None:
    row = replace(RUN, status="QUEUED", outcome="", is_open=True, overdue=-5.0, age=-3500.0)
    (breach,) = check_history(replace(GOOD, executions=[row], services=[]), replace(LIMITS, open=0))
    assert breach.promise == "a hung execution"


def test_work_that_goes_on_is_no_breach() -> None:
    row = replace(RUN, status="RUNNING", outcome="", is_open=True, overdue=-5.0)
    planned, late = replace(WRITE, state="PLANNED"), replace(EFFECT, is_early=False)
    stated = replace(LOG, texts=["12 lines of output were not kept. The last one: x"])
    assert check_history(History([row], [planned], [late], [stated], []), LIMITS) == []


@pytest.mark.parametrize(
    "text",
    [
        "2 lines were lost: the disk of the delegate is full.",
        "1,200 lines are missing: the spool of the delegate was full.",
        "One line was lost: damaged on the disk of the delegate.",
    ],
)
def test_lines_that_a_log_states_as_missing_are_not_lost_in_silence(text: str) -> None:
    log = replace(LOG, texts=[f"{NUMBERED}1", text])
    assert check_history(replace(GOOD, logs=[log]), LIMITS) == []
    doubled = replace(LOG, texts=[*LOG.texts, f"{NUMBERED}2", text])
    (breach,) = check_history(replace(GOOD, logs=[doubled]), LIMITS)
    assert breach.promise == "a line more than once"


def test_a_rolled_back_service_runs_the_image_before_and_a_failed_one_any() -> None:
    rolled_back = replace(RUN, tag="crash", status="FAILED", outcome="ROLLED_BACK")
    assert find_expected_tag([RUN, rolled_back]) == "1.27"
    assert find_expected_tag([RUN, replace(rolled_back, outcome="FAILED")]) is None


def test_parameters_of_the_query_protocol_are_those_of_the_journal() -> None:
    sent = {
        "ListenerArn": "a",
        "DefaultActions.member.1.Type": "forward",
        "DefaultActions.member.2.Type": "x",
    }
    assert parse_parameters(sent) == {
        "ListenerArn": "a",
        "DefaultActions": [{"Type": "forward"}, {"Type": "x"}],
    }


def test_the_slope_of_memory_is_in_percent_of_its_mean_an_hour() -> None:
    samples = [Sample(minute * 60, 100 + minute / 60) for minute in range(60)]
    slope = compute_slope(samples)
    assert slope is not None
    assert slope == pytest.approx(1.0, rel=0.01)
    assert compute_slope(samples[:2]) is None


FORK = """
import os, signal
block = bytearray(b"x") * 40_000_000
child = os.fork()
if child:
    print(child, flush=True)
    os.waitpid(child, 0)
    print("ended", flush=True)
signal.pause()
"""


def test_the_end_of_a_child_is_no_growth_of_its_parent() -> None:
    with subprocess.Popen([sys.executable, "-c", FORK], stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        child = int(parent.stdout.readline())
        with_child = read_allocated(parent.pid)
        os.kill(child, signal.SIGKILL)
        assert parent.stdout.readline() == "ended\n"
        alone = read_allocated(parent.pid)
        parent.kill()
    assert with_child > 40_000_000 / 1024
    assert alone == pytest.approx(with_child, rel=0.02)


WORKER = """
import os, signal, time
if not os.fork():
    end = time.process_time() + {seconds}
    while time.process_time() < end:
        pass
    print("done", flush=True)
signal.pause()
"""


@pytest.mark.parametrize(("seconds", "idle"), [(0, ["w took no part for 400 s"]), (0.6, [])])
def test_a_worker_whose_children_use_no_processor_takes_no_part(seconds: float, idle: list[str]) -> None:
    monitor = WorkerMonitor()
    program = [sys.executable, "-c", WORKER.format(seconds=seconds)]
    with subprocess.Popen(program, stdout=subprocess.PIPE, text=True, start_new_session=True) as worker:
        assert worker.stdout is not None
        monitor.record({"w": worker.pid}, now=100)
        assert worker.stdout.readline() == "done\n"
        for now in (250, 500):
            monitor.record({"w": worker.pid}, now=now)
        os.killpg(worker.pid, signal.SIGKILL)
    assert monitor.list_idle() == idle


def build_service(name: str, group: str, status: str = "ACTIVE") -> dict[str, object]:
    return {"serviceName": name, "status": status, "loadBalancers": [{"targetGroupArn": group}]}


@pytest.mark.parametrize(
    ("status", "is_error"), [(200, False), (503, False), (0, False), (302, True), (500, True)]
)
def test_a_page_may_be_unavailable_but_not_fail(status: int, is_error: bool) -> None:
    crowds = Crowds(cast(Site, None))
    crowds.record("/pipelines/", Answer(status, Message(), b"what was shown"))
    assert crowds.answers == {f"page {status}": 1}
    assert bool(crowds.errors) is is_error
    assert all(f"/pipelines/ was answered {status}" in error for error in crowds.errors)


@pytest.mark.parametrize(
    ("services", "production"),
    [
        ([build_service("web__1", "blue"), build_service("web__2", "green")], "web__2"),
        ([build_service("web__1", "green"), build_service("web__2", "green", "INACTIVE")], "web__1"),
        ([build_service("web__1", "blue")], "web (production of 0 services)"),
        (
            [build_service("web__1", "green"), build_service("web__2", "green")],
            "web (production of 2 services)",
        ),
    ],
)
def test_production_of_a_pair_is_the_service_behind_the_load_balancer(
    services: list[dict[str, object]], production: str
) -> None:
    assert choose_production("web", services, {"green"}) == production


@pytest.mark.parametrize(
    ("counts", "failures", "is_enough"),
    [
        ({"kill": 43}, {}, True),
        ({"kill": 42, "change": 1}, {"change": 2}, True),
        ({"kill": 43}, {"change": 2}, False),
        ({"kill": 37, "change": 3}, {"change": 3}, False),
        ({}, {}, False),
    ],
)
def test_a_soak_needs_nearly_all_faults_and_each_kind_that_failed_once_at_least(
    counts: dict[str, int], failures: dict[str, int], is_enough: bool
) -> None:
    injector = FaultInjector(cast("Site", None), 20, Counter(counts), failures=Counter(failures))
    assert injector.has_injected == is_enough


def test_a_jump_of_the_clock_moves_the_time_of_a_process_but_not_its_durations(tmp_path: Path) -> None:
    library = build_clock_library(tmp_path)
    clock = create_clock(tmp_path, "server", library)
    set_shift(clock.path, -3600)
    program = (
        "import datetime, time; print(time.time(), datetime.datetime.now().timestamp(), time.monotonic())"
    )
    result = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, **clock.variables},
        check=True,
        capture_output=True,
        text=True,
    )
    expected = time.time() - (3600 if library else 0)
    first, second, monotonic = map(float, result.stdout.split())
    assert (first, second) == (pytest.approx(expected, abs=60), pytest.approx(expected, abs=60))
    assert monotonic == pytest.approx(time.monotonic(), abs=60)


@pytest.mark.parametrize(("program", "early_ends"), [("exit 3", [3]), ("exec sleep 60", [])])
def test_a_process_that_ends_by_itself_is_distinguished_from_one_that_is_killed(
    program: str, early_ends: list[int], tmp_path: Path
) -> None:
    part = Part("part", ["/bin/sh", "-c", program], environment=dict(os.environ), folder=tmp_path)
    part.start()
    if early_ends:
        wait_until(lambda: not part.is_alive, "its end")
    part.kill()
    assert part.early_ends == early_ends
